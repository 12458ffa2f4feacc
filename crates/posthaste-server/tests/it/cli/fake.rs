//! Programs that listen where a server should, and write down every byte that they are sent.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A program that listens on a port of its own until the test ends.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Fake {
    /// Answers whatever it is asked as a server would, and cannot prove anything.
    pub(crate) fn start() -> Self {
        Self::serving(pretend)
    }

    /// Passes every byte on to this server, and its answers back.
    pub(crate) fn before(server: &str) -> Self {
        let server: SocketAddr = server.parse().unwrap();
        Self::serving(move |client, heard| pass_on(client, server, heard))
    }

    /// Takes connections and never says a word.
    pub(crate) fn silent() -> Self {
        Self::serving(|client, heard| {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = (&client).read(&mut bytes) {
                heard.lock().unwrap().extend_from_slice(&bytes[..length]);
            }
        })
    }

    fn serving(serve: impl Fn(TcpStream, &Mutex<Vec<u8>>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Self { address: listener.local_addr().unwrap(), heard: Arc::default() };
        let (heard, serve) = (Arc::clone(&fake.heard), Arc::new(serve));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (heard, serve) = (Arc::clone(&heard), Arc::clone(&serve));
                std::thread::spawn(move || serve(client, &heard));
            }
        });
        fake
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that it was sent so far.
    pub(crate) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }

    /// It was asked something, and never saw any of this.
    #[track_caller]
    pub(crate) fn assert_never_saw(&self, secrets: &[&str]) {
        let heard = self.heard();
        assert!(heard.contains("HTTP/1.1"), "it was not asked at all: {heard}");
        for secret in secrets {
            assert!(!heard.contains(secret), "it saw {secret}: {heard}");
        }
        assert!(!heard.to_lowercase().contains("authorization"), "{heard}");
    }
}

fn pretend(client: TcpStream, heard: &Mutex<Vec<u8>>) {
    let mut answers = client.try_clone().unwrap();
    let mut client = BufReader::new(client);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if client.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            heard.lock().unwrap().extend_from_slice(line.as_bytes());
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        client.read_exact(&mut body).unwrap();
        heard.lock().unwrap().extend_from_slice(&body);
        let mac = "A".repeat(43);
        let answer = match path.split('?').next().unwrap_or_default() {
            "/version" => r#"{"name":"posthaste","version":"0.1.0"}"#.to_owned(),
            "/v1/proof" => format!(r#"{{"store":"{mac}","known":"{mac}","proof":"{mac}"}}"#),
            _ => {
                r#"{"id":"fake","events":[],"lanes":[],"command":"pause","matched":1,"changed":1}"#.to_owned()
            }
        };
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        if write!(answers, "{head} {}\r\n\r\n{answer}", answer.len()).is_err() {
            return;
        }
    }
}

fn pass_on(client: TcpStream, server: SocketAddr, heard: &Mutex<Vec<u8>>) {
    let Ok(server) = TcpStream::connect(server) else { return };
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let answering = std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = (&client).read(&mut bytes) {
        heard.lock().unwrap().extend_from_slice(&bytes[..length]);
        if (&server).write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = answering.join();
}
