//! The accept loop: a bounded number of connections, each with its timeouts, and an end that lets requests finish.
//!
//! When all connections are open, a new one takes the place of an idle one ([`super::connections`]). When all
//! of them are busy too, a new one gets one of a few spare places, on which only health checks are answered:
//! a supervisor must not take a busy server for a dead one. Everything else is answered 503 there, and the
//! connection is closed.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::counter;
use posthaste::telemetry::metric;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::connections::{Connections, Seat};
use super::problem::{Kind, Problem};
use super::publish::discard;
use super::rarely::Rarely;
use super::router::is_for_health;
use super::stream::{Activity, TimedStream};
use super::strict::TwoLengths;

/// A request's head must fit; an event in binary form has its headers there.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEAD_FIELDS_MAX: usize = 128;
/// The number of places for health checks, and for those that are told that there is no room. A connection
/// beyond them is closed without a word.
const SPARE_MAX: usize = 64;
/// How long a client on a spare place may take for its request's head, and for reading the answer.
const SPARE_HEAD_WITHIN: Duration = Duration::from_secs(1);
/// How long a spare place may be taken in all; a health check that asks the store takes up to 2 s.
const SPARE_FOR: Duration = Duration::from_secs(5);
/// The number of connections that may be closing for new ones while further ones are accepted.
const CLOSING_MAX: usize = 64;
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// How many may be open at once. A connection beyond that takes the place of an idle one; when all of
    /// them are busy, it is answered 503 and closed, so that its client knows, unless it asks for health.
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
                accepted = self.listener.accept(), if serving.can_accept() => accepted,
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
    connections: Connections,
    spare: Connections,
    refusals: Arc<Refusals>,
    evictions: Rarely,
    ending: CancellationToken,
    tasks: JoinSet<()>,
}

impl Serving {
    fn new(router: Router, limits: ConnectionLimits) -> Self {
        Self {
            router,
            limits,
            connections: Connections::new(limits.connections_max),
            spare: Connections::new(SPARE_MAX),
            refusals: Arc::default(),
            evictions: Rarely::default(),
            ending: CancellationToken::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Connections that must go are closed by their own tasks, which must keep up: each has a file
    /// descriptor.
    fn can_accept(&self) -> bool {
        self.tasks.len() < self.limits.connections_max.saturating_add(SPARE_MAX + CLOSING_MAX)
    }

    fn begin(&mut self, stream: TcpStream, peer: Peer) {
        // Answers are small and written at once; waiting to fill a packet only delays them.
        let _ = stream.set_nodelay(true);
        // A connection without a local address is closed already.
        let Ok(local) = stream.local_addr().map(LocalAddress) else { return };
        let (router, ending) = (self.router.clone(), self.ending.clone());
        if let Some(admitted) = self.connections.admit() {
            if admitted.has_evicted {
                self.tell_of_eviction(peer);
            }
            let talk = Conversation { peer, local, seat: admitted.seat, router, spare: None };
            self.tasks.spawn(talk.run(stream, self.limits, ending));
        } else if let Some(admitted) = self.spare.admit() {
            if admitted.has_evicted {
                self.refusals.count(peer);
            }
            let spare = Some(Arc::clone(&self.refusals));
            let talk = Conversation { peer, local, seat: admitted.seat, router, spare };
            let limits = spare_limits(self.limits);
            self.tasks.spawn(async move {
                let _ = timeout(SPARE_FOR, talk.run(stream, limits, ending)).await;
            });
        } else {
            self.refusals.count(peer);
        }
    }

    fn tell_of_eviction(&self, Peer(peer): Peer) {
        counter!(metric::HTTP_CONNECTIONS_EVICTED_TOTAL).increment(1);
        if let Some(count) = self.evictions.count() {
            let connections_max = self.limits.connections_max;
            tracing::warn!(
                count,
                connections_max,
                %peer,
                "server.connections_max is reached; idle connections are closed for new ones (count: since the last such \
                 line; peer: the newest one)"
            );
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

fn spare_limits(limits: ConnectionLimits) -> ConnectionLimits {
    ConnectionLimits {
        header_timeout: limits.header_timeout.min(SPARE_HEAD_WITHIN),
        idle_timeout: limits.idle_timeout.min(SPARE_HEAD_WITHIN),
        write_timeout: limits.write_timeout.min(SPARE_HEAD_WITHIN),
        ..limits
    }
}

/// Counts connections for which there was no room.
#[derive(Debug, Default)]
struct Refusals(Rarely);

impl Refusals {
    fn count(&self, Peer(peer): Peer) {
        counter!(metric::HTTP_CONNECTIONS_REFUSED_TOTAL).increment(1);
        if let Some(count) = self.0.count() {
            tracing::warn!(
                count,
                %peer,
                "server.connections_max is reached and every connection is busy; new ones are refused (count: since the \
                 last such line; peer: the newest one)"
            );
        }
    }
}

/// One connection and who answers on it.
struct Conversation {
    peer: Peer,
    local: LocalAddress,
    seat: Arc<Seat>,
    router: Router,
    /// Set on a spare place, where only health checks are answered.
    spare: Option<Arc<Refusals>>,
}

impl Conversation {
    /// Serves one connection until it ends, until it must be closed for another one, or until its current
    /// request is answered after the end was asked for.
    async fn run(self, stream: TcpStream, limits: ConnectionLimits, ending: CancellationToken) {
        let activity = Activity::default();
        let io = TokioIo::new(TimedStream::new(stream, limits, activity.clone()));
        let service = service_fn(|request: hyper::Request<Incoming>| self.answer(request, &activity));
        let mut protocol = http1::Builder::new();
        // TimedStream tells waiting for a request from sending one, which this timer does not; it stands
        // behind it.
        protocol.timer(TokioTimer::new()).header_read_timeout(limits.idle_timeout + limits.header_timeout);
        protocol.max_buf_size(HEAD_BYTES_MAX).max_headers(HEAD_FIELDS_MAX);
        protocol.keep_alive(self.spare.is_none());
        let mut connection = std::pin::pin!(protocol.serve_connection(io, service));
        let ended = tokio::select! {
            biased;
            () = self.seat.evicted() => return,
            () = ending.cancelled() => {
                activity.end();
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            ended = connection.as_mut() => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        activity: &Activity,
    ) -> Result<Response, Infallible> {
        let busy = activity.begin();
        // Otherwise the connection is closed before this answer is written.
        let response = match self.seat.begin() {
            true => self.routed(request.map(Body::new), activity).await?,
            false => no_room().into_response(),
        };
        self.seat.end();
        drop(busy);
        Ok(response)
    }

    async fn routed(&self, mut request: Request<Body>, activity: &Activity) -> Result<Response, Infallible> {
        if let Some(refusals) = self.spare.as_ref().filter(|_| !is_for_health(request.uri().path())) {
            refusals.count(self.peer);
            discard(request.body_mut()).await;
            return Ok(no_room().into_response());
        }
        let extensions = request.extensions_mut();
        extensions.insert(self.peer);
        extensions.insert(self.local);
        extensions.insert(Arc::clone(&self.seat));
        if activity.take_two_lengths() {
            extensions.insert(TwoLengths);
        }
        self.router.clone().call(request).await
    }
}

fn no_room() -> Problem {
    Problem::new(Kind::Unavailable, "too many connections are open; try again later, and use fewer of them")
}
