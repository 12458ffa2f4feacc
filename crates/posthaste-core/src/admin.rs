//! The operator's side of a store: look, and act. Command line and REST are written against this and nothing else.

mod pace;

use std::ops::ControlFlow;
use std::time::Duration;

pub use pace::Pace;

use crate::envelope::Envelope;
use crate::lane::LaneName;
use crate::time::{Moment, Timestamp};
use crate::{BoxFuture, Error, Result};

/// Looks at a store and changes it; every change is recorded with its actor.
pub trait Admin: Send + Sync {
    /// Every lane with its totals, without scanning the log.
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>>;

    /// Events that match, the newest first, a page at a time. Changes nothing.
    ///
    /// A page looks at only so many events: one without records that says where the next begins has found none *so far*.
    ///
    /// # Errors
    /// `NotFound` for a lane that does not exist, `Rejected` for a page that is not one of this store.
    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>>;

    /// Does this to what matches, in small steps, and records who did it. With `dry_run` it only counts.
    ///
    /// # Errors
    /// `NotFound` for a lane that does not exist, `Rejected` when the command does not fit the filter (see [`Command`]).
    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
    ) -> BoxFuture<'a, Result<Applied>>;

    /// Does the same, tells after every step what was done so far, and goes no further if it is told to break. Whoever does it all
    /// in one step tells nothing.
    ///
    /// # Errors
    /// As [`apply`](Admin::apply).
    fn apply_telling<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        so_far: &'a (dyn Fn(Applied) -> ControlFlow<()> + Send + Sync),
    ) -> BoxFuture<'a, Result<Applied>> {
        let _ = so_far;
        self.apply(filter, command, by)
    }

    /// Does the same at a pace: no faster, and stopped between two steps when whoever is told breaks it off. What was done till
    /// then is in the record, which says that it was stopped.
    ///
    /// # Errors
    /// As [`apply`](Admin::apply).
    fn apply_paced<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>> {
        self.apply_telling(filter, command, by, pace.so_far())
    }
}

/// Which events; every field that is set must match. The empty filter matches all.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Filter {
    /// As this lane sees them. Without a lane, [`state`](Filter::state) and [`code`](Filter::code) match in any lane.
    pub lane: Option<LaneName>,
    /// In this state.
    pub state: Option<EventState>,
    /// With one of these ids; empty: any.
    pub ids: Vec<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// With a topic that matches.
    pub topic: Option<crate::pattern::Pattern>,
    /// With this key.
    pub key: Option<String>,
    /// Taken in at or after.
    pub since: Option<Timestamp>,
    /// Taken in before.
    pub until: Option<Timestamp>,
    /// Failed with this code.
    pub code: Option<String>,
    /// Failed with this text somewhere in what the failure said; ASCII letters match in either case.
    pub error: Option<String>,
}

impl Filter {
    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        let Self { lane, state, ids, event_type, topic, key, since, until, code, error } = self;
        let texts = [event_type, key, code, error];
        texts.into_iter().all(Option::is_none)
            && lane.is_none()
            && state.is_none()
            && ids.is_empty()
            && topic.is_none()
            && since.is_none()
            && until.is_none()
    }

    /// Whether it asks how a lane sees an event.
    pub fn asks_a_lane(&self) -> bool {
        self.lane.is_some() || self.state.is_some() || self.asks_a_failure()
    }

    /// Whether it asks why an event failed; then only what is parked can match.
    pub fn asks_a_failure(&self) -> bool {
        self.code.is_some() || self.error.is_some()
    }

    /// Whether a view is in the state that is asked for, and failed as is asked for. Pending is also all its kinds.
    pub fn fits(&self, view: &LaneView) -> bool {
        let is_in = |wanted: EventState| {
            wanted == view.state || (wanted == EventState::Pending && view.state.is_pending())
        };
        self.state.is_none_or(is_in) && self.fits_failure(view.code.as_deref(), view.last_error.as_deref())
    }

    /// Whether a failure has the code and says the text that are asked for.
    pub fn fits_failure(&self, code: Option<&str>, error: Option<&str>) -> bool {
        let says = |text: &String| {
            error.is_some_and(|error| error.to_ascii_lowercase().contains(&text.to_ascii_lowercase()))
        };
        self.code.as_ref().is_none_or(|wanted| code == Some(wanted)) && self.error.as_ref().is_none_or(says)
    }
}

