//! A small HTTP client for the server's own REST: one request per connection, plain HTTP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;

use super::filter::encoded;
use crate::exit::{Code, Failure};
use crate::http::wire::{AppliedDocument, JobDocument, ProblemDocument, VersionDocument};

/// How long a server that may not be there is waited for.
const FIND_TIMEOUT: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A page of a thousand events, or one event with the largest payload in base64.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// What a server made of a command.
pub(super) enum Given {
    /// It is done.
    Done(AppliedDocument),
    /// It takes longer than a request may.
    Job(JobDocument),
}

/// Talks to one server.
pub(super) struct Client {
    authority: String,
    key: Option<SecretString>,
}

impl Client {
    /// A client for the server at this URL.
    pub(super) fn new(url: &str, key: Option<SecretString>) -> Result<Self, Failure> {
        if url.starts_with("https:") {
            return Err(Failure::usage(
                "ask the server: https:// is not in this build yet; use http:// on a private network or through a tunnel",
            ));
        }
        let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let authority =
            authority.filter(|rest| !rest.is_empty() && !rest.contains(['/', '@', '?', '#', ' ']));
        let authority = authority.ok_or_else(|| {
            Failure::usage(format!("ask the server: {url:?} is not its address; write http://HOST:PORT"))
        })?;
        let has_port = authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        Ok(Self { authority, key })
    }

    /// A client for the server that listens here; `None` when nobody does, or somebody else.
    pub(super) async fn find(mut address: SocketAddr, key: Option<SecretString>) -> Option<Self> {
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        // Whoever else listens there learns no key.
        let stranger = Self { authority: address.to_string(), key: None };
        let version = stranger.get::<VersionDocument>("/version");
        let answer = tokio::time::timeout(FIND_TIMEOUT, version).await.ok()?.ok()??;
        (answer.name == "posthaste").then_some(Self { key, ..stranger })
    }

    /// The document at this path; `None` when there is none.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        self.understand(status, &body).map(Some)
    }

    /// Posts a JSON document and reads the answer.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, json: Vec<u8>) -> Result<T, Failure> {
        let (status, body) = self.send(Method::POST, path, json.into()).await?;
        self.understand(status, &body)
    }

    /// Gives a command: it is done when this is answered, or goes on as a job.
    pub(super) async fn give(&self, path: &str) -> Result<Given, Failure> {
        let (status, body) = self.send(Method::POST, path, Bytes::new()).await?;
        if status == StatusCode::ACCEPTED {
            return self.understand(status, &body).map(Given::Job);
        }
        self.understand(status, &body).map(Given::Done)
    }

    /// How far a job is; `stop` asks it to stop.
    pub(super) async fn job(&self, job: &str, stop: bool) -> Result<JobDocument, Failure> {
        let method = if stop { Method::DELETE } else { Method::GET };
        let (status, body) = self.send(method, &format!("/v1/jobs/{}", encoded(job)), Bytes::new()).await?;
        self.understand(status, &body)
    }

    fn understand<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<T, Failure> {
        if status.is_success() {
            return serde_json::from_slice(body).map_err(|error| {
                Failure::other(format!("understand the server at {}: {error}", self.authority))
            });
        }
        let problem: Option<ProblemDocument> = serde_json::from_slice(body).ok();
        let detail = problem.map_or_else(|| status.to_string(), |problem| problem.detail);
        let failure = match status {
            StatusCode::FORBIDDEN => {
                Failure::config(format!("ask the server at {}: {detail}", self.authority))
            }
            StatusCode::NOT_FOUND => Failure::nothing(format!("ask the server: {detail}")),
            StatusCode::UNAUTHORIZED => Failure::config(format!(
                "ask the server at {}: it refused the API key; set POSTHASTE_API_KEY or --key-file, or use --store URL",
                self.authority
            )),
            StatusCode::SERVICE_UNAVAILABLE => Failure::new(Code::Store, format!("ask the server: {detail}")),
            status if status.is_client_error() => Failure::usage(format!("ask the server: {detail}")),
            _ => Failure::other(format!("ask the server: {detail}")),
        };
        Err(failure)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let exchange = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(method, path, body));
        exchange.await.unwrap_or_else(|_| Err("it did not answer in time".into())).map_err(|error| {
            Failure::new(
                Code::Store,
                format!(
                    "ask the server at {}: {error}; start it there with posthaste serve, or use --store URL",
                    self.authority
                ),
            )
        })
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONNECTION, "close")
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, format!("Bearer {}", key.expose_secret()));
        }
        let request = request.body(Full::new(body))?;
        let answer = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
            Ok((status, body))
        };
        let mut answer = std::pin::pin!(answer);
        // The connection makes progress only while it is polled; when it ends first, the answer says why.
        tokio::select! {
            result = &mut answer => result,
            _ = connection => answer.await,
        }
    }
}
