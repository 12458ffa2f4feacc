//! More connections than there may be: which of them stay, who gets in, and what is said about it.

use std::sync::{Arc, Mutex};

use posthaste::memory::Memory;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::subscriber::{DefaultGuard, NoSubscriber};

use crate::http_api::client::{Answer, Client, DEADLINE, read_all};
use crate::http_api::stand::{Stand, Times};

async fn stand(connections_max: usize) -> Stand {
    let patient = 100 * DEADLINE;
    let times = Times { connections_max, idle: patient, body: patient, request: patient, ..Times::default() };
    Stand::with(Memory::new(), |memory| Arc::new(memory), times).await
}

/// Sends a request on a connection that stays open, and reads the beginning of its answer.
async fn ask(client: &Client, stream: &mut TcpStream, path: &str) {
    let key = client.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n{key}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 8192];
    let read = timeout(DEADLINE, stream.read(&mut answer)).await.expect("an answer comes").unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A connection whose request is handled until its body comes.
async fn busy(client: &Client) -> TcpStream {
    let mut stream = client.connect().await;
    let head = client.head("POST", "/v1/events", &[("content-length", "12"), ("expect", "100-continue")]);
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 64];
    let read = timeout(DEADLINE, stream.read(&mut answer)).await.expect("the handler reads").unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 100"));
    stream
}

/// The value of a metric, which all tests of this process share.
async fn metric(stand: &Stand, name: &str) -> u64 {
    let metrics = stand.admin.get("/metrics").await;
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a number"))
}

async fn until_higher(stand: &Stand, name: &str, before: u64) {
    let end = Instant::now() + DEADLINE;
    while metric(stand, name).await <= before {
        assert!(Instant::now() < end, "{name} stays at {before}");
    }
}

/// What is logged by this thread, which is also the server's.
struct Log(Arc<Mutex<Vec<u8>>>, #[expect(dead_code, reason = "it listens as long as it lives")] DefaultGuard);

impl Log {
    fn listen() -> Self {
        // While there is one subscriber, a log line that another thread writes first is turned off for all.
        let _is_set = tracing::subscriber::set_global_default(NoSubscriber::new());
        let lines: Arc<Mutex<Vec<u8>>> = Arc::default();
        let writer = Arc::clone(&lines);
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || Lines(Arc::clone(&writer)));
        let guard = tracing::subscriber::set_default(subscriber.finish());
        Self(lines, guard)
    }

    /// The lines that hold this.
    fn with(&self, what: &str) -> Vec<serde_json::Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(what));
        lines.map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn silent_connections_give_way_to_new_ones_and_it_is_counted_and_logged_once() {
    let log = Log::listen();
    let stand = stand(8).await;
    let before = metric(&stand, "posthaste_http_connections_evicted_total").await;
    let mut silent = Vec::new();
    for n in 0..8 {
        let mut stream = stand.client.connect().await;
        if n % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        }
        silent.push(stream);
    }
    for _ in 0..20 {
        assert_eq!(stand.stranger().get("/healthz").await.status, 200);
        assert_eq!(stand.client.publish(r#"{"type":"x"}"#).await.status, 201);
    }
    assert_eq!(read_all(&mut silent[0]).await, b"", "the longest idle one was closed");
    until_higher(&stand, "posthaste_http_connections_evicted_total", before).await;
    let said = log.with("idle connections are closed for new ones");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((&said[0]["count"], &said[0]["connections_max"]), (&1.into(), &8.into()), "{said:?}");
    assert!(said[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{said:?}");
    stand.stopped().await;
}

#[tokio::test]
async fn a_client_with_a_valid_key_keeps_its_connection_while_strangers_come_and_go() {
    let stand = stand(4).await;
    let mut kept = stand.client.connect().await;
    ask(&stand.client, &mut kept, "/v1/lanes").await;
    let mut strangers = Vec::new();
    for _ in 0..12 {
        let mut stranger = stand.client.connect().await;
        ask(&stand.stranger(), &mut stranger, "/healthz").await;
        strangers.push(stranger);
    }
    assert_eq!(read_all(&mut strangers[0]).await, b"", "a stranger's connection was closed");
    ask(&stand.client, &mut kept, "/v1/lanes").await;
    stand.stopped().await;
}

#[tokio::test]
async fn health_checks_are_answered_while_every_connection_is_busy_and_the_rest_is_told_to_come_back() {
    let log = Log::listen();
    let stand = stand(2).await;
    let mut uploads = vec![busy(&stand.client).await, busy(&stand.client).await];
    let before = metric(&stand, "posthaste_http_connections_refused_total").await;
    for path in ["/healthz", "/readyz", "/startupz", "/metrics"] {
        let answer = stand.client.get(path).await;
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{path}");
    }
    for _ in 0..3 {
        let refused = stand.client.publish(r#"{"type":"y"}"#).await;
        assert!(refused.problem(503).contains("too many connections"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    until_higher(&stand, "posthaste_http_connections_refused_total", before).await;
    let said = log.with("new ones are refused");
    assert_eq!((said.len(), &said[0]["count"]), (1, &1.into()), "{said:?}");
    for mut upload in uploads.drain(..) {
        upload.write_all(br#"{"type":"x"}"#).await.unwrap();
        let answer = read_all(&mut upload).await;
        assert_eq!(Answer::parse(&answer).expect("an answer").status, 201);
    }
    let end = Instant::now() + DEADLINE;
    while stand.client.get("/v1/lanes").await.status != 200 {
        assert!(Instant::now() < end, "room is never given back");
    }
    stand.stopped().await;
}

/// Silent connections on the spare places do not keep health checks out.
#[tokio::test]
async fn health_checks_get_in_among_silent_connections_on_a_busy_server() {
    let stand = stand(1).await;
    let upload = busy(&stand.client).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(stand.client.connect().await);
    }
    assert_eq!(stand.stranger().get("/healthz").await.status, 200);
    drop((upload, silent));
    stand.stopped().await;
}

#[tokio::test]
async fn requests_without_a_valid_key_are_counted_and_logged_once_with_the_peer() {
    let log = Log::listen();
    let stand = stand(100).await;
    let before = metric(&stand, "posthaste_http_unauthorized_total").await;
    for _ in 0..3 {
        stand.stranger().get("/v1/lanes").await.problem(401);
    }
    until_higher(&stand, "posthaste_http_unauthorized_total", before + 2).await;
    let said = log.with("without a valid API key");
    assert_eq!(
        (said.len(), &said[0]["count"], &said[0]["level"]),
        (1, &1.into(), &"WARN".into()),
        "{said:?}"
    );
    assert!(said[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{said:?}");
    stand.stopped().await;
}
