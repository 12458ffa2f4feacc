//! One connection to a server: first the proof, then one request.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::wire::{ProblemDocument, ProofDocument, VersionDocument};
use crate::keys::hash_of;
use crate::proof::{Question, Verdict};

/// How long a server may take to prove itself.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);
/// A page of a thousand events, or one event with the largest payload in base64.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;
/// A proof, or a problem in its place.
const PROOF_BYTES_MAX: usize = 16 * 1024;

type Sender = SendRequest<Full<Bytes>>;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The connection failed.
    Failed(Box<dyn std::error::Error + Send + Sync>),
    /// The program that listens there did not prove itself, so it received nothing.
    Distrusted(Distrust),
}

/// Why a server received nothing but the question.
#[derive(Debug)]
pub(super) enum Distrust {
    /// There is no key to check the server by.
    NoKey,
    /// The server does not know the key.
    UnknownKey,
    /// The server knows the key, and accepted another connection than this one.
    Elsewhere,
    /// The server serves another store than when it was found.
    OtherStore,
    /// The server answered with a problem instead of a proof.
    Refused(StatusCode, String),
    /// The program does not speak our REST.
    Stranger,
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str(
                "without an API key the command cannot check what listens there; set POSTHASTE_API_KEY or --key-file",
            ),
            Self::UnknownKey => f.write_str(
                "it did not prove that it knows the API key, so nothing was sent: the key belongs to another server, \
                 or another program listens there; set POSTHASTE_API_KEY or --key-file",
            ),
            Self::Elsewhere => f.write_str(
                "the proof came from a server on another address, so nothing was sent: a port mapping, a proxy or \
                 another program stands between; https is needed there, or run the command where the server runs",
            ),
            Self::OtherStore => f.write_str("it serves another store than before, so nothing was sent; try again"),
            Self::Refused(_, detail) => write!(f, "it did not prove itself, so nothing was sent: {detail}"),
            Self::Stranger => {
                f.write_str("it does not answer like a posthaste server, so nothing was sent")
            }
        }
    }
}

impl Trouble {
    /// The server took too long.
    pub(super) fn late(what: &str) -> Self {
        Self::Failed(format!("it did not {what} in time").into())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What to ask a server for, once it has proven itself.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) body: Bytes,
    /// The store that the server must serve; `None`: any.
    pub(super) store: Option<&'a str>,
}

/// Where a server is, and the key to check it by.
pub(super) struct Remote {
    pub(super) authority: String,
    pub(super) key: Option<SecretString>,
}

impl Remote {
    /// Lets the server prove itself and asks it for this, on one and the same connection.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Result<(StatusCode, Bytes), Trouble> {
        self.connected(async |mut sender, dialled| {
            let (key, store) = self.proven(&mut sender, dialled).await?;
            if ask.store.is_some() && ask.store != store.as_deref() {
                return Err(Trouble::Distrusted(Distrust::OtherStore));
            }
            sender.ready().await?;
            let request = self
                .request(ask.method, ask.path)
                .header(CONNECTION, "close")
                .header(CONTENT_TYPE, "application/json")
                .header(AUTHORIZATION, format!("Bearer {}", key.expose_secret()))
                .body(Full::new(ask.body))?;
            sent(&mut sender, request, ANSWER_BYTES_MAX).await
        })
        .await
    }

    /// Lets the server prove itself. Answers the identity of its store, if the store has one.
    pub(super) async fn prove(&self) -> Result<Option<String>, Trouble> {
        self.connected(async |mut sender, dialled| Ok(self.proven(&mut sender, dialled).await?.1)).await
    }

    /// Whether it says that it is a posthaste server. That proves nothing.
    pub(super) async fn claims_to_be_ours(&self) -> Result<bool, Trouble> {
        self.connected(async |mut sender, _| {
            let request = self.request(Method::GET, "/version").header(CONNECTION, "close");
            let (_, body) = sent(&mut sender, request.body(Full::default())?, PROOF_BYTES_MAX).await?;
            let version: Option<VersionDocument> = serde_json::from_slice(&body).ok();
            Ok(version.is_some_and(|version| version.name == "posthaste"))
        })
        .await
    }

    /// Opens a connection and talks on it.
    async fn connected<T>(
        &self,
        talk: impl AsyncFnOnce(Sender, SocketAddr) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        let stream = TcpStream::connect(&self.authority).await?;
        let dialled = stream.peer_addr()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut talk = std::pin::pin!(talk(sender, dialled));
        // The connection makes progress only while it is polled. If it ends first, the talk returns the
        // reason.
        tokio::select! {
            said = &mut talk => said,
            _ = connection => talk.await,
        }
    }

    /// Returns the key, once the server may receive it on this connection, and the identity of the server's
    /// store.
    async fn proven(
        &self,
        sender: &mut Sender,
        dialled: SocketAddr,
    ) -> Result<(&SecretString, Option<String>), Trouble> {
        let distrust = |why| Err(Trouble::Distrusted(why));
        let Some(key) = &self.key else { return distrust(Distrust::NoKey) };
        let hash = hash_of(key.expose_secret());
        let question = Question::about(&hash)?;
        let request = self.request(Method::GET, &question.path()).body(Full::default())?;
        let Ok(answer) = timeout(PROOF_TIMEOUT, sent(sender, request, PROOF_BYTES_MAX)).await else {
            return Err(Trouble::late("prove itself"));
        };
        let (status, body) = answer?;
        if status != StatusCode::OK {
            let problem: Option<ProblemDocument> = serde_json::from_slice(&body).ok();
            let refused = |problem: ProblemDocument| Distrust::Refused(status, problem.detail);
            return distrust(problem.map_or(Distrust::Stranger, refused));
        }
        let Ok(answer) = serde_json::from_slice::<ProofDocument>(&body) else {
            return distrust(Distrust::Stranger);
        };
        match question.judge(&hash, &answer, dialled) {
            Verdict::Proven => Ok((key, answer.store)),
            Verdict::Elsewhere => distrust(Distrust::Elsewhere),
            Verdict::Unknown => distrust(Distrust::UnknownKey),
        }
    }

    fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(path).header(HOST, &self.authority)
    }
}

/// Sends a request and reads its answer, at most `bytes_max` bytes of it.
async fn sent(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), Trouble> {
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), bytes_max).collect().await;
    Ok((status, body.map_err(Trouble::Failed)?.to_bytes()))
}
