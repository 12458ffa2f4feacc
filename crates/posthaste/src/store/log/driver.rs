//! What a database does for the commands of the log engine.

use std::sync::Arc;

use posthaste_core::Result;
use posthaste_core::admin::{Applied, Command, Filter, LaneState, Pace, Seek};
use posthaste_core::lane::LaneName;
use posthaste_core::log::change::Change;
use posthaste_core::log::question::{KnownLane, Stretch};
use posthaste_core::time::Timestamp;

use crate::store::audit::{Journal, Note};

/// A database that holds a log.
pub(in crate::store) trait LogDriver: Send + Sync {
    /// What a lane has passed.
    type Passed: Clone + Send + Sync + 'static;
    /// A place where a lane is to go.
    type Goal: Clone + Send + Sync + 'static;

    /// Refuses a command that this database cannot carry out as it is now.
    fn check(&self, command: &Command) -> impl Future<Output = Result<()>> + Send;

    /// What time it is for the database.
    fn now(&self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Every lane, as commands need it.
    fn known_lanes(&self) -> impl Future<Output = Result<Vec<KnownLane<Self::Passed>>>> + Send;

    /// How much this lane has not read, at most.
    fn unread(&self, lane: &LaneName) -> impl Future<Output = Result<u64>> + Send;

    /// The stretch of the log that holds everything between the filter's times.
    fn stretch(&self, filter: &Filter) -> impl Future<Output = Result<Stretch>> + Send;

    /// The place that a command means.
    fn goal(&self, to: Seek) -> impl Future<Output = Result<Self::Goal>> + Send;

    /// Counts what the step at this place would change.
    fn count(
        &self,
        work: &Arc<WorkOf<Self>>,
        at: Place,
        pace: &Pace<'_>,
    ) -> impl Future<Output = Result<Step>> + Send;

    /// Takes the step at this place, and writes what the journal says of it, in one transaction.
    fn step(
        &self,
        work: &Arc<WorkOf<Self>>,
        at: Place,
        pace: &Pace<'_>,
        journal: &mut Journal,
    ) -> impl Future<Output = Result<Step>> + Send;

    /// Writes into the record.
    fn write_note(&self, note: Note, applied: Applied) -> impl Future<Output = Result<()>> + Send;
}

/// What a command does in the database of this driver.
pub(in crate::store) type WorkOf<D> = Work<<D as LogDriver>::Passed, <D as LogDriver>::Goal>;

/// What a command does, step by step.
#[derive(Clone, Debug)]
pub(in crate::store) enum Work<P, G> {
    /// Changes the events of the stretch that the filter and the change mean.
    Change { filter: Filter, change: Change, stretch: Stretch },
    /// Puts lanes into a state. A lane that is being removed stays as it is.
    /// `is_named`: the operator named one lane. If that lane stays as it is, the record does not say it.
    SetState { lanes: Vec<LaneName>, state: LaneState, is_named: bool },
    /// Removes what a lane has parked, and with the last of it the lane.
    Remove { lane: LaneName },
    /// Moves a lane to its goal.
    Move(Move<P, G>),
    /// Counts what the lane has passed and will not have passed at its goal. It is only counted.
    CountAgain(Move<P, G>),
    /// Removes what is over in all lanes, then what is old.
    Prune(Before),
    /// Removes what consumers remember from before this time.
    PruneInbox { before: Timestamp },
    /// Makes a database that was moved this server's own.
    Rebase {
        #[cfg_attr(
            not(feature = "postgres"),
            expect(dead_code, reason = "a file means the same wherever it is")
        )]
        upgraded: bool,
    },
}

impl<P, G> Work<P, G> {
    /// What this step leaves in the record, if anything.
    pub(in crate::store) fn note(&self, step: &Step, journal: &mut Journal) -> Option<(Note, Applied)> {
        if matches!(self, Self::SetState { is_named: true, .. }) && step.changed == 0 {
            return None;
        }
        journal.after(Applied::new(step.matched, step.changed), step.next.is_none())
    }
}

/// Where a lane goes.
#[derive(Clone, Debug)]
pub(in crate::store) struct Move<P, G> {
    pub(in crate::store) lane: KnownLane<P>,
    pub(in crate::store) goal: G,
    pub(in crate::store) why: Why,
    /// The number of events that come again, counted before.
    pub(in crate::store) again: u64,
}

/// Why a lane goes there.
#[derive(Clone, Debug)]
pub(in crate::store) enum Why {
    /// An operator wants it to go on from there: what it had delivered beyond comes again.
    Seek,
    /// What it has not read is too old. It never goes back.
    Skip { reason: String },
}

/// What may go: events taken in, and events dead or discarded, before these times.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Before {
    pub(in crate::store) created: Option<Timestamp>,
    pub(in crate::store) dead: Option<Timestamp>,
}

/// Where a step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Place {
    /// At the beginning of the work.
    First,
    /// In the log: at this number, or after it, as the work has it.
    Number(i64),
    /// In the log, with so much of it before the end of the work.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "SQLite asks in each step how far the lanes are")
    )]
    Stretch(Stretch),
    /// In what a lane has dead or discarded, after this event.
    Over { lane: LaneName, dead_at: Timestamp, seq: i64 },
    /// At what no lane has: what a database keeps for itself, and records of consumers.
    Rest,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Step {
    pub(in crate::store) matched: u64,
    pub(in crate::store) changed: u64,
    /// Where the next step begins; `None`: there is none.
    pub(in crate::store) next: Option<Place>,
}

impl Step {
    /// This number of events matched and were changed.
    pub(in crate::store) fn changed(count: u64, next: Option<Place>) -> Self {
        Self { matched: count, changed: count, next }
    }

    /// This number of events matched.
    pub(in crate::store) fn counted(count: u64, next: Option<Place>) -> Self {
        Self { matched: count, changed: 0, next }
    }
}
