//! What no queue takes, what a full queue does not take, and an exchange that is missing.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use posthaste::target::{DeliverKind, Target};

use crate::rabbitmq_target::stand::{Stand, connect, event, send};

/// Bursts from many callers in which every third event has no queue: exactly those fail, each for itself, and nothing else
/// is missing from the queue. The client attaches a returned message to whichever confirm comes next, so this fails when
/// that is believed.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_events_that_no_queue_takes_come_back() {
    let Some(stand) = Stand::shared("exactly_the_events_that_no_queue_takes_come_back").await else { return };
    for (queue_type, topic) in [("classic", "taken"), ("quorum", "kept")] {
        let queue = stand.queue(topic, &[("x-queue-type", AMQPValue::LongString(queue_type.into()))]).await;
        let target = stand.open("");
        let callers = (0..8).map(|caller| {
            let target = &target;
            async move {
                for round in 0..10 {
                    let events = (0..100).map(|n| {
                        let name = format!("{caller}-{round}-{n}");
                        event(name, if (caller + n) % 3 == 0 { "nowhere" } else { topic })
                    });
                    let answers = send(target, events.collect()).await;
                    for (n, answer) in answers.into_iter().enumerate() {
                        let expected = ((caller + n) % 3 == 0).then_some("unrouted");
                        let code = answer.err().map(|error| error.code);
                        assert_eq!(code.as_deref(), expected, "{caller}-{round}-{n}");
                    }
                }
            }
        });
        join_all(callers).await;
        let (ids, count) = {
            let ids = stand.ids(&queue).await;
            let count = ids.len();
            (ids.into_iter().collect::<BTreeSet<_>>(), count)
        };
        let routed =
            (0..8).map(|c| (0..10).map(|_| (0..100).filter(|n| (c + n) % 3 != 0).count()).sum::<usize>());
        assert_eq!((ids.len(), count), (routed.clone().sum(), routed.sum()), "{queue_type}");
        stand.channel.queue_delete(queue.as_str().into(), Default::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_an_unrouted_event_is_a_setting() {
    let Some(stand) = Stand::shared("what_becomes_of_an_unrouted_event_is_a_setting").await else { return };
    for (setting, expected) in [
        ("unrouted=retry", Some(DeliverKind::Failed)),
        ("unrouted=dead", Some(DeliverKind::Rejected)),
        ("unrouted=drop", None),
    ] {
        let answers = send(&stand.open(setting), vec![event("1", "nowhere")]).await;
        assert_eq!(answers[0].as_ref().err().map(|error| error.kind), expected, "{setting}");
        if let Err(error) = &answers[0] {
            assert!(error.message.contains("nowhere") && error.message.contains(&stand.name), "{error}");
        }
    }
    stand.clear("").await;
}

/// A queue that refuses what does not fit any more: the event that it refused failed, and may pass later.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_that_refuses_fails_the_event_and_no_other() {
    let Some(stand) = Stand::shared("a_full_queue_that_refuses_fails_the_event_and_no_other").await else {
        return;
    };
    let full = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let small = stand.queue("small", &full).await;
    let large = stand.queue("large", &[]).await;
    let target = stand.open("");
    assert!(send(&target, vec![event("1", "small")]).await[0].is_ok());
    let answers = send(&target, vec![event("2", "large"), event("3", "small"), event("4", "large")]).await;
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Failed, "nack"), "{error}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(stand.ids(&small).await, ["1"]);
    assert!(send(&target, vec![event("3", "small")]).await[0].is_ok(), "there is room again");
    stand.clear(&small).await;
    stand.clear(&large).await;
}

/// Nobody's events would pass without it: the lane waits, and is told which exchange it is. It goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_is_named_and_waited_for() {
    let Some(stand) = Stand::shared("a_missing_exchange_is_named_and_waited_for").await else { return };
    let queue = stand.queue("topic", &[]).await;
    let target = stand.open("");
    assert!(target.ping().await.is_ok());
    stand.channel.exchange_delete(stand.name.as_str().into(), Default::default()).await.unwrap();
    let ping = target.ping().await.unwrap_err().to_string();
    assert!(ping.contains(&stand.name) && ping.contains("declare it"), "{ping}");
    for _ in 0..3 {
        for answer in send(&target, vec![event("1", "topic"), event("2", "topic")]).await {
            let error = answer.unwrap_err();
            assert_eq!(
                (error.kind, error.code.as_str()),
                (DeliverKind::Unavailable, "missing exchange"),
                "{error}"
            );
            assert!(error.message.contains(&stand.name), "{error}");
        }
    }
    stand.declare_exchange().await;
    stand.queue("topic", &[]).await;
    assert!(target.ping().await.is_ok());
    assert!(send(&target, vec![event("1", "topic")]).await[0].is_ok());
    stand.clear(&queue).await;
}

