//! A store that can be made to fail, to hang and to panic.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use posthaste::admin::{Actor, Admin, Applied, Command, Filter, Found, Lanes, Pace, Page};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::memory::Memory;
use posthaste::publisher::{Published, Publisher};
use posthaste::review::{AuditEntry, AuditFilter, Audited, DeadCodes, Review};
use posthaste::schema::{Keyring, Schema, SchemaStatus};
use posthaste::store::{Claimed, Lease, Owner, Parcel, Room, Settled, Standing, Store, Then};
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream, Error, Result};
use tokio::time::Instant;

use crate::http_api::client::DEADLINE;

/// How the store is.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Mood {
    Well,
    Away,
    Hanging,
    Panicking,
    /// A command goes on, step by step, until it is stopped.
    Endless,
}

/// Changes how a store is, from outside.
#[derive(Clone, Default)]
pub(crate) struct Switch(Arc<AtomicU8>);

impl Switch {
    pub(crate) fn set(&self, mood: Mood) {
        self.0.store(mood as u8, Ordering::SeqCst);
    }
}

/// A store in memory behind a switch.
pub(crate) struct Faulty {
    pub(crate) store: Memory,
    pub(crate) switch: Switch,
}

impl Faulty {
    /// Passes the answer on, if the store is well.
    fn answer<'a, T: 'a>(&'a self, answer: BoxFuture<'a, Result<T>>) -> BoxFuture<'a, Result<T>> {
        match self.switch.0.load(Ordering::SeqCst) {
            mood if mood == Mood::Away as u8 => Box::pin(async {
                Err(Error::unavailable("open /secret/path/posthaste.db on db.internal: disk I/O error"))
            }),
            mood if mood == Mood::Hanging as u8 => Box::pin(std::future::pending()),
            mood if mood == Mood::Panicking as u8 => {
                Box::pin(async { panic!("SELECT broke at /secret/path") })
            }
            _ => answer,
        }
    }
}

/// A target behind a switch.
pub(crate) struct FaultyTarget {
    target: Arc<dyn Target>,
    switch: Switch,
}

impl FaultyTarget {
    pub(crate) fn new(switch: Switch) -> Self {
        Self { target: posthaste::target::open("null:").expect("it needs nothing"), switch }
    }
}

impl Target for FaultyTarget {
    fn capabilities(&self) -> &Capabilities {
        self.target.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.target.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        match self.switch.0.load(Ordering::SeqCst) {
            mood if mood == Mood::Away as u8 => {
                Box::pin(async { Err(Error::unavailable("amqp://me:hunter2@mq.internal does not answer")) })
            }
            mood if mood == Mood::Hanging as u8 => Box::pin(std::future::pending()),
            _ => self.target.ping(),
        }
    }
}

/// A target that answers nothing, and, when it is told to, keeps the thread of whoever sends.
pub(crate) struct Held {
    capabilities: Capabilities,
    sent: AtomicU32,
    is_holding: Mutex<bool>,
    changed: Condvar,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            capabilities: Capabilities::sink(),
            sent: AtomicU32::new(0),
            is_holding: Mutex::new(false),
            changed: Condvar::new(),
        }
    }
}

impl Held {
    pub(crate) fn hold(&self) {
        *self.is_holding.lock().expect("nobody panics") = true;
    }

    pub(crate) fn let_go(&self) {
        *self.is_holding.lock().expect("nobody panics") = false;
        self.changed.notify_all();
    }

    /// Waits until so much was sent.
    pub(crate) async fn until_sent(&self, times: u32) {
        let begun = Instant::now();
        while self.sent.load(Ordering::SeqCst) < times {
            assert!(begun.elapsed() < DEADLINE, "nothing is sent");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Target for Held {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, _: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.sent.fetch_add(1, Ordering::SeqCst);
        let holding = self.is_holding.lock().expect("nobody panics");
        drop(self.changed.wait_while(holding, |is_holding| *is_holding).expect("nobody panics"));
        Box::pin(futures_util::stream::pending())
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

impl Admin for Faulty {
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
        self.answer(self.store.lanes(page))
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        self.answer(self.store.find(filter, page))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        if self.switch.0.load(Ordering::SeqCst) != Mood::Endless as u8 {
            return self.answer(self.store.apply(filter, command, by, pace));
        }
        Box::pin(async move {
            let mut so_far = Applied::default();
            while pace.after(so_far).await.is_continue() {
                so_far = Applied::new(so_far.matched + 1, so_far.changed + 1);
                tokio::task::yield_now().await;
            }
            Ok(so_far)
        })
    }
}

impl Review for Faulty {
    fn audited<'a>(&'a self, filter: &'a AuditFilter, page: Page) -> BoxFuture<'a, Result<Audited>> {
        self.answer(self.store.audited(filter, page))
    }

    fn record<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<bool>> {
        self.answer(self.store.record(entry))
    }

    fn dead_by_code<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<DeadCodes>> {
        self.answer(self.store.dead_by_code(filter))
    }
}

impl Publisher for Faulty {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        self.answer(self.store.publish(events))
    }
}

impl Schema for Faulty {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        self.answer(self.store.status())
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        self.answer(self.store.migrate())
    }
}

impl Keyring for Faulty {
    fn add<'a>(&'a self, name: &'a str, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        self.answer(self.store.add(name, hash))
    }

    fn name_of<'a>(&'a self, hash: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        self.answer(self.store.name_of(hash))
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        self.answer(self.store.count())
    }

    fn hashes(&self, limit: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        self.answer(self.store.hashes(limit))
    }
}

impl Store for Faulty {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.store.acquire(lane, owner)
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        self.store.claim(lease, room)
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        self.store.settle(lease, outcomes, then)
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        self.store.wait(lane, at_most)
    }
}
