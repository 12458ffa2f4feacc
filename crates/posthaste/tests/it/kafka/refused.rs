//! What is wrong with a URL, a server, a topic or an event is explained, and said of the right ones.

use std::sync::Arc;

use posthaste::target::{DeliverKind, Target};

use crate::kafka::stand::{Stand, event, send};
use crate::sending::mistyped::holds_only_its_own_key;

const QUICK: &str = "ack_timeout=4s&connect_timeout=2s";

/// The listener asks everybody for user and password.
fn with_users(settings: String) -> String {
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    let users = format!(r#"{module} required username="me" password="hunter2" user_me="hunter2";"#);
    settings.replace("PLAINTEXT://", "SASL_PLAINTEXT://")
        + "listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n\
           inter.broker.listener.name=SASL_PLAINTEXT\n\
           sasl.mechanism.inter.broker.protocol=PLAIN\n\
           sasl.enabled.mechanisms=PLAIN\n"
        + &format!("listener.name.sasl_plaintext.plain.sasl.jaas.config={users}\n")
}

/// Nobody there, or a wrong password: the lane would wait, and knows why. With the right one everything passes.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_explained_and_no_password_is_shown() {
    let trial = "a_server_that_cannot_be_used_is_explained_and_no_password_is_shown";
    let Some(stand) = Stand::private(trial, with_users) else { return };
    let with = |credentials: &str| stand.url.replace("kafka://", &format!("kafka://{credentials}@"));
    for (url, says) in
        [(with("me:hunter3"), "uthentication"), ("kafka://u:hunter3@127.0.0.1:1".to_owned(), "127.0.0.1:1")]
    {
        let target = stand.open_at(&url, QUICK);
        let error = target.ping().await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("hunter3"), "{error}");
        let answers = send(&target, vec![event("1", "t"), event("no topic of Kafka's", "a b")]).await;
        let answer = answers[0].as_ref().unwrap_err();
        assert_eq!(answer.kind, DeliverKind::Unavailable, "{answer}");
        assert!(answer.message.contains(says) && !answer.message.contains("hunter3"), "{answer}");
        assert_eq!(answers[1].as_ref().unwrap_err().kind, DeliverKind::Rejected, "whatever the server");
    }
    let target = stand.open_at(&with("me:hunter2"), "create_topics=1");
    target.ping().await.unwrap();
    assert_eq!(send(&target, vec![event("1", "t")]).await, [Ok(())]);
}

/// Without its topic an event waits, and so does the lane, which says for which; events of other topics pass. As soon as the
/// topic is there it goes on, whoever made it.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_no_fault_of_the_events() {
    let Some(stand) = Stand::shared("a_missing_topic_is_no_fault_of_the_events") else { return };
    stand.make("there", &[]).await;
    let target = stand.open("");
    target.ping().await.unwrap();
    let answers = send(&target, vec![event("1", "missing"), event("2", "there")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "missing topic"), "{error}");
    let name = format!("{}missing", stand.prefix);
    assert!(error.message.contains(&name) && error.message.contains("create_topics"), "{error}");
    assert!(answers[1].is_ok(), "{answers:?}");
    assert!(target.ping().await.unwrap_err().to_string().contains(&name), "the lane waits");
    assert_eq!(send(&stand.open("create_topics=3"), vec![event("1", "missing")]).await, [Ok(())]);
    target.ping().await.unwrap();
    assert_eq!(send(&target, vec![event("2", "missing")]).await, [Ok(())]);
    let mut ids = stand.ids("missing");
    ids.sort_unstable();
    assert_eq!(ids, ["1", "2"]);
}

/// A mistyped topic keeps its lane waiting, and not for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_topic_holds_only_its_own_key() {
    let Some(stand) = Stand::shared("an_event_without_a_topic_holds_only_its_own_key") else { return };
    stand.make("there", &[]).await;
    let target = Arc::new(stand.open("ack_timeout=1s"));
    let make = async |topic: &str| stand.make(topic, &[]).await;
    holds_only_its_own_key(target, async |topic| stand.ids(topic), make).await;
}

/// The cluster will not create one topic: that is told of its events, and nobody else's topic is taken for out of reach.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_refused_stops_no_other_topic() {
    let Some(stand) = Stand::shared("a_topic_that_is_refused_stops_no_other_topic") else { return };
    for topic in ["b", "c"] {
        stand.make(topic, &[]).await;
    }
    let target = stand.open("create_topics=1&replicas=9");
    let answers = send(&target, vec![event("1", "a"), event("2", "b"), event("3", "c")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "topic refused"), "{error}");
    assert!(error.message.contains(&format!("{}a", stand.prefix)), "{error}");
    assert_eq!(answers[1..], [Ok(()), Ok(())]);
    assert!(target.ping().await.unwrap_err().to_string().contains("replication"), "the lane waits at first");
}

/// What is wrong with one event is said of that one; the others of its burst are taken. A batch that is larger than its topic
/// takes is refused as a whole, and no event of it is to blame but one that is too large itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_event_is_blamed_alone() {
    let Some(stand) = Stand::shared("a_bad_event_is_blamed_alone") else { return };
    stand.make("t", &[("max.message.bytes", "3000")]).await;
    let sized = |id: &str, size: usize| {
        let mut event = event(id, "t");
        // One partition, so that they share a batch.
        event.key = Some("k".to_owned());
        event.payload = vec![b'x'; size];
        event
    };
    let mut header = event("header", "t");
    header.headers.insert("ce_id".to_owned(), "other".to_owned());
    let bad = [
        (sized("over the limit", 2 << 20), DeliverKind::TooLarge),
        (sized("over the topic's limit", 4_000), DeliverKind::TooLarge),
        (header, DeliverKind::Rejected),
        (event("space", "a b"), DeliverKind::Rejected),
        (event("dots", "../t"), DeliverKind::Rejected),
    ];
    let good: Vec<_> = (0..20).map(|n| sized(&n.to_string(), 1_000)).collect();
    let burst: Vec<_> = bad.iter().map(|(event, _)| event.clone()).chain(good).collect();
    let answers = send(&stand.open("linger=100ms"), burst).await;
    for ((event, kind), answer) in bad.iter().zip(&answers) {
        let error = answer.as_ref().unwrap_err();
        assert_eq!(error.kind, *kind, "{}: {error}", event.id);
        assert!(*kind != DeliverKind::TooLarge || error.code == "too large", "{error}");
    }
    assert!(answers[bad.len()..].iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stand.ids("t").len(), 20);
}
