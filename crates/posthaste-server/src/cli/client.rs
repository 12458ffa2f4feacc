//! A small HTTP client for the server's own REST: plain HTTP, one request per connection.
//!
//! The server proves itself on each connection before it receives a key, a path or an event
//! ([`crate::proof`]). With https the certificate would prove the server instead. This client does not speak
//! https yet.

mod exchange;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Once;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use self::exchange::{Ask, Distrust, Remote, Trouble};
use super::filter::encoded;
use super::output;
use crate::exit::{Code, Failure};
use crate::http::wire::{AppliedDocument, JobDocument, ProblemDocument};

/// How long a server that may not be there is waited for.
const FIND_TIMEOUT: Duration = Duration::from_secs(3);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What a server made of a command.
pub(super) enum Given {
    /// It is done.
    Done(AppliedDocument),
    /// It takes longer than a request may.
    Job(JobDocument),
}

/// What listens at the configured address.
pub(super) enum FoundServer {
    /// Nothing, or a program that does not speak our REST.
    Nothing,
    /// A program that may be our server and did not prove it, with the failure that says so.
    Unproven(Failure),
    /// A server that knows our key.
    Proven {
        /// Asks that server, for as long as it serves the same store.
        client: Client,
        /// The identity of the store that it serves, if the store has one.
        store: Option<String>,
    },
}

/// Talks to one server.
pub(super) struct Client {
    remote: Remote,
    /// The store that the server must serve; `None`: any.
    store: Option<String>,
    /// Whether the command has said that its answers come through the server.
    told: Once,
}

impl Client {
    /// A client for the server at this URL.
    pub(super) fn new(url: &str, key: Option<SecretString>) -> Result<Self, Failure> {
        if url.starts_with("https:") {
            return Err(Failure::usage(
                "ask the server: https:// is not in this build yet; run the command where the server runs, \
                 with http://HOST:PORT",
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
        Ok(Self { remote: Remote { authority, key }, store: None, told: Once::new() })
    }

    /// Looks for a server at this address. A program that listens there learns neither the key nor an event.
    pub(super) async fn find(mut address: SocketAddr, key: Option<SecretString>) -> FoundServer {
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let remote = Remote { authority: address.to_string(), key };
        let Ok(proven) = timeout(FIND_TIMEOUT, remote.prove()).await else {
            return FoundServer::Unproven(remote.failure(&Trouble::late("prove itself")));
        };
        match proven {
            Ok(store) => {
                let client = Self { remote, store: store.clone(), told: Once::new() };
                FoundServer::Proven { client, store }
            }
            Err(Trouble::Distrusted(Distrust::NoKey)) => {
                // Without a key only this question is left. Any program can give the right answer.
                let is_ours = timeout(FIND_TIMEOUT, remote.claims_to_be_ours()).await;
                if !matches!(is_ours, Ok(Ok(true))) {
                    return FoundServer::Nothing;
                }
                FoundServer::Unproven(remote.failure(&Trouble::Distrusted(Distrust::NoKey)))
            }
            Err(Trouble::Failed(_) | Trouble::Distrusted(Distrust::Stranger)) => FoundServer::Nothing,
            Err(trouble) => FoundServer::Unproven(remote.failure(&trouble)),
        }
    }

    /// The document at this path; `None` when there is none.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await?;
        if status == StatusCode::NOT_FOUND {
            self.tell();
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
            self.tell();
            return serde_json::from_slice(body).map_err(|error| {
                Failure::other(format!("understand the server at {}: {error}", self.remote.authority))
            });
        }
        let problem: Option<ProblemDocument> = serde_json::from_slice(body).ok();
        let detail = problem.map_or_else(|| status.to_string(), |problem| problem.detail);
        let failure = match status {
            StatusCode::FORBIDDEN => {
                Failure::config(format!("ask the server at {}: {detail}", self.remote.authority))
            }
            StatusCode::NOT_FOUND => Failure::nothing(format!("ask the server: {detail}")),
            StatusCode::UNAUTHORIZED => Failure::config(format!(
                "ask the server at {}: it refused the API key; set POSTHASTE_API_KEY or --key-file, or use --store URL",
                self.remote.authority
            )),
            StatusCode::SERVICE_UNAVAILABLE => Failure::new(Code::Store, format!("ask the server: {detail}")),
            status if status.is_client_error() => Failure::usage(format!("ask the server: {detail}")),
            _ => Failure::other(format!("ask the server: {detail}")),
        };
        Err(failure)
    }

    /// Says where answers come from, once per command.
    fn tell(&self) {
        self.told.call_once(|| output::note(&format!("through http://{}", self.remote.authority)));
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes), Failure> {
        let ask = Ask { method, path, body, store: self.store.as_deref() };
        let answer = timeout(REQUEST_TIMEOUT, self.remote.ask(ask)).await;
        answer
            .unwrap_or_else(|_| Err(Trouble::late("answer")))
            .map_err(|trouble| self.remote.failure(&trouble))
    }
}

impl Remote {
    fn failure(&self, trouble: &Trouble) -> Failure {
        let at = &self.authority;
        match trouble {
            Trouble::Distrusted(distrust) => {
                let is_away = matches!(distrust, Distrust::Refused(StatusCode::SERVICE_UNAVAILABLE, _));
                let code = if is_away { Code::Store } else { Code::Config };
                Failure::new(code, format!("ask the server at {at}: {distrust}, or use --store URL"))
            }
            Trouble::Failed(error) => Failure::new(
                Code::Store,
                format!(
                    "ask the server at {at}: {error}; start it there with posthaste serve, or use --store URL"
                ),
            ),
        }
    }
}
