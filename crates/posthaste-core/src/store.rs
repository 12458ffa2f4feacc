//! The relay's side of a store: acquire, claim, settle, wait.
//!
//! ```text
//! acquire ──► Lease ──► claim ──► deliver ──► settle ─┐      a stale epoch settles nothing (`Lost`):
//!               ▲         ▲                           │      throw the lease away and acquire anew
//!               │         └───────── Held ◄───────────┤
//!               └─ Lost, error, Paused ◄──────────────┘
//! ```
//!
//! Memory is a cache of rows: everything a relay knows beyond its own in-flight events can be read again from the store.
//!
//! A settle also reports how the lane's target is ([`Then::Report`]) and that its address is gone
//! ([`Then::Retire`]). Its answer says that an operator paused the lane ([`Standing::Paused`]). The relay
//! makes this call anyway to renew its lease, so the seam needs only four methods.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::envelope::Envelope;
use crate::lane::{LaneName, LaneSpec};
use crate::target::DeliverError;
use crate::{BoxFuture, Result};

/// The relay's side of a store.
pub trait Store: Send + Sync {
    /// Takes the lane if it is free, with a new epoch; creates the lane's row if it does not exist.
    ///
    /// Free means: nobody owns it, its lease has ended by the store's clock, or the same `owner` held it before (whose
    /// earlier lease ends by that). `None`: somebody else holds it, or an operator paused it, or its address is retired.
    ///
    /// Lanes are shared fairly: an owner that [stays](Owner::stays) and asks for a lane of somebody who drives at least two
    /// more lanes than it does is promised that one. Its holder hears [`Standing::Wanted`] from its next settle, and until
    /// the promise ends, after the length of a lease, nobody else takes the lane.
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>>;

    /// Reads on where this lease's last claim ended: due parked events first (at most half of `room`), then the log.
    ///
    /// # Guarantees
    /// Never the same event twice in one lease while it is unsettled, never more than `room`, in the order of the log. With
    /// [`Order::PerKey`](crate::lane::Order::PerKey) an event whose key has an earlier unsettled parked event is not handed out;
    /// the store parks it behind. Events that are not due yet are parked as scheduled, expired ones discarded with a
    /// record; both happen with the next settle. May run beside `settle` and while earlier claims are unsettled: the
    /// reading position lives in the [`Lease`].
    ///
    /// # Errors
    /// After any error the lease is thrown away and acquired anew.
    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>>;

    /// Records outcomes in any order, parks failures, moves the place over the contiguous settled prefix and renews the
    /// lease, all or nothing. With no outcomes it only renews (and moves the place over what nobody wanted).
    ///
    /// [`Standing::Lost`]: nothing was recorded. [`Then::GiveUp`]: the lane is free at once.
    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>>;

    /// Returns when there may be work for this lane, or at the limit; may return early.
    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()>;
}

/// Who acquires: one running relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Owner {
    /// For people: host name and a random suffix, or what was configured.
    pub name: String,
    /// For fencing: unique to this run of this process, even when two are configured with one name.
    pub run: String,
    /// Whether it goes on asking for lanes that others hold: only to such a one others hand over.
    pub stays: bool,
}

impl Owner {
    /// An owner with this name and a fresh run, that stays.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), run: uuid::Uuid::now_v7().simple().to_string(), stays: true }
    }

    /// The same owner for one pass: it takes what is free and wants nothing of others.
    #[must_use]
    pub fn passing(&self) -> Self {
        Self { stays: false, ..self.clone() }
    }
}

/// The right to drive a lane, until it is lost.
///
/// The store keeps its reading position inside ([`Lease::cursor`]); dropping the lease forgets it and changes nothing stored.
pub struct Lease {
    lane: LaneName,
    epoch: i64,
    length: Duration,
    stumbles: u32,
    unrecorded: AtomicBool,
    unsent: Arc<Unsent>,
    cursor: Box<dyn Any + Send + Sync>,
}

/// What a relay whose lease ended in another way than by being given up claimed and never sent.
#[derive(Debug, Default)]
pub struct Unsent(Mutex<Vec<Ticket>>);