/// Where a page begins and how many records it has at most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// What [`Found::next`] of the page before said; `None`: the first.
    pub after: Option<String>,
    /// At most so many, and never more than 1,000.
    pub size: u32,
    /// Whether records carry their payload.
    pub with_payload: bool,
}

impl Page {
    /// The first page of this size, without payloads.
    pub fn first(size: u32) -> Self {
        Self { after: None, size, with_payload: false }
    }
}

/// A page of records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// The records.
    pub records: Vec<Record>,
    /// Where the next page begins, if there may be one.
    pub next: Option<String>,
}

/// An event, and what every lane has done with it (only the filter's lane, where one is named).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// Its place in the log.
    pub seq: i64,
    /// The event. Its payload is empty unless asked for.
    pub envelope: Envelope,
    /// How many bytes the payload has; `None` after an erasure.
    pub payload_bytes: Option<u64>,
    /// When it was taken in.
    pub created_at: Timestamp,
    /// How the lanes that want it see it.
    pub lanes: Vec<LaneView>,
}

impl Record {
    /// A record that no lane has seen.
    pub fn new(seq: i64, envelope: Envelope, payload_bytes: Option<u64>, created_at: Timestamp) -> Self {
        Self { seq, envelope, payload_bytes, created_at, lanes: Vec::new() }
    }
}

/// An event as one lane sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneView {
    /// Which lane.
    pub lane: LaneName,
    /// Its state there.
    pub state: EventState,
    /// How often its delivery was tried and failed.
    pub attempts: u32,
    /// When it is tried next.
    pub available_at: Option<Timestamp>,
    /// The fingerprint of its last failure.
    pub code: Option<String>,
    /// What its last failure said.
    pub last_error: Option<String>,
    /// When it first failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it became dead.
    pub dead_at: Option<Timestamp>,
    /// When it was delivered, where that is kept: an outbox table may have a column for it, a log has only
    /// the lane's place.
    pub delivered_at: Option<Timestamp>,
    /// Whether it was redriven or replayed.
    pub replay: bool,
}

impl LaneView {
    /// A view with a state and nothing else.
    pub fn new(lane: LaneName, state: EventState) -> Self {
        Self {
            lane,
            state,
            attempts: 0,
            available_at: None,
            code: None,
            last_error: None,
            first_failed_at: None,
            dead_at: None,
            delivered_at: None,
            replay: false,
        }
    }
}

/// The state of an event in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventState {
    /// Not delivered yet: in the log before the lane's place, or parked in any of the next four states.
    Pending,
    /// Pending: failed and tried again later.
    Retrying,
    /// Pending: its time has not come.
    Scheduled,
    /// Pending: an earlier event of its key is parked.
    Behind,
    /// Pending: sent long ago and not answered.
    Delivering,
    /// Acknowledged by the target.
    Delivered,
    /// Failed for good; waits for somebody to redrive or discard it.
    Dead,
    /// Given up, with a record: expired, or by an operator.
    Discarded,
    /// In a state that only the owner of an outbox table knows; left alone.
    Unknown,
}

impl EventState {
    /// The word for it, as the command line and REST say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Retrying => "retrying",
            Self::Scheduled => "scheduled",
            Self::Behind => "behind",
            Self::Delivering => "delivering",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
            Self::Unknown => "unknown",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        [
            Self::Pending,
            Self::Retrying,
            Self::Scheduled,
            Self::Behind,
            Self::Delivering,
            Self::Delivered,
            Self::Dead,
            Self::Discarded,
            Self::Unknown,
        ]
        .into_iter()
        .find(|state| state.name() == name)
    }

    /// Whether this is pending or one of its kinds.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::Retrying | Self::Scheduled | Self::Behind | Self::Delivering)
    }
}

/// The state of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaneState {
    /// Driven, or ready to be.
    Active,
    /// An operator paused it.
    Paused,
    /// Its target does not take events; it probes.
    Unavailable,
    /// Its address is gone; an operator must resume it.
    Retired,
    /// Something must be mended first.
    Error,
}

