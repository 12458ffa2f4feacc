//! What a plain client finds in a stream.

use crate::redis_target::stand::{Stand, event, send};

/// Id, key, headers and payload stand where relays of the open-outbox specification put them, byte by byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_client_finds_what_it_knows() {
    let Some(stand) = Stand::shared("a_plain_client_finds_what_it_knows").await else { return };
    let mut sent = event("id-🦀", "orders");
    sent.payload = (0..=255).collect();
    sent.key = Some("k".to_owned());
    sent.headers.insert("trace".to_owned(), "t".to_owned());
    for format in ["raw", "binary"] {
        assert!(send(&stand.open(&format!("format={format}")), vec![sent.clone()]).await[0].is_ok());
    }
    let entries = stand.entries(&stand.stream("orders")).await;
    let expected = [
        ("id", "id-🦀".as_bytes().to_vec()),
        ("payload", sent.payload.clone()),
        ("partition_key", b"k".to_vec()),
        ("h:trace", b"t".to_vec()),
    ];
    for entry in &entries {
        for (name, value) in &expected {
            assert!(entry.iter().any(|(found, held)| found == name && held == value), "{name}");
        }
    }
    assert_eq!((entries.len(), entries[0].len()), (2, 4), "a raw entry has nothing else");
    stand.clear().await;
}

/// A stream that may hold ten entries holds about ten, and the youngest are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_kept_at_its_length() {
    let Some(stand) = Stand::shared("a_stream_is_kept_at_its_length").await else { return };
    let target = stand.open("maxlen=10");
    let events = (0..1_000).map(|n| event(format!("{n:04}"), "t")).collect();
    assert!(send(&target, events).await.iter().all(Result::is_ok));
    let ids = stand.ids("t").await;
    // Redis removes whole nodes of a hundred entries or so.
    assert!(ids.len() >= 10 && ids.len() < 500, "{}", ids.len());
    assert_eq!(ids.last().map(String::as_str), Some("0999"));
    stand.clear().await;
}
