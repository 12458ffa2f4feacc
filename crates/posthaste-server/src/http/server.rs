//! The accept loop: a bounded number of connections, each with its timeouts, and an end that lets requests finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::gauge;
use posthaste::telemetry::metric;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::problem::{Kind, PROBLEM_JSON, Problem};
use super::stream::{Activity, TimedStream};

/// A request's head must fit; an event in binary form has its headers there.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_FIELDS_MAX: usize = 128;
/// How many refused connections are told why at once; beyond, they are closed without a word.
const REFUSALS_MAX: usize = 64;
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// How many may be open at once. A connection beyond that is answered 503 and closed, so that its client knows.
    pub connections_max: usize,
    /// How long a client may take to send a request's head, from its first byte.
    pub header_timeout: Duration,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// How long a client may take to read on.
    pub write_timeout: Duration,
    /// How long requests may take to finish after the end was asked for.
    pub grace: Duration,
}

/// The server's end of the connection; in every request. A listener on all addresses has another one for each
/// of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalAddress(pub(super) SocketAddr);

/// Who is connected; in every request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// A bound address, ready to serve.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds an address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is taken or may not be used.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// The address that was really bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the end is asked for, then stops accepting, lets requests finish within the grace period, and returns.
    ///
    /// Dropping it closes every connection at once.
    pub async fn run(self, router: Router, limits: ConnectionLimits, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut serving = Serving::new(router, limits);
        let mut pause = ACCEPT_PAUSE_MIN;
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = serving.tasks.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    pause = ACCEPT_PAUSE_MIN;
                    serving.begin(stream, Peer(peer));
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Most likely no file descriptor is left: accepting again at once would only spin.
                    tracing::warn!(%error, pause_ms = pause.as_millis(), "cannot accept connections");
                    tokio::select! { () = &mut shutdown => break, () = sleep(pause) => {} }
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                }
            }
        }
        drop(self.listener);
        serving.end().await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The connections of one server.
struct Serving {
    router: Router,
    limits: ConnectionLimits,
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    ending: CancellationToken,
    tasks: JoinSet<()>,
}

impl Serving {
    fn new(router: Router, limits: ConnectionLimits) -> Self {
        Self {
            router,
            limits,
            connections: Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS))),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            ending: CancellationToken::new(),
            tasks: JoinSet::new(),
        }
    }

    fn begin(&mut self, stream: TcpStream, peer: Peer) {
        // Answers are small and written at once; waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        if let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() {
            let ending = self.ending.clone();
            self.tasks.spawn(converse((stream, peer), self.router.clone(), self.limits, ending, permit));
        } else if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.tasks.spawn(refuse(stream, permit));
        }
    }

    async fn end(mut self) {
        self.ending.cancel();
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(self.limits.grace, finished).await.is_err() {
            tracing::warn!(connections = self.tasks.len(), "requests did not finish within the grace period");
        }
    }
}

/// Serves one connection until it ends, or until its current request is answered after the end was asked for.
async fn converse(
    (stream, peer): (TcpStream, Peer),
    router: Router,
    limits: ConnectionLimits,
    ending: CancellationToken,
    _permit: OwnedSemaphorePermit,
) {
    // A connection without a local address is closed already.
    let Ok(local) = stream.local_addr().map(LocalAddress) else { return };
    let open = gauge!(metric::HTTP_CONNECTIONS);
    open.increment(1);
    let activity = Activity::default();
    let io = TokioIo::new(TimedStream::new(stream, limits, activity.clone()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let busy = activity.begin();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(local);
        let answer = router.clone().call(request);
        async move {
            let answer = answer.await;
            drop(busy);
            answer
        }
    });
    let mut protocol = http1::Builder::new();
    // TimedStream tells waiting for a request from sending one, which this timer does not; it stands behind it.
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.idle_timeout + limits.header_timeout);
    protocol.max_buf_size(HEAD_BYTES_MAX).max_headers(HEAD_FIELDS_MAX);
    let mut connection = std::pin::pin!(protocol.serve_connection(io, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = ending.cancelled() => {
            activity.end();
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
    open.decrement(1);
}

/// Tells a connection that there is no room for it.
async fn refuse(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let problem = Problem::new(
        Kind::Unavailable,
        "too many connections are open; try again later, and use fewer of them",
    );
    let body = serde_json::to_string(&problem.document()).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {PROBLEM_JSON}\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Until the client has closed its side: closing on unread bytes would take the answer back.
        let mut discarded = [0; 1024];
        while stream.read(&mut discarded).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(REFUSAL_WITHIN, told).await;
}