impl LaneState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Unavailable => "unavailable",
            Self::Retired => "retired",
            Self::Error => "error",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Active, Self::Paused, Self::Unavailable, Self::Retired, Self::Error]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// A lane's totals. They add up: `accepted = delivered + waiting + dead + discarded` at every moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneStats {
    /// Which lane.
    pub lane: LaneName,
    /// Its state.
    pub state: LaneState,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// The relay that drives it, if its lease lasts.
    pub owner: Option<String>,
    /// Its fencing number.
    pub epoch: i64,
    /// Where it is in the log.
    pub position: i64,
    /// How far the log goes beyond its place: an upper bound of what it has not read, as not every event need be meant for it.
    pub unread: u64,
    /// Whether [`unread`](LaneStats::unread) is not exact: of a log it may be more than the truth, of a long outbox table less.
    pub unread_is_estimate: bool,
    /// Events meant for this lane that its place has passed.
    pub accepted: u64,
    /// Of these: acknowledged by the target.
    pub delivered: u64,
    /// Of these: parked and not dead.
    pub waiting: u64,
    /// Of those that wait: failed at least once. `None`: too many to count at every look, or the store does not tell them apart.
    pub retrying: Option<u64>,
    /// Of these: dead.
    pub dead: u64,
    /// Of these: given up, with a record; also what an operator moved the lane past, which it never read.
    pub discarded: u64,
    /// Deliveries on purpose, after a redrive or replay; outside the sum.
    pub replayed: u64,
    /// When the oldest event that this lane has not read was taken in; `None` when it has read all.
    pub oldest_unread_at: Option<Timestamp>,
    /// When the oldest event was taken in that waits and whose time has come; `None` when there is none.
    pub oldest_waiting_at: Option<Timestamp>,
    /// Which of the totals beside [`unread`](LaneStats::unread) are estimates, by name: those of a long outbox table are not counted row
    /// by row. A total that is here and not `delivered` or `accepted` is at least what it says.
    pub estimated: Vec<&'static str>,
}

impl LaneStats {
    /// A lane at its start.
    pub fn new(lane: LaneName) -> Self {
        Self {
            lane,
            state: LaneState::Active,
            reason: None,
            owner: None,
            epoch: 0,
            position: 0,
            unread: 0,
            unread_is_estimate: false,
            accepted: 0,
            delivered: 0,
            waiting: 0,
            retrying: None,
            dead: 0,
            discarded: 0,
            replayed: 0,
            oldest_unread_at: None,
            oldest_waiting_at: None,
            estimated: Vec::new(),
        }
    }

    /// When the oldest event was taken in that should have been delivered by now, read or not.
    pub fn oldest_at(&self) -> Option<Timestamp> {
        [self.oldest_unread_at, self.oldest_waiting_at].into_iter().flatten().min()
    }

    /// Whether the totals add up.
    pub fn adds_up(&self) -> bool {
        self.accepted == self.delivered + self.waiting + self.dead + self.discarded
    }
}

/// What an operator does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Command {
    /// Dead events of the filter's lane become due now. They stand outside their key's order.
    Redrive {
        /// Only count.
        dry_run: bool,
    },
    /// Events of the filter's lane that were delivered are delivered again, outside their key's order.
    Replay {
        /// Only count.
        dry_run: bool,
    },
    /// Dead or waiting events of the filter's lane are given up, with a record.
    Discard {
        /// Why.
        reason: String,
        /// Only count.
        dry_run: bool,
    },
    /// Events that the filter's lane has parked and that are not dead become dead, with a reason. A redrive brings them back.
    Bury {
        /// Why.
        reason: String,
        /// Only count.
        dry_run: bool,
    },
    /// Events of the filter's lane that are retrying or scheduled become due at this time.
    Schedule {
        /// When, by the store's clock.
        at: Moment,
        /// Only count.
        dry_run: bool,
    },
    /// The filter's lane (or all lanes) stops being driven; what is in flight is finished.
    Pause,
    /// The filter's lane (or all lanes) may be driven again.
    Resume,
    /// The filter's lane continues from here; parked events stay parked. What it wanted and passes unread counts as accepted and
    /// discarded; what it passed and wants comes again, and counts again.
    Seek {
        /// Where.
        to: Seek,
        /// Only count what would be skipped or repeated, of what the lane wants.
        dry_run: bool,
    },
    /// The filter's lane passes what it has not read and was taken in longer ago than this. What it wanted of that counts
    /// as discarded, and its row says why. Never moves a lane back; parked events stay parked.
    Skip {
        /// How old.
        age: Duration,
        /// Why.
        reason: String,
        /// Only count.
        dry_run: bool,
    },
    /// The filter's lane is forgotten, with what it has parked. The record also says how much it had not read, at most.
    Remove {
        /// Only count what is parked.
        dry_run: bool,
    },
    /// Old events go: those that every lane has passed and that nothing parks, and old dead or discarded ones if asked for.
    Prune {
        /// Events taken in longer ago than this.
        delivered_age: Option<Duration>,
        /// Dead and discarded events that became so longer ago than this.
        dead_age: Option<Duration>,
        /// Only count.
        dry_run: bool,
    },
    /// What consumers remember goes: rows of the inbox and idempotency records that ended longer ago than this. An event that
    /// comes again after that has its effect again.
    PruneInbox {
        /// How long they are kept.
        age: Duration,
        /// Only count.
        dry_run: bool,
    },
    /// A database that was restored, copied or upgraded is made this server's own: everything that not every lane has
    /// passed is handed out again, and nothing is skipped. About all lanes; takes no filter.
    Rebase {
        /// It was upgraded in place, with every transaction's id: only where it is now is recorded.
        upgraded: bool,
        /// Only count what is handed out again.
        dry_run: bool,
    },
    /// The events' payloads are overwritten; the rest of the event stays.
    Erase {
        /// Only count.
        dry_run: bool,
    },
}