/// With a mapping by key every topic is an exchange: a missing one stops nobody else's events.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_mapping_by_key_the_topic_is_the_exchange() {
    let Some(stand) = Stand::shared("with_a_mapping_by_key_the_topic_is_the_exchange").await else { return };
    let queue = stand.queue("customer-7", &[]).await;
    let target = stand.open("mapping=key");
    let mut routed = event("1", &stand.name);
    routed.key = Some("customer-7".to_owned());
    let mut lost = event("2", &format!("{}-missing", stand.name));
    lost.key = Some("customer-7".to_owned());
    let answers = send(&target, vec![routed, lost, event("3", &stand.name)]).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap_err().code, "missing exchange");
    let unkeyed = answers[2].as_ref().unwrap_err();
    assert!(
        unkeyed.code == "unrouted" && unkeyed.message.contains(&format!("{:?}", stand.name)),
        "{unkeyed}"
    );
    assert_eq!(stand.ids(&queue).await, ["1"]);
    stand.clear(&queue).await;
}

/// An exchange by choice: durable, of the type that the URL says, and created again after it was removed. One
/// that is there stays as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_is_created_by_choice() {
    let Some(stand) = Stand::shared("a_missing_exchange_is_created_by_choice").await else { return };
    let remove = async || {
        stand.channel.exchange_delete(stand.name.as_str().into(), Default::default()).await.unwrap();
    };
    for kind in ["topic", "direct", "fanout"] {
        remove().await;
        let target = stand.open(&format!("create_exchange=true&exchange_type={kind}"));
        let answers = send(&target, vec![event("1", "topic"), event("2", "topic")]).await;
        for answer in answers {
            assert_eq!(answer.unwrap_err().code, "unrouted", "there is an exchange, and no queue behind it");
        }
        let queue = stand.queue("topic", &[]).await;
        assert!(send(&target, vec![event("3", "topic")]).await[0].is_ok());
        assert_eq!(stand.ids(&queue).await, ["3"]);
        // Of another type it would be refused.
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let custom = ExchangeKind::Custom(kind.to_owned());
        let (_connection, channel) = connect(&stand.url).await;
        let declared =
            channel.exchange_declare(stand.name.as_str().into(), custom, durable, FieldTable::default());
        declared.await.unwrap_or_else(|error| panic!("it is not a durable {kind} exchange: {error}"));
        let other = stand.open("create_exchange=true");
        assert!(send(&other, vec![event("4", "topic")]).await[0].is_ok(), "what is there is used as it is");
        remove().await;
        assert_eq!(
            send(&target, vec![event("5", "topic")]).await[0].as_ref().unwrap_err().code,
            "missing exchange"
        );
        target.ping().await.unwrap();
        assert_eq!(send(&target, vec![event("5", "topic")]).await[0].as_ref().unwrap_err().code, "unrouted");
        stand.channel.queue_delete(queue.as_str().into(), Default::default()).await.unwrap();
    }
    stand.clear("").await;
}

/// With a mapping by key every topic is an exchange, and each is created with its first event.
#[tokio::test(flavor = "multi_thread")]
async fn every_exchange_of_a_mapping_by_key_is_created_by_choice() {
    let trial = "every_exchange_of_a_mapping_by_key_is_created_by_choice";
    let Some(stand) = Stand::shared(trial).await else { return };
    let target = stand.open("mapping=key&create_exchange=true");
    let topics: Vec<String> = (0..40).map(|n| format!("{}-{n}", stand.name)).collect();
    let events: Vec<_> = topics.iter().map(|topic| event(topic.clone(), topic)).collect();
    let brokers_own = event("own", "amq.topic");
    for answer in send(&target, [events, vec![brokers_own]].concat()).await {
        assert_eq!(answer.unwrap_err().code, "unrouted");
    }
    let again = event("again", &topics[7]);
    stand.channel.exchange_delete(topics[7].as_str().into(), Default::default()).await.unwrap();
    assert_eq!(send(&target, vec![again.clone()]).await[0].as_ref().unwrap_err().code, "missing exchange");
    assert_eq!(
        send(&target, vec![again]).await[0].as_ref().unwrap_err().code,
        "unrouted",
        "it is created again"
    );
    for topic in topics {
        stand.channel.exchange_delete(topic.as_str().into(), Default::default()).await.unwrap();
    }
    stand.clear("").await;
}
