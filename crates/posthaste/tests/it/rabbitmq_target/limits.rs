//! What is too long or too large: one event's fault, and nobody else's.

use posthaste::broker::amqp::{AmqpBroker, Mapping, Route, Settings};
use posthaste::target::DeliverKind;

use crate::rabbitmq_target::stand::{Stand, event, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_routing_key_that_is_too_long_fails_its_event_alone() {
    let Some(stand) = Stand::shared("a_routing_key_that_is_too_long_fails_its_event_alone").await else {
        return;
    };
    let queue = stand.queue("fits", &[]).await;
    let settings: Settings = format!("{}?exchange={}", stand.url, stand.name).parse().unwrap();
    let exchange = stand.name.clone();
    let mapping = Mapping::custom(move |envelope| {
        Route::new(&exchange, if envelope.id == "2" { "x".repeat(256) } else { envelope.topic.clone() })
    });
    let target = AmqpBroker::new(settings.mapping(mapping)).unwrap();
    let answers = send(&target, ["1", "2", "3"].map(|id| event(id, "fits")).to_vec()).await;
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!(error.kind, DeliverKind::Rejected, "{error}");
    assert!(error.message.contains("routing key has 256 bytes"), "{error}");
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    stand.clear(&queue).await;
}

/// The broker refuses by closing the channel, on which others are unconfirmed. Only the large one is to blame: the others
/// are unknown, and pass when they are sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_only_the_broker_finds_too_large_is_blamed_alone() {
    let name = "a_message_that_only_the_broker_finds_too_large_is_blamed_alone";
    let Some(stand) = Stand::private(name, |_| "max_message_size = 65536\n".to_owned()).await else { return };
    let queue = stand.queue("t", &[]).await;
    let target = stand.open("");
    let events = |count: usize| {
        let sized = |n: usize| {
            let mut event = event(n.to_string(), "t");
            event.payload = vec![b'x'; if n == 7 { 65_537 } else { 1_000 }];
            event
        };
        (0..count).map(sized).collect::<Vec<_>>()
    };
    let mut pending = events(20);
    let mut dead = Vec::new();
    for _ in 0..5 {
        let answers = send(&target, pending.clone()).await;
        let mut next = Vec::new();
        for (event, answer) in pending.into_iter().zip(answers) {
            match answer {
                Ok(()) => {}
                Err(error) if error.kind == DeliverKind::Unavailable => next.push(event),
                Err(error) => dead.push((event.id, error.kind, error.message)),
            }
        }
        pending = next;
    }
    assert!(pending.is_empty());
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!((dead[0].0.as_str(), dead[0].1), ("7", DeliverKind::TooLarge));
    assert!(dead[0].2.contains("65536"), "{dead:?}");
    let mut ids: Vec<usize> = stand.ids(&queue).await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids, (0..20).filter(|n| *n != 7).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_our_own_limit_is_not_even_sent() {
    let Some(stand) = Stand::shared("a_message_over_our_own_limit_is_not_even_sent").await else { return };
    let queue = stand.queue("t", &[]).await;
    let mut large = event("2", "t");
    large.payload = vec![b'x'; 2_048];
    let answers =
        send(&stand.open("message_bytes_max=1KiB"), vec![event("1", "t"), large, event("3", "t")]).await;
    assert_eq!(answers[1].as_ref().unwrap_err().kind, DeliverKind::TooLarge);
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(stand.ids(&queue).await, ["1", "3"]);
    stand.clear(&queue).await;
}
