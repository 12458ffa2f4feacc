//! Clients that mean harm, or are merely slow.

use std::time::Duration;

use posthaste::memory::Memory;
use posthaste_server::http::make_room;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http_api::client::{Answer, DEADLINE, read_all};
use crate::http_api::stand::{Stand, Times};

const SOON: Duration = Duration::from_millis(200);

async fn stand(times: Times) -> Stand {
    Stand::with(Memory::new(), |memory| std::sync::Arc::new(memory), times).await
}

async fn is_well(stand: &Stand) {
    assert_eq!(stand.client.publish(r#"{"type":"x"}"#).await.status, 201);
}

#[tokio::test]
async fn malformed_http_is_refused_and_the_server_goes_on() {
    let stand = stand(Times::default()).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000));
    let key = stand.client.key.clone().unwrap();
    let short =
        format!("POST /v1/events HTTP/1.1\r\nauthorization: Bearer {key}\r\ncontent-length: zz\r\n\r\n");
    for (bytes, statuses) in [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), &[400][..]),
        (b"nonsense\r\n\r\n", &[400]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400, 505]),
        (b"GET /\0 HTTP/1.1\r\n\r\n", &[400]),
        (long.as_bytes(), &[414, 431]),
        (many.as_bytes(), &[431]),
        (short.as_bytes(), &[400]),
    ] {
        let answer = stand.client.raw(bytes).await;
        let status = Answer::parse(&answer).map(|answer| answer.status);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
        assert!(status.is_some_and(|status| statuses.contains(&status)), "{shown:?} got {status:?}");
        is_well(&stand).await;
    }
    stand.stopped().await;
}

