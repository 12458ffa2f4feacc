//! What tests of targets do alike, whatever the broker is: events, deliveries, and waiting for facts.

pub(crate) mod mistyped;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use posthaste::envelope::Envelope;
use posthaste::store::Parcel;
use posthaste::target::{Answer, DeliverError, Target};
use posthaste::time::Timestamp;

/// No fact of these tests takes so long.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// Starting and ending servers blocks; the other tasks of the test go on meanwhile.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// An event with this id on this topic.
pub(crate) fn event(id: impl Into<String>, topic: &str) -> Envelope {
    let mut event = Envelope::new("test.event", b"{}".to_vec());
    event.id = id.into();
    event.topic = topic.to_owned();
    event
}

/// Delivers these and answers what was said about each, in their order.
pub(crate) async fn send(target: &dyn Target, events: Vec<Envelope>) -> Vec<Result<(), DeliverError>> {
    let count = events.len();
    let parcel = |event| Parcel::new(Arc::new(event), 1, false, Timestamp::default());
    let mut answers: Vec<Answer> = target.deliver(events.into_iter().map(parcel).collect()).collect().await;
    answers.sort_by_key(|answer| answer.index);
    assert_eq!(answers.len(), count, "one answer for each");
    answers.into_iter().map(|answer| answer.result).collect()
}

/// Waits for a fact.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    posthaste_testkit::wait::eventually(SOON, what, async || holds().await).await.unwrap();
}
