//! What is wrong with a URL, a server, a stream or an event is explained, and said of the right ones.

use std::sync::Arc;

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use posthaste::broker::nats::NatsBroker;
use posthaste::target::{DeliverKind, Target};

use crate::nats::stand::{Stand, event, send, server};
use crate::sending::mistyped::holds_only_its_own_key;

const USERS: &str = r#"authorization { users: [
    { user: admin, password: hunter2 },
    { user: reader, password: hunter2, permissions: { publish: ["_INBOX.>", "$JS.API.>"] } }
] }"#;

/// Nobody there, a wrong password, no JetStream: the lane would wait, and knows why.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_explained_and_no_password_is_shown() {
    let trial = "a_server_that_cannot_be_used_is_explained_and_no_password_is_shown";
    let Some(stand) = Stand::private(trial, USERS).await else { return };
    let Some(bare) = server(trial, |text| text.lines().next().unwrap().to_owned()) else { return };
    let with = |credentials: &str| stand.url.replace("nats://", &format!("nats://{credentials}@"));
    for (url, says) in [
        (with("admin:hunter3"), "not accepted"),
        (with("hunter3"), "not accepted"),
        ("nats://u:hunter3@127.0.0.1:1".to_owned(), "127.0.0.1:1"),
        (bare.url(), "JetStream"),
    ] {
        let target = NatsBroker::at(&url).unwrap();
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("hunter3"), "{error}");
        let answers = send(&target, vec![event("1", "t"), event("not a subject", "a b")]).await;
        let answer = answers[0].as_ref().unwrap_err();
        assert_eq!(answer.kind, DeliverKind::Unavailable, "{answer}");
        assert!(answer.message.contains(says) && !answer.message.contains("hunter3"), "{answer}");
        assert_eq!(answers[1].as_ref().unwrap_err().kind, DeliverKind::Rejected, "whatever the server");
    }
}

/// A user who may not publish there is told so, and nobody waits for an acknowledgement that cannot come.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named() {
    let Some(stand) = Stand::private("a_missing_right_is_named", USERS).await else { return };
    stand.make(Config::default()).await;
    let at = |user: &str| {
        stand.open_at(&stand.url.replace("nats://", &format!("nats://{user}:hunter2@")), "ack_timeout=20s")
    };
    assert!(send(&at("admin"), vec![event("1", "t")]).await[0].is_ok());
    let begun = std::time::Instant::now();
    let answers = send(&at("reader"), vec![event("2", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "not allowed"), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// Without a stream the lane waits and is told for which subject; as soon as there is one it goes on. Or we make it.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_stream_is_no_fault_of_the_events() {
    let Some(stand) = Stand::private("a_missing_stream_is_no_fault_of_the_events", "").await else { return };
    let target = stand.open("");
    target.ping().await.unwrap();
    let answers = send(&target, vec![event("1", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "missing stream"));
    assert!(error.message.contains(&format!("{}.t", stand.name)), "{error}");
    assert!(target.ping().await.unwrap_err().to_string().contains(&stand.name), "the lane waits");
    let named = stand.open(&format!("stream={}", stand.name));
    let error = named.ping().await.unwrap_err().to_string();
    assert!(error.contains(&stand.name) && error.contains("create_stream=true"), "{error}");
    let maker = stand.open(&format!("stream={}&create_stream=true", stand.name));
    assert!(send(&maker, vec![event("1", "t")]).await[0].is_ok());
    for target in [target, named] {
        target.ping().await.unwrap();
        assert!(send(&target, vec![event("2", "t")]).await[0].is_ok(), "a duplicate is there too");
    }
    assert_eq!(stand.ids().await, ["1", "2"]);
}

/// A mistyped topic keeps its lane waiting, and not for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_stream_takes_holds_only_its_own_key() {
    let trial = "an_event_that_no_stream_takes_holds_only_its_own_key";
    let Some(stand) = Stand::private(trial, "").await else { return };
    let make = async |topic: &str| {
        let (name, subjects) = (format!("{}-{topic}", stand.name), vec![format!("{}.{topic}", stand.name)]);
        stand.jetstream.create_stream(Config { name, subjects, ..Config::default() }).await.unwrap();
    };
    make("there").await;
    let target = Arc::new(stand.open("ack_timeout=500ms"));
    let ids = async |topic: &str| stand.ids_in(&format!("{}-{topic}", stand.name)).await;
    holds_only_its_own_key(target, ids, make).await;
}

/// Somebody listens to everything, so the server does not say that nobody takes the event: the lane waits for a stream all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_stream_is_found_out_though_somebody_listens() {
    let trial = "a_missing_stream_is_found_out_though_somebody_listens";
    let Some(stand) = Stand::private(trial, "").await else { return };
    let monitor = async_nats::connect(&stand.url).await.unwrap();
    let _all = monitor.subscribe(">").await.unwrap();
    monitor.flush().await.unwrap();
    let target = stand.open("ack_timeout=5s");
    let answers = send(&target, vec![event("1", "t"), event("2", "t")]).await;
    for answer in &answers {
        let error = answer.as_ref().unwrap_err();
        assert_eq!(
            (error.kind, error.code.as_str()),
            (DeliverKind::Unavailable, "missing stream"),
            "{error}"
        );
        assert!(error.message.contains(&format!("{}.t", stand.name)), "{error}");
    }
    assert!(target.ping().await.unwrap_err().to_string().contains(&stand.name), "the lane waits");
    stand.make(Config::default()).await;
    target.ping().await.unwrap();
    assert!(send(&target, vec![event("1", "t")]).await[0].is_ok());
}

