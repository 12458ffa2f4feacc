//! The smallest HTTP client that shows every byte: one request per connection, read until the server closes it.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer takes longer, unless something hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Asks one server, with or without a key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// What the server answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Reads an answer from all bytes that came.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Self { status, head, body: bytes[end + 4..].to_vec() })
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// The problem's `detail`, after checking that this is a problem with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let json = self.json();
        assert_eq!(json["status"], status);
        assert!(json["type"].as_str().is_some_and(|name| name.starts_with("urn:posthaste:problem:")));
        assert!(!json["title"].as_str().unwrap_or_default().is_empty());
        json["detail"].as_str().expect("a problem has a detail").to_owned()
    }
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"").await
    }

    /// Posts to `/v1/events` with these headers.
    pub(crate) async fn post(&self, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Answer {
        self.ask("POST", "/v1/events", headers, body.as_ref()).await
    }

    /// Posts plain JSON.
    pub(crate) async fn publish(&self, json: impl AsRef<[u8]>) -> Answer {
        self.post(&[("content-type", "application/json")], json).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = self.head(method, path, headers);
        request += &format!("content-length: {}\r\n\r\n", body.len());
        let mut bytes = request.into_bytes();
        bytes.extend_from_slice(body);
        let answer = self.raw(&bytes).await;
        Answer::parse(&answer).unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&answer)))
    }

    /// The head of a request, without its end.
    pub(crate) fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        if let Some(key) = &self.key {
            head += &format!("authorization: Bearer {key}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    /// Sends these bytes and answers everything that comes back until the server closes.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // A server that refuses a long body may close before it has read it all; its answer still counts.
        let _ = stream.write_all(bytes).await;
        read_all(&mut stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server accepts connections")
    }
}

/// Everything that comes until the other side closes.
pub(crate) async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes)).await.expect("the server closes in time").ok();
    bytes
}
