//! What a stream calls a duplicate and does not have: an event that was acknowledged is there, whoever had its id before.

use std::sync::Arc;

use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use futures_util::StreamExt as _;
use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};

use crate::nats::stand::{SOON, Stand, event, send};

/// A group of somebody else's that takes everything.
async fn reader(stand: &Stand) -> PullConsumer {
    let stream = stand.jetstream.get_stream(&stand.name).await.unwrap();
    let durable_name = Some("reader".to_owned());
    stream.create_consumer(pull::Config { durable_name, ..pull::Config::default() }).await.unwrap()
}

/// Takes the next message out of the stream; answers the id of its event.
async fn take(reader: &PullConsumer) -> String {
    let mut messages = reader.batch().max_messages(1).expires(SOON).messages().await.unwrap();
    let message = messages.next().await.expect("a message").unwrap();
    message.double_ack().await.unwrap();
    message.headers.as_ref().unwrap().get("ce-id").unwrap().to_string()
}

/// Two lanes of one log end in one stream that keeps a message until it is handled: what the first lane sent is handled, and gone,
/// when the second one sends the same event.
#[tokio::test(flavor = "multi_thread")]
async fn two_lanes_into_a_work_queue_both_deliver() {
    let trial = "two_lanes_into_a_work_queue_both_deliver";
    for retention in [RetentionPolicy::WorkQueue, RetentionPolicy::Interest] {
        let Some(stand) = Stand::private(trial, "").await else { return };
        stand.make(Config { retention, ..Config::default() }).await;
        let reader = reader(&stand).await;
        let store = Arc::new(Memory::new());
        store.publish(vec![event("e", "t")]).await.unwrap();
        for name in ["one", "two", "three"] {
            let lane = Lane::named(name).unwrap().to(Arc::new(stand.open("")));
            assert_eq!(Relay::new(Arc::clone(&store) as _).lane(lane).once().await.unwrap().delivered, 1);
            assert_eq!(take(&reader).await, "e", "{name} {retention:?}");
        }
        assert_eq!(all_lanes(&*store).await.unwrap().iter().map(|lane| lane.delivered).sum::<u64>(), 3);
    }
}

/// Three lanes write the same event in three ways into one stream: all three are there, and each of them once.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_in_three_forms_is_there_three_times() {
    let Some(stand) = Stand::shared("an_event_in_three_forms_is_there_three_times").await else { return };
    let formats = ["binary", "structured", "raw"];
    for format in formats.iter().chain(&formats[..2]) {
        let lane = stand.open(&format!("format={format}"));
        assert!(send(&lane, vec![event("e", "t")]).await[0].is_ok(), "{format}");
    }
    let messages = stand.messages().await;
    let with = |name: &str, value: &str| {
        let is_it = |message: &&StreamMessage| header(message, name) == value;
        messages.iter().filter(is_it).count()
    };
    assert_eq!((with("ce-id", "e"), with("content-type", "application/cloudevents+json")), (1, 1));
    assert_eq!(messages.len(), 3, "the raw one is the third");
}

fn header(message: &StreamMessage, name: &str) -> String {
    message.headers.get(name).map(ToString::to_string).unwrap_or_default()
}
