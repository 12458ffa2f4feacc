//! A connection that keeps time: how long a client may be silent, how long it may take for a request's head, how long it
//! may refuse to read.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::head::HeadScan;
use super::server::ConnectionLimits;

/// Whether a request of the connection is being handled (its handler then keeps its own time), whether
/// another may follow, and what was seen in the head of the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requests: AtomicUsize,
    begun: AtomicU64,
    ending: AtomicBool,
    has_two_lengths: AtomicBool,
}

impl Activity {
    /// A request begins; it ends when the guard is dropped.
    pub(super) fn begin(&self) -> Busy {
        self.0.requests.fetch_add(1, Ordering::AcqRel);
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Whether the head of the request that begins has both `Transfer-Encoding` and `Content-Length`. A head
    /// that came while the request before it was handled is not scanned; the parser closes the connection
    /// after such a request.
    pub(super) fn take_two_lengths(&self) -> bool {
        self.0.has_two_lengths.swap(false, Ordering::AcqRel)
    }

    /// No request may follow: a client that has not sent a whole head by now is not waited for.
    pub(super) fn end(&self) {
        self.0.ending.store(true, Ordering::Release);
    }

    fn is_busy(&self) -> bool {
        self.0.requests.load(Ordering::Acquire) > 0
    }

    fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Acquire)
    }

    fn is_ending(&self) -> bool {
        self.0.ending.load(Ordering::Acquire)
    }
}

/// A request that is being handled.
#[derive(Debug)]
pub(super) struct Busy(Activity);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the reading side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A request is being handled.
    Busy,
    /// The first byte of a request.
    Idle,
    /// The rest of its head.
    Head,
}

/// A stream whose reads and writes fail with `TimedOut` when the client takes too long.
#[derive(Debug)]
pub(super) struct TimedStream<S> {
    stream: S,
    limits: ConnectionLimits,
    activity: Activity,
    phase: Phase,
    /// How many requests had begun when the phase was entered.
    begun: u64,
    head: HeadScan,
    read_until: Pin<Box<Sleep>>,
    write_until: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, limits: ConnectionLimits, activity: Activity) -> Self {
        let read_until = Box::pin(sleep(limits.idle_timeout));
        let (phase, begun, head) = (Phase::Idle, activity.begun(), HeadScan::default());
        Self { stream, limits, activity, phase, begun, head, read_until, write_until: None }
    }

    fn enter(&mut self, phase: Phase, within: Duration) {
        self.phase = phase;
        self.read_until.as_mut().reset(Instant::now() + within);
    }

    /// Passes a write's answer on, unless the client has not taken a byte for too long.
    fn timed_write<T>(&mut self, cx: &mut Context<'_>, answer: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if answer.is_ready() {
            self.write_until = None;
            return answer;
        }
        let within = self.limits.write_timeout;
        let until = self.write_until.get_or_insert_with(|| Box::pin(sleep(within)));
        match until.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.activity.is_busy() {
            this.phase = Phase::Busy;
            return Pin::new(&mut this.stream).poll_read(cx, buf);
        }
        // A request may have come and gone without a read in between.
        if this.phase == Phase::Busy || this.begun != this.activity.begun() {
            this.begun = this.activity.begun();
            this.head = HeadScan::default();
            this.enter(Phase::Idle, this.limits.idle_timeout);
        }
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(answer) => {
                if this.phase == Phase::Idle {
                    this.enter(Phase::Head, this.limits.header_timeout);
                }
                if this.head.scan(&buf.filled()[before..]) {
                    this.activity.0.has_two_lengths.store(true, Ordering::Release);
                }
                Poll::Ready(answer)
            }
            Poll::Pending if this.activity.is_ending() => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the server ends")))
            }
            Poll::Pending => match this.read_until.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(too_slow("the client sends nothing"))),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.timed_write(cx, answer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.timed_write(cx, answer)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.stream).poll_flush(cx);
        this.timed_write(cx, answer)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let answer = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.timed_write(cx, answer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(60);
    const WRITE: Duration = Duration::from_secs(20);

    fn timed() -> (TimedStream<DuplexStream>, DuplexStream, Activity) {
        let (server, client) = duplex(16);
        let limits = ConnectionLimits {
            connections_max: 1,
            header_timeout: HEAD,
            idle_timeout: IDLE,
            write_timeout: WRITE,
            grace: Duration::ZERO,
        };
        let activity = Activity::default();
        (TimedStream::new(server, limits, activity.clone()), client, activity)
    }

    /// How long a read takes that ends with an error of this kind.
    async fn read_fails_after(stream: &mut TimedStream<DuplexStream>, kind: io::ErrorKind) -> Duration {
        let begun = Instant::now();
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), kind);
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_idle_until_the_first_byte_and_a_head_after_it() {
        let (mut stream, mut client, _) = timed();
        client.write_all(b"G").await.unwrap();
        stream.read_u8().await.unwrap();
        assert_eq!(read_fails_after(&mut stream, io::ErrorKind::TimedOut).await, HEAD);
        let (mut stream, _client, _) = timed();
        assert_eq!(read_fails_after(&mut stream, io::ErrorKind::TimedOut).await, IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_drips_has_no_more_time_than_one_that_stalls() {
        let (mut stream, mut client, _) = timed();
        let begun = Instant::now();
        let dripping = async {
            loop {
                client.write_all(b"x").await.unwrap();
                sleep(HEAD / 4).await;
            }
        };
        let reading = async { while stream.read_u8().await.is_ok() {} };
        tokio::select! { () = dripping => unreachable!("it drips for ever"), () = reading => {} }
        assert_eq!(begun.elapsed(), HEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn while_a_request_is_handled_nothing_is_timed_and_then_it_is_idle() {
        let (mut stream, mut client, activity) = timed();
        let busy = activity.begin();
        let read = tokio::time::timeout(10 * IDLE, stream.read_u8()).await;
        assert!(read.is_err(), "the handler keeps its own time");
        drop(busy);
        assert_eq!(read_fails_after(&mut stream, io::ErrorKind::TimedOut).await, IDLE);
        client.write_all(b"G").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_request_that_was_answered_between_two_reads_it_is_idle() {
        let (mut stream, mut client, activity) = timed();
        client.write_all(b"G").await.unwrap();
        stream.read_u8().await.unwrap();
        drop(activity.begin());
        assert_eq!(read_fails_after(&mut stream, io::ErrorKind::TimedOut).await, IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn two_lengths_are_told_with_their_request_and_no_other() {
        let (mut stream, mut client, activity) = timed();
        for (head, has_two) in [
            ("A / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", true),
            ("A / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nContent-Length: 1\r\n", false),
        ] {
            let sending = async { client.write_all(head.as_bytes()).await.unwrap() };
            let mut read = vec![0; head.len()];
            let reading = async { stream.read_exact(&mut read).await.unwrap() };
            tokio::join!(sending, reading);
            let busy = activity.begin();
            assert_eq!(activity.take_two_lengths(), has_two, "{head}");
            drop(busy);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_does_not_wait_for_a_head() {
        let (mut stream, mut client, activity) = timed();
        client.write_all(b"G").await.unwrap();
        activity.end();
        assert_eq!(stream.read_u8().await.unwrap(), b'G', "what has come is read");
        assert_eq!(read_fails_after(&mut stream, io::ErrorKind::ConnectionAborted).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (mut stream, mut client, _) = timed();
        let begun = Instant::now();
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!((error.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, WRITE));
        let mut taken = [0; 16];
        client.read_exact(&mut taken).await.unwrap();
        stream.write_all(&[0; 8]).await.expect("a client that reads again is written to");
    }
}
