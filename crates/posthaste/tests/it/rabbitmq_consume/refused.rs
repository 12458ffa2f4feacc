//! What the broker does not let us have is said by name, with what to do.

use std::time::Duration;

use lapin::options::QueuePurgeOptions;
use lapin::types::AMQPValue;
use posthaste::broker::amqp::AmqpBroker;
use posthaste::broker::{Broker, FeedSpec, Reason};
use posthaste::{ErrorKind, Result};

use crate::rabbitmq_consume::seen::{TOPIC, ids, publish};
use crate::rabbitmq_target::stand::{SOON, Stand, address, until};

fn spec(group: &str) -> FeedSpec {
    FeedSpec::new(group, vec![TOPIC.parse().unwrap()])
}

async fn refusal(opened: Result<Box<dyn posthaste::broker::Feed>>) -> (ErrorKind, String) {
    let error = opened.err().unwrap();
    (error.kind(), error.to_string())
}

/// The group's queue is there, but classic: that is said, and nothing is changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_other_arguments_is_named_with_what_to_do() {
    let Some(stand) = Stand::shared("a_queue_with_other_arguments").await else { return };
    let queue = stand.queue(TOPIC, &[]).await;
    let (kind, said) = refusal(stand.open("").feed(&spec(&stand.name)).await).await;
    assert_eq!(kind, ErrorKind::Config, "waiting does not mend it");
    assert!(said.contains(&queue) && said.contains("delete the queue when it is empty"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_of_another_type_is_named_with_what_to_do() {
    let Some(stand) = Stand::shared("an_exchange_of_another_type").await else { return };
    let (kind, said) = refusal(stand.open("exchange_type=fanout").feed(&spec(&stand.name)).await).await;
    assert_eq!(kind, ErrorKind::Config);
    assert!(
        said.contains(&format!("exchange {:?}", stand.name)) && said.contains("exchange_type=TYPE"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_queue_is_named_where_none_may_be_made() {
    let Some(stand) = Stand::shared("a_missing_queue_is_named").await else { return };
    let (kind, said) = refusal(stand.open("declare=false").feed(&spec(&stand.name)).await).await;
    assert_eq!(kind, ErrorKind::Unavailable, "somebody may make it yet");
    assert!(said.contains(&format!("{}.{TOPIC}", stand.name)) && said.contains("declare=false"), "{said}");
}

/// Who consumes is told the same as who publishes, and waits: somebody may mend it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_and_a_missing_virtual_host_are_named_to_consumers_too() {
    let Some(stand) = Stand::shared("wrong_credentials_and_a_missing_virtual_host").await else { return };
    let address = address(&stand.url);
    for (credentials, vhost, says) in
        [("guest:hunter2", "%2f", "check both"), ("guest:guest", "not-there", "\"not-there\" is missing")]
    {
        let broker = AmqpBroker::at(&format!("amqp://{credentials}@{address}/{vhost}")).unwrap();
        let (kind, said) = refusal(broker.feed(&spec(&stand.name)).await).await;
        assert_eq!(kind, ErrorKind::Unavailable);
        assert!(said.contains(says) && !said.contains("hunter2"), "{said}");
    }
}

/// The dead queue has room for one. What does not fit is not acknowledged and comes again, until there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_into_a_full_dead_queue_stays_where_it_is() {
    let Some(stand) = Stand::shared("what_does_not_fit_into_a_full_dead_queue").await else { return };
    stand.queue(TOPIC, &[]).await;
    stand.queue(&format!("{TOPIC}.retry.0"), &[]).await;
    let full = [
        ("x-max-length", AMQPValue::LongLongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let dead = stand.queue(&format!("{TOPIC}.dlq"), &full).await;
    let broker = stand.open("declare=false&tiers=200ms");
    let mut feed = broker.feed(&spec(&stand.name)).await.unwrap();
    publish(&broker, &ids("bad", 2)).await;
    let mut bury = async || {
        let next = tokio::time::timeout(SOON, feed.next(1)).await;
        let delivery = next.expect("something comes").unwrap().remove(0);
        let id = delivery.envelope.id.clone();
        (id, delivery.receipt.bury(Reason::new("bad", "bad")).await)
    };
    assert!(bury().await.1.is_ok());
    let (id, refused) = bury().await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("full") && refused.contains(&dead), "{refused}");
    until("the dead queue is emptied", async || {
        stand.channel.queue_purge(dead.as_str().into(), QueuePurgeOptions::default()).await.is_ok()
    })
    .await;
    let (again, buried) = bury().await;
    assert_eq!((again, buried.is_ok()), (id, true), "it came again, and has its place");
    assert_eq!(stand.ids(&dead).await.len(), 1);
    let quiet = tokio::time::timeout(Duration::from_millis(300), bury()).await;
    assert!(quiet.is_err(), "nothing is left");
}