impl Command {
    /// The word for it in the audit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redrive { .. } => "redrive",
            Self::Replay { .. } => "replay",
            Self::Discard { .. } => "discard",
            Self::Bury { .. } => "bury",
            Self::Schedule { .. } => "schedule",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Seek { .. } => "seek",
            Self::Skip { .. } => "skip",
            Self::Remove { .. } => "remove",
            Self::Prune { .. } => "prune",
            Self::PruneInbox { .. } => "prune-inbox",
            Self::Rebase { .. } => "rebase",
            Self::Erase { .. } => "erase",
        }
    }

    /// Whether it only counts.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Pause | Self::Resume => false,
            Self::Redrive { dry_run }
            | Self::Replay { dry_run }
            | Self::Discard { dry_run, .. }
            | Self::Bury { dry_run, .. }
            | Self::Schedule { dry_run, .. }
            | Self::Seek { dry_run, .. }
            | Self::Skip { dry_run, .. }
            | Self::Remove { dry_run }
            | Self::Prune { dry_run, .. }
            | Self::PruneInbox { dry_run, .. }
            | Self::Rebase { dry_run, .. }
            | Self::Erase { dry_run } => *dry_run,
        }
    }

    /// What a broker that keeps nothing but dead letters is to do: redrive them or not, and whether only to count.
    ///
    /// # Errors
    /// `Rejected` for what needs a log; `whose` names the broker.
    pub fn on_dead_letters(&self, whose: &str) -> Result<(bool, bool)> {
        match self {
            Self::Redrive { dry_run } => Ok((true, *dry_run)),
            Self::Discard { dry_run, .. } => Ok((false, *dry_run)),
            other => Err(Error::rejected(format!(
                "{whose} has no log to {}; it can redrive and discard dead letters",
                other.name()
            ))),
        }
    }
}

/// A place in the log, as an operator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seek {
    /// Before the oldest event.
    Beginning,
    /// After the newest event.
    End,
    /// Before the first event taken in at or after this time.
    Time(Timestamp),
}

/// What a command did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// How many events (or lanes) matched.
    pub matched: u64,
    /// How many were changed; zero in a dry run.
    pub changed: u64,
    /// Whether not all were looked at, as a look has its limits: so many matched at least.
    pub is_partial: bool,
}

impl Applied {
    /// So many matched, so many were changed.
    pub fn new(matched: u64, changed: u64) -> Self {
        Self { matched, changed, is_partial: false }
    }
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// A key's name or an operating system's user.
    pub name: String,
    /// From where: `cli@HOST`, `rest ADDRESS`, `relay`, `serve`.
    pub via: String,
}

impl Actor {
    /// Somebody, from somewhere.
    pub fn new(name: impl Into<String>, via: impl Into<String>) -> Self {
        Self { name: name.into(), via: via.into() }
    }
}
