//! Consumers on the local broker, in paused time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod around;
mod batch;
mod crew;
mod dedup;
mod lane;
mod local;
mod order;
mod reopening;
mod setup;
mod slice;
mod stopping;
mod verdicts;

use std::sync::{Arc, Mutex};

use posthaste_core::codec::Json;
use posthaste_core::consumer::{Consumer, Ground};
use posthaste_core::event::Event;
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) order: u32,
}

impl Event for Placed {
    const TYPE: &'static str = "order.placed";
    type Codec = Json;
}

/// What handlers saw, in order: the order's number, the attempt, and when.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<(u32, u32, Instant)>>>);

impl Seen {
    pub(crate) fn note(&self, order: u32, attempt: u32) {
        self.0.lock().unwrap().push((order, attempt, Instant::now()));
    }

    pub(crate) fn all(&self) -> Vec<(u32, u32, Instant)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn orders(&self) -> Vec<u32> {
        self.all().iter().map(|(order, _, _)| *order).collect()
    }

    pub(crate) fn attempts(&self) -> Vec<(u32, u32)> {
        self.all().iter().map(|(order, attempt, _)| (*order, *attempt)).collect()
    }
}

/// Publishes these orders, each under its key, then runs the consumer until all is settled.
pub(crate) async fn run_on<D: Ground, S: Send + Sync + 'static>(
    broker: &LocalBroker,
    consumer: Consumer<D, S>,
    orders: &[(u32, Option<&str>)],
) {
    consumer.declare(broker).await.unwrap();
    for (order, key) in orders {
        let event = Publish::of(&Placed { order: *order }).id(format!("order-{order}"));
        let event = key
            .map(|key| event.key(key))
            .unwrap_or_else(|| Publish::of(&Placed { order: *order }).id(format!("order-{order}")));
        broker.publish(event).await.unwrap();
    }
    let (ran, closed) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran.unwrap();
    assert_eq!(closed.left, 0);
}
