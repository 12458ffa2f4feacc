//! What every broker promises.

pub mod dying;
pub mod keeping;
pub mod ordering;
pub mod sharing;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use posthaste_core::broker::{Delivery, Feed, FeedSpec};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::Order;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, DeliverError};
use posthaste_core::time::Timestamp;

pub use crate::broker::BrokerBench;
use crate::law::{LawResult, Verdict};

/// No fact of a broker law takes nearly so long.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// So long nothing must come.
pub(crate) const QUIET: Duration = Duration::from_millis(150);

impl BrokerBench {
    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.scope)
    }

    pub(crate) fn group(&self, name: &str) -> String {
        format!("{}-{name}", self.scope)
    }

    /// An event on the law's topic whose payload is its id.
    pub(crate) fn event(&self, id: &str, key: Option<&str>) -> Envelope {
        let mut event = Envelope::new("law.event", id);
        event.id = id.to_owned();
        event.source = "/law".to_owned();
        event.topic = self.topic("t");
        event.key = key.map(str::to_owned);
        event
    }

    /// Joins a group on the law's topic.
    pub(crate) async fn join(&self, group: &str) -> Result<Box<dyn Feed>, Verdict> {
        self.join_with(group, |spec| spec).await
    }

    pub(crate) async fn join_with(
        &self,
        group: &str,
        change: impl FnOnce(FeedSpec) -> FeedSpec,
    ) -> Result<Box<dyn Feed>, Verdict> {
        let spec = FeedSpec::new(self.group(group), vec![self.topic("t").parse()?]).prefetch(100);
        Ok(self.broker.feed(&change(spec)).await?)
    }

    /// Delivers these and answers what the broker said about each, in their order.
    pub(crate) async fn send(&self, events: Vec<Envelope>) -> Vec<Result<(), DeliverError>> {
        let count = events.len();
        let parcel = |event| Parcel::new(Arc::new(event), 1, false, Timestamp::default());
        let mut answers: Vec<Answer> =
            self.broker.deliver(events.into_iter().map(parcel).collect()).collect().await;
        answers.sort_by_key(|answer| answer.index);
        assert_eq!(answers.len(), count, "one answer for each");
        answers.into_iter().map(|answer| answer.result).collect()
    }

    /// Delivers events with these ids, all of which must be taken.
    pub(crate) async fn publish(&self, ids: &[&str]) -> LawResult {
        let events = ids.iter().map(|id| self.event(id, None)).collect();
        self.all_taken(events).await
    }

    pub(crate) async fn all_taken(&self, events: Vec<Envelope>) -> LawResult {
        for answer in self.send(events).await {
            answer.map_err(|error| Verdict::broken(format_args!("an event was not taken: {error}")))?;
        }
        Ok(())
    }
}

/// The next delivery, which must come soon.
pub(crate) async fn next(feed: &mut dyn Feed) -> Result<Delivery, Verdict> {
    let next = tokio::time::timeout(SOON, feed.next(1)).await;
    let mut deliveries = next.map_err(|_| Verdict::broken("nothing was delivered"))??;
    deliveries.pop().ok_or_else(|| Verdict::broken("the feed has ended"))
}

/// So many deliveries, acknowledged; their ids in order.
pub(crate) async fn take(feed: &mut dyn Feed, count: usize) -> Result<Vec<String>, Verdict> {
    let mut ids = Vec::new();
    while ids.len() < count {
        let delivery = next(feed).await?;
        ids.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await?;
    }
    Ok(ids)
}

/// Nothing comes for a while.
pub(crate) async fn quiet(feed: &mut dyn Feed, what: &str) -> LawResult {
    match tokio::time::timeout(QUIET, feed.next(1)).await {
        Err(_) => Ok(()),
        Ok(deliveries) => {
            let ids: Vec<_> = deliveries?.iter().map(|one| one.envelope.id.clone()).collect();
            Err(Verdict::broken(format_args!("{what}: {ids:?} came")))
        }
    }
}

/// The order that the broker can keep.
pub(crate) fn per_key(spec: FeedSpec) -> FeedSpec {
    spec.order(Order::PerKey)
}