impl Unsent {
    /// The tickets of these events, once.
    pub fn take(&self) -> Vec<Ticket> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lease {
    /// Called by stores: a lease on this lane with its epoch, length and reading position.
    pub fn new(lane: LaneName, epoch: i64, length: Duration, cursor: impl Any + Send + Sync) -> Self {
        Self {
            lane,
            epoch,
            length,
            stumbles: 0,
            unrecorded: AtomicBool::new(false),
            unsent: Arc::default(),
            cursor: Box::new(cursor),
        }
    }

    /// Called by stores: how often the lane was acquired since its place last moved, where the owner before did not end
    /// cleanly and had something to deliver to a target that took events. The first acquisition counts as one.
    #[must_use]
    pub fn with_stumbles(mut self, stumbles: u32) -> Self {
        self.stumbles = stumbles;
        self
    }

    /// Which lane.
    pub fn lane(&self) -> &LaneName {
        &self.lane
    }

    /// The fencing number: every acquisition has a higher one.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// How long it lasts after each settle.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// How often the lane was acquired since its place last moved, without a clean end in between. A relay that finds a
    /// high number narrows its window, because what is at the place may be what kills it.
    pub fn stumbles(&self) -> u32 {
        self.stumbles
    }

    /// Called by stores in a claim: something was read that only a settle can record (a scheduled event to park, an
    /// expired one to discard), so the next settle should come soon even if nothing was handed out. Also where a claim was answered
    /// before it had looked at everything: after the settle the relay claims again, whatever the claim brought.
    pub fn note_unrecorded(&self) {
        self.unrecorded.store(true, Ordering::Release);
    }

    /// Called by the relay: whether the store has asked for a settle since the last call.
    pub fn take_unrecorded(&self) -> bool {
        self.unrecorded.swap(false, Ordering::AcqRel)
    }

    /// Called by the relay when it is done with a lease that it cannot give up: these events it claimed and never sent, so whoever
    /// takes them back need not count an attempt.
    pub fn note_unsent(&self, tickets: impl IntoIterator<Item = Ticket>) {
        self.unsent.0.lock().unwrap_or_else(PoisonError::into_inner).extend(tickets);
    }

    /// Called by stores that count attempts in leases: where the relay says what it never sent.
    pub fn unsent(&self) -> Arc<Unsent> {
        Arc::clone(&self.unsent)
    }

    /// The store's reading position, if this lease is of that store.
    pub fn cursor<T: Any>(&self) -> Option<&T> {
        self.cursor.downcast_ref()
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("lane", &self.lane).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// How much a claim may answer: both bound it, but one event always fits. Zero events is a question that answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At most so many events.
    pub events: u32,
    /// At most so many bytes, by [`Envelope::weight`].
    pub bytes: u64,
}

/// Names a claimed event towards its store; nothing to anybody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub i64);

/// One event handed out by a claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed {
    /// What the outcome is settled with.
    pub ticket: Ticket,
    /// What to deliver.
    pub parcel: Parcel,
}

impl Claimed {
    /// Joins a ticket and its parcel.
    pub fn new(ticket: Ticket, parcel: Parcel) -> Self {
        Self { ticket, parcel }
    }
}

/// An envelope with its attempt: what a target delivers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Parcel {
    /// The event.
    pub envelope: Arc<Envelope>,
    /// Which delivery in this lane this is, counted from 1.
    pub attempt: u32,
    /// Whether it was redriven or replayed: a target that remembers ids may know it.
    pub replay: bool,
    /// Whether it stands outside its key's order, as what is replayed does where nothing else is said.
    pub outside_order: bool,
    /// When the store took the event in, by the store's clock; for measuring.
    pub stored_at: crate::time::Timestamp,
}

impl Parcel {
    /// A parcel for this attempt.
    pub fn new(
        envelope: Arc<Envelope>,
        attempt: u32,
        replay: bool,
        stored_at: crate::time::Timestamp,
    ) -> Self {
        Self { envelope, attempt, replay, outside_order: replay, stored_at }
    }

    /// The same in the order of its key, be it a replay or not.
    #[must_use]
    pub fn in_order(self) -> Self {
        Self { outside_order: false, ..self }
    }
}

/// What became of one claimed event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settled {
    /// Which one.
    pub ticket: Ticket,
    /// What became of it.
    pub outcome: Outcome,
}

impl Settled {
    /// Joins a ticket and what became of it.
    pub fn new(ticket: Ticket, outcome: Outcome) -> Self {
        Self { ticket, outcome }
    }
}

/// What became of a claimed event; the relay decides, the store records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The target acknowledged it.
    Delivered,
    /// It failed and is tried again, not before `after` has passed on the store's clock. Counts as an attempt.
    Retry {
        /// The pause before the next attempt.
        after: Duration,
        /// What the target said.
        error: DeliverError,
    },
    /// It was not to be taken yet: again when `after` has passed on the store's clock, as the same attempt.
    Later {
        /// The pause before it.
        after: Duration,
        /// Why, if the target said so. Where the log keeps what is parked it is there to be read, though it is no failure.
        error: Option<DeliverError>,
    },
    /// It failed for good. Counts as an attempt.
    Dead {
        /// What the target said.
        error: DeliverError,
    },
    /// It was not sent: an earlier event of its key is parked. It waits behind that one.
    Behind,
    /// It was sent long ago and is not answered yet. It is parked as leased, so that the place can move on; its answer is
    /// settled later with the same ticket. Not an end: every other outcome may follow.
    Slow,
    /// It was not sent and is handed back as if it had not been claimed.
    Released,
}

/// What happens to the lease after a settle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Then {
    /// It is renewed.
    Hold,
    /// It is renewed, and the lane's row says from now on how its target is: `None` active, `Some` unavailable and why.
    Report(Option<String>),
    /// It ends: the lane is free at once.
    GiveUp,
    /// It ends, and nobody takes it before an operator resumes the lane: its address is gone.
    Retire(String),
}

/// How a lease stands after a settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It is held, and what was handed in is recorded.
    Held,
    /// What was handed in is recorded, and an operator has paused the lane: finish what is in flight and give up.
    Paused,
    /// What was handed in is recorded, and a relay with fewer lanes, or with a newer definition of this one, should have
    /// the lane: finish what is in flight and give up.
    Wanted,
    /// Somebody else has the lane: nothing was recorded.
    Lost,
}