/// A stream that takes everything and says nothing: the lane waits, and where other streams answer, these events alone do. It costs no
/// attempt, because nobody knows what is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_answer_costs_no_attempt() {
    let trial = "a_stream_that_does_not_answer_costs_no_attempt";
    let Some(stand) = Stand::private(trial, "").await else { return };
    let subjects = |topic: &str| vec![format!("{}.{topic}", stand.name)];
    for (name, topic, no_ack) in [("mute", "mute", true), ("well", "t", false)] {
        let config = Config { name: name.to_owned(), subjects: subjects(topic), no_ack, ..Config::default() };
        stand.jetstream.create_stream(config).await.unwrap();
    }
    let target = stand.open("ack_timeout=5s");
    let first = send(&target, vec![event("1", "mute"), event("2", "t")]).await;
    let error = first[0].as_ref().unwrap_err();
    assert!(first[1].is_ok());
    // The other one was acknowledged long before the time was up.
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "ack timeout"), "{error}");
    let others = async {
        for number in 0_u32.. {
            assert!(send(&target, vec![event(format!("other-{number}"), "t")]).await[0].is_ok());
        }
    };
    let answers = tokio::select! {
        answers = send(&target, vec![event("1", "mute")]) => answers,
        () = others => unreachable!("there is no end of them"),
    };
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Later, "ack timeout"), "{error}");
    assert!(
        error.message.contains(&format!("{}.mute", stand.name)) && error.retry_after.is_some(),
        "{error}"
    );
}

/// What is wrong with one event is said of that one; the others of its burst are taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_event_is_blamed_alone() {
    let Some(stand) = Stand::shared("a_bad_event_is_blamed_alone").await else { return };
    let mut large = event("large", "t");
    large.payload = vec![b'x'; 2 * 1024 * 1024];
    let mut rollup = event("rollup", "t");
    rollup.headers.insert("Nats-Rollup".to_owned(), "all".to_owned());
    let mut smuggler = event("smuggler", "t");
    smuggler.headers.insert("h".to_owned(), "a\r\nNats-Rollup: all".to_owned());
    let bad = [
        (large, DeliverKind::TooLarge),
        (rollup, DeliverKind::Rejected),
        (smuggler, DeliverKind::Rejected),
        (event("space", "a b"), DeliverKind::Rejected),
        (event("wildcard", "a.>"), DeliverKind::Rejected),
        (event("empty", "a..b"), DeliverKind::Rejected),
    ];
    let mut burst = vec![event("first", "t")];
    burst.extend(bad.iter().map(|(event, _)| event.clone()));
    burst.push(event("last", "t"));
    // Larger than the server takes, and allowed by the settings: the server's own limit counts.
    let answers = send(&stand.open("message_bytes_max=64MiB"), burst).await;
    for ((event, kind), answer) in bad.iter().zip(&answers[1..]) {
        assert_eq!(answer.as_ref().unwrap_err().kind, *kind, "{}: {answer:?}", event.id);
    }
    assert!(answers[0].is_ok() && answers[7].is_ok(), "{answers:?}");
    assert_eq!(stand.ids().await, ["first", "last"]);
}

/// A stream that takes no more makes the lane wait; one that takes no such large message makes that one dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_s_limits_are_told_apart() {
    let Some(stand) = Stand::private("a_stream_s_limits_are_told_apart", "").await else { return };
    let limits =
        Config { max_messages: 3, discard: DiscardPolicy::New, max_message_size: 2_000, ..Config::default() };
    stand.make(limits).await;
    let target = stand.open("");
    let mut large = event("large", "t");
    large.payload = vec![b'x'; 3_000];
    let answers = send(&target, vec![large, event("1", "t"), event("2", "t"), event("3", "t")]).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind, DeliverKind::TooLarge);
    assert!(answers[1..].iter().all(Result::is_ok), "{answers:?}");
    let answers = send(&target, vec![event("4", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "stream full"), "{error}");
}

/// Two sources number their events alike: a stream would take the second one's for duplicates of the first one's. An event that is
/// sent twice is there once all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_another_source_has_used_is_no_duplicate() {
    let Some(stand) = Stand::shared("an_id_that_another_source_has_used_is_no_duplicate").await else {
        return;
    };
    let target = stand.open("");
    let from = |source: &str| {
        let mut event = event("1", "t");
        event.source = source.to_owned();
        event
    };
    for source in ["/shop", "/stock", "/shop", "/stock"] {
        assert!(send(&target, vec![from(source)]).await[0].is_ok(), "{source}");
    }
    let messages = stand.messages().await;
    let header =
        |name: &'static str| move |message: &StreamMessage| message.headers.get(name).unwrap().to_string();
    assert_eq!(messages.iter().map(header("ce-source")).collect::<Vec<_>>(), ["/shop", "/stock"]);
    assert_eq!(messages.iter().map(header("ce-id")).collect::<Vec<_>>(), ["1", "1"]);
}
