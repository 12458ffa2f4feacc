//! Where a group begins that wants nothing of what is there.

use posthaste::broker::kafka::KafkaBroker;
use posthaste::broker::{Broker as _, Feed, FeedSpec};
use rdkafka::admin::NewPartitions;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::kafka::consuming::{SETTINGS, next};
use crate::kafka::stand::{PARTITIONS, SOON, Stand, event, patient, send, until};
use crate::rabbitmq_consume::seen::TOPIC;

fn open(stand: &Stand) -> KafkaBroker {
    stand.open(&format!("{SETTINGS}&from=now"))
}

/// In a group of the test's own: where a group has members, also of other topics, only they say where it is.
async fn join(broker: &KafkaBroker, stand: &Stand) -> Box<dyn Feed> {
    let group = format!("{}group", stand.prefix);
    broker.feed(&FeedSpec::new(&group, vec![TOPIC.parse().unwrap()]).prefetch(10)).await.unwrap()
}

/// A topic gets more partitions while the group has no member: what is put there is for the group, which began long ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_comes_while_nobody_reads_is_read_whole() {
    let Some(stand) = Stand::shared("a_partition_that_comes_while_nobody_reads_is_read_whole") else {
        return;
    };
    stand.make(TOPIC, &[]).await;
    let broker = open(&stand);
    assert!(send(&broker, vec![event("before", TOPIC)]).await[0].is_ok());
    let mut feed = join(&broker, &stand).await;
    assert!(send(&broker, vec![event("first", TOPIC)]).await[0].is_ok());
    let first = next(feed.as_mut()).await;
    assert_eq!(first.envelope.id, "first", "the group begins behind what was there");
    first.receipt.ack().await.unwrap();
    drop((feed, broker));
    let topic = format!("{}{TOPIC}", stand.prefix);
    let more = NewPartitions::new(&topic, PARTITIONS as usize + 1);
    stand.admin().create_partitions([&more], &patient()).await.unwrap().pop().unwrap().unwrap();
    let others: FutureProducer = stand.config().create().unwrap();
    // The new partition is known to everybody in a while.
    until("the new partition takes an event", async || {
        let headers = OwnedHeaders::new().insert(Header { key: "X-Event-ID", value: Some("second") });
        let record =
            FutureRecord::<str, str>::to(&topic).partition(PARTITIONS).payload("{}").headers(headers);
        others.send(record, SOON).await.is_ok()
    })
    .await;
    let broker = open(&stand);
    let mut feed = join(&broker, &stand).await;
    let second = next(feed.as_mut()).await;
    assert_eq!(second.envelope.id, "second");
    second.receipt.ack().await.unwrap();
}
