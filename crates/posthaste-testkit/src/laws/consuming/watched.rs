//! A broker with somebody who writes down what was settled, and who loses acknowledgements if asked to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste_core::broker::{Broker, Count, Delivery, Feed, FeedSpec, Reason, Receipt};
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Result};

use crate::broker::BrokerBench;

#[derive(Clone)]
pub(super) struct Watched {
    broker: Arc<dyn Broker>,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Notes {
    /// What the broker took an acknowledgement or a burial of.
    settled: Mutex<BTreeSet<String>>,
    feeds: AtomicU32,
    acks: AtomicU32,
    /// Whether every other acknowledgement is lost, as if the consumer had died just before it.
    is_deaf: AtomicBool,
    lost: AtomicU32,
}

impl Notes {
    fn settle(&self, id: &str) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
    }

    fn loses_this_one(&self) -> bool {
        let loses =
            self.is_deaf.load(Ordering::SeqCst) && self.acks.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        self.lost.fetch_add(u32::from(loses), Ordering::SeqCst);
        loses
    }
}

impl Watched {
    pub(super) fn over(bench: &BrokerBench) -> Self {
        Self { broker: Arc::clone(&bench.broker), notes: Arc::default() }
    }

    pub(super) fn has_settled(&self, ids: &[String]) -> bool {
        let settled = self.notes.settled.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().all(|id| settled.contains(id))
    }

    /// How many feeds were opened.
    pub(super) fn feeds(&self) -> u32 {
        self.notes.feeds.load(Ordering::SeqCst)
    }

    /// Loses every other acknowledgement from now on, or none.
    pub(super) fn be_deaf(&self, is_deaf: bool) {
        self.notes.is_deaf.store(is_deaf, Ordering::SeqCst);
    }

    /// How many acknowledgements were lost.
    pub(super) fn lost(&self) -> u32 {
        self.notes.lost.load(Ordering::SeqCst)
    }
}

impl Target for Watched {
    fn capabilities(&self) -> &Capabilities {
        self.broker.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.broker.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.broker.ping()
    }
}

impl Broker for Watched {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move {
            let feed = self.broker.feed(spec).await?;
            self.notes.feeds.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(WatchedFeed { feed, notes: Arc::clone(&self.notes) }) as Box<dyn Feed>)
        })
    }
}

impl From<Watched> for Arc<dyn Broker> {
    fn from(broker: Watched) -> Self {
        Arc::new(broker)
    }
}

struct WatchedFeed {
    feed: Box<dyn Feed>,
    notes: Arc<Notes>,
}

impl Feed for WatchedFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(async move {
            let deliveries = self.feed.next(at_most).await?;
            let watch = |one: Delivery| {
                let (id, notes) = (one.envelope.id.clone(), Arc::clone(&self.notes));
                one.with_receipt(|receipt| Box::new(WatchedReceipt { receipt, id, notes }))
            };
            Ok(deliveries.into_iter().map(watch).collect())
        })
    }
}

struct WatchedReceipt {
    receipt: Box<dyn Receipt>,
    id: String,
    notes: Arc<Notes>,
}

impl Receipt for WatchedReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        if self.notes.loses_this_one() {
            // Dropped: it is delivered again, by this feed or by the next.
            return Box::pin(async { Ok(()) });
        }
        Box::pin(async move {
            self.receipt.ack().await?;
            self.notes.settle(&self.id);
            Ok(())
        })
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        self.receipt.release(after, count)
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move {
            self.receipt.bury(reason).await?;
            self.notes.settle(&self.id);
            Ok(())
        })
    }
}