#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let stand = stand(Times { header: SOON, ..Times::default() }).await;
    let mut slow = stand.client.connect().await;
    slow.write_all(b"GET /healthz HT").await.unwrap();
    assert_eq!(read_all(&mut slow).await, b"", "the connection is closed without an answer");
    is_well(&stand).await;
    stand.stopped().await;
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_after_a_while() {
    let stand = stand(Times { idle: SOON, ..Times::default() }).await;
    let mut silent = stand.client.connect().await;
    assert_eq!(read_all(&mut silent).await, b"");
    let mut kept_alive = stand.client.connect().await;
    kept_alive.write_all(b"GET /healthz HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    let answer = read_all(&mut kept_alive).await;
    assert_eq!(Answer::parse(&answer).expect("one answer, then the end").text(), "ok\n");
    stand.stopped().await;
}

#[tokio::test]
async fn a_body_that_stalls_is_answered_408() {
    let stand = stand(Times { body: SOON, ..Times::default() }).await;
    let mut slow = stand.client.connect().await;
    let head = stand.client.head("POST", "/v1/events", &[("content-length", "100")]);
    slow.write_all(format!("{head}\r\n{{\"type\"").as_bytes()).await.unwrap();
    let answer = read_all(&mut slow).await;
    Answer::parse(&answer).expect("an answer").problem(408);
    is_well(&stand).await;
    stand.stopped().await;
}

/// The body never pauses for long, and never ends either.
#[tokio::test]
async fn a_body_that_drips_is_ended_with_its_request() {
    let stand = stand(Times { request: 2 * SOON, ..Times::default() }).await;
    assert!(drip(&stand, SOON / 10).await.problem(503).contains("took too long"));
    is_well(&stand).await;
    stand.stopped().await;
}

/// Its bytes come one by one, without a long pause.
#[tokio::test]
async fn a_body_that_is_slower_than_the_slowest_rate_is_answered_408() {
    let stand = stand(Times { body: SOON, ..Times::default() }).await;
    assert!(drip(&stand, SOON / 100).await.problem(408).contains("too slowly"));
    is_well(&stand).await;
    stand.stopped().await;
}

/// Sends a body byte by byte until the server ends the connection, and answers what it said.
async fn drip(stand: &Stand, every: Duration) -> Answer {
    let head = stand.client.head("POST", "/v1/events", &[("content-length", "50000")]);
    let (mut reading, mut writing) = stand.client.connect().await.into_split();
    writing.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let dripping = async {
        let mut ticks = tokio::time::interval(every);
        while writing.write_all(b" ").await.is_ok() {
            ticks.tick().await;
        }
    };
    let mut answer = Vec::new();
    let answered =
        tokio::time::timeout(DEADLINE, async { tokio::join!(dripping, reading.read_to_end(&mut answer)) });
    answered.await.expect("the server ends it in time").1.ok();
    Answer::parse(&answer).expect("an answer")
}

/// More of them than the budget has room for, if each had room for the largest body.
#[tokio::test]
async fn slow_uploads_hold_no_room_that_they_do_not_fill() {
    const LARGE: usize = 1024 * 1024;
    let patient = 100 * DEADLINE;
    let stand =
        stand(Times { body: patient, request: patient, payload_bytes_max: LARGE, ..Times::default() }).await;
    let length = (2 * LARGE).to_string();
    let mut slow = Vec::new();
    for n in 0..40 {
        let framing =
            if n % 2 == 0 { ("transfer-encoding", "chunked") } else { ("content-length", length.as_str()) };
        let head = stand.client.head("POST", "/v1/events", &[framing, ("expect", "100-continue")]);
        let mut stream = stand.client.connect().await;
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        // "100 Continue" says that the handler is reading.
        let reading = tokio::time::timeout(DEADLINE, stream.readable()).await;
        reading.unwrap_or_else(|_| panic!("upload {n} waits for room")).unwrap();
        stream.write_all(if n % 2 == 0 { b"1\r\n \r\n" } else { b" " }).await.unwrap();
        slow.push(stream);
    }
    is_well(&stand).await;
    let large = format!(r#"{{"type":"x","data":"{}"}}"#, "a".repeat(LARGE - 2));
    assert_eq!(stand.client.publish(large).await.status, 201);
    stand.stopped_at_once().await;
}

/// Together they are more than the budget holds, and they come side by side.
#[tokio::test]
async fn large_uploads_side_by_side_all_come_through() {
    const LARGE: usize = 1024 * 1024;
    let stand = stand(Times { payload_bytes_max: LARGE, ..Times::default() }).await;
    let body = format!(r#"{{"type":"x","data":"{}"}}"#, "a".repeat(LARGE - 2));
    let uploads = (0..80).map(|_| stand.client.publish(&body));
    let answers = futures_util::future::join_all(uploads).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert!(statuses.iter().all(|status| *status == 201), "{statuses:?}");
    stand.stopped().await;
}

#[tokio::test]
async fn a_thousand_idle_connections_disturb_nobody() {
    // Both ends of every connection are in this process.
    assert_eq!(make_room(2_400), 2_400, "this system allows too few open files for this test");
    let stand = stand(Times::default()).await;
    let mut idle: Vec<TcpStream> = Vec::new();
    for n in 0..1_000 {
        let mut stream = stand.client.connect().await;
        if n % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
        }
        idle.push(stream);
    }
    for _ in 0..20 {
        is_well(&stand).await;
    }
    stand.stopped().await;
}

/// A request is half sent when the end is asked for: it is finished, and nothing new is let in.
#[tokio::test]
async fn the_end_waits_for_requests_and_lets_nobody_in() {
    let stand = stand(Times::default()).await;
    let body = r#"{"type":"x"}"#;
    let (first, rest) = body.split_at(5);
    let mut half = stand.client.connect().await;
    let length = body.len().to_string();
    let head =
        stand.client.head("POST", "/v1/events", &[("content-length", &length), ("expect", "100-continue")]);
    half.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    // "100 Continue" says that the handler is reading.
    half.readable().await.unwrap();
    let mut idle = stand.client.connect().await;
    stand.ask_to_stop();
    assert_eq!(read_all(&mut idle).await, b"", "a connection without a request is closed");
    let address = stand.client.address;
    let begun = tokio::time::Instant::now();
    while TcpStream::connect(address).await.is_ok() {
        assert!(begun.elapsed() < DEADLINE, "the listener stays open");
    }
    half.write_all(first.as_bytes()).await.unwrap();
    half.write_all(rest.as_bytes()).await.unwrap();
    let answer = read_all(&mut half).await;
    let answer = String::from_utf8(answer).unwrap();
    let (before, published) = answer.split_once("\r\n\r\n").unwrap();
    assert!(before.starts_with("HTTP/1.1 100"), "{before}");
    assert!(published.starts_with("HTTP/1.1 201"), "{published}");
    stand.stopped().await;
}
