//! What a database does for the table engine; everything else is [`Table`](super::engine::Table)'s.
//!
//! Limits on the server's answers, tries after a deadlock and the points at which tests end the process are
//! also the driver's, because only it knows where a commit is.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::envelope::{Envelope, fresh_id};
use posthaste_core::findings::Finding;
use posthaste_core::lane::LaneSpec;
use posthaste_core::pattern::Pattern;
use posthaste_core::publisher::Published;
use posthaste_core::review::{AuditEntry, AuditPicker, Audited};
use posthaste_core::signal::Signal;
use posthaste_core::store::Room;
use posthaste_core::table::{Column, Present, Profile, RowChange, Shape};
use posthaste_core::time::Timestamp;

use super::count::Counted;
use super::cursor::{Cursor, Left, Look, Sorted, Token};
use super::ledger::Ledger;
use super::look::Progress;
use super::row::RawRow;
use crate::store::waiting::Waiting;

/// A database with outbox tables.
///
/// Dropping any of its futures leaves no transaction open. What a dropped claim took is found by
/// [`hand_back`](Driver::hand_back).
pub(in crate::store) trait Driver: Send + Sync + 'static {
    /// The statements for a table as it was last seen.
    type Sql: Send + Sync + 'static;
    /// What the claims of one lease keep from one to the next.
    type Kept: Default + Send + 'static;

    /// Whether a claim can begin at a place; otherwise it always looks at everything.
    const BEGINS_AT_PLACE: bool = true;

    /// How its lanes wait for what other processes publish.
    fn waiting() -> Waiting {
        Waiting::default()
    }

    /// The shape that statements are for.
    fn shape(sql: &Self::Sql) -> &Shape;

    /// Which columns a publish can fill.
    fn insert_columns(sql: &Self::Sql) -> &[Column];

    /// Looks at the table: `Unavailable` while there is none, `Config` for all that is missing, wrong or forbidden.
    fn look(&self, profile: &Profile) -> impl Future<Output = Result<Self::Sql>> + Send;

    /// The table as it is, whether it can be relayed or not; `None` while there is none.
    fn present(&self, profile: &Profile) -> impl Future<Output = Result<Option<Present>>> + Send;

    /// The SQL that makes a table of this profile, or adds what the one that is there lacks.
    fn ddl(profile: &Profile, present: Option<&Present>) -> String;

    /// Warns of what makes this lane slow.
    fn warn(&self, sql: &Self::Sql, lane: &LaneSpec) -> impl Future<Output = Result<()>> + Send;

    /// Looks for what makes these lanes slow, and for what a crash of the server would lose; each question has an end.
    fn examine(&self, sql: &Self::Sql, lanes: &[LaneSpec]) -> impl Future<Output = Vec<Finding>> + Send;

    /// Leases rows and reads them, in any order, all or none. `Rejected` if the table will not have it, by whatever rule of its own.
    fn claim(
        &self,
        sql: &Self::Sql,
        ask: Ask<'_>,
        kept: &mut Self::Kept,
    ) -> impl Future<Output = Result<Vec<RawRow>>> + Send;

    /// The id of the first row that a claim would take that asks for the same.
    fn due(&self, sql: &Self::Sql, ask: Ask<'_>) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Records outcomes, all or none, and renews what is old; answers how many rows were recorded and how many renewed. `Rejected`
    /// if the table will not have it, by whatever rule of its own.
    fn record(
        &self,
        sql: &Self::Sql,
        sorted: &Arc<Sorted>,
    ) -> impl Future<Output = Result<(u64, u64)>> + Send;

    /// Hands back what a lease still holds: what was not sent, and what claims took that were never answered, goes back as it came;
    /// what was sent and not answered counts as an attempt, and is dead if it was the last one. `Rejected` if the table will not
    /// have it.
    fn hand_back(
        &self,
        sql: &Self::Sql,
        left: Left,
        kept: &mut Self::Kept,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Takes back rows whose lease has ended, the oldest first, but what others have locked. `Rejected`, and nothing is taken back, if the
    /// table will not have it.
    fn sweep(&self, sql: &Self::Sql, sweep: Sweep) -> impl Future<Output = Result<Swept>> + Send;

    /// The id of the first row that a sweep would take back.
    fn expired(&self, sql: &Self::Sql, sweep: Sweep) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Counts the rows by state.
    fn count(&self, sql: &Self::Sql) -> impl Future<Output = Result<Counted>> + Send;

    /// Finds rows, the newest first; none where no row can be in the state that is asked for.
    fn find(&self, sql: &Self::Sql, question: &Question) -> impl Future<Output = Result<Vec<Seen>>> + Send;

    /// Counts the rows that a question matches; answers also what time it is for the database.
    fn matched(
        &self,
        sql: &Self::Sql,
        question: &Question,
    ) -> impl Future<Output = Result<(u64, Timestamp)>> + Send;

    /// Changes at most so many rows that a question matches, the earliest first, and leaves in the record what the ledger says, in the
    /// same transaction; answers how many.
    fn change(
        &self,
        sql: &Self::Sql,
        question: &Question,
        wish: &Wish,
        ledger: &mut Ledger,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Counts terminal rows that are older than this.
    fn count_old(
        &self,
        sql: &Self::Sql,
        what: Terminal,
        age: Duration,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Removes at most so many of them, and leaves in the record what the ledger says, in the same transaction; answers how many.
    fn prune(
        &self,
        sql: &Self::Sql,
        what: Terminal,
        age: Duration,
        rows: u32,
        ledger: &mut Ledger,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// The name of the table for the record of commands, if the database has it.
    fn record_table(&self) -> impl Future<Output = Result<Option<String>>> + Send;

    /// Writes into the record, which is there.
    fn write_record(&self, entry: AuditEntry) -> impl Future<Output = Result<()>> + Send;

    /// Shows the record, which is there, to the picker until that has seen enough.
    fn read_record(&self, picker: AuditPicker) -> impl Future<Output = Result<Audited>> + Send;

    /// Counts what consumers remember in this database and is older than this; with a number of rows removes at most so many of
    /// each kind instead. `None` where the tables of consumers belong to the log engine.
    fn prune_memory(
        &self,
        _age: Duration,
        _remove: Option<u32>,
    ) -> impl Future<Output = Result<Option<u64>>> + Send {
        async { Ok(None) }
    }

    /// Adds events in one transaction, and rings once new ones are committed ([`ring`](super::ring)).
    fn insert(
        &self,
        sql: &Self::Sql,
        events: Vec<Envelope>,
        bell: &Signal,
    ) -> impl Future<Output = Result<Vec<Published>>> + Send;
}

/// What a claim asks for.
#[derive(Clone, Copy)]
pub(in crate::store) struct Ask<'a> {
    pub(in crate::store) cursor: &'a Cursor,
    pub(in crate::store) token: &'a Token,
    pub(in crate::store) room: Room,
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "SQLite looks at everything")
    )]
    pub(in crate::store) look: Look,
    pub(in crate::store) is_ordered: bool,
    /// Ids of rows that are passed over: the table would not have them claimed. In order per key they hold their key all the same.
    pub(in crate::store) passed: &'a [String],
}

/// Which rows are taken back.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Sweep {
    /// For so long they are leased.
    pub(in crate::store) lease: Duration,
    /// So many at most,
    pub(in crate::store) rows: u32,
    /// after so many of the oldest.
    pub(in crate::store) passed: u32,
    /// After so many attempts a row is dead.
    pub(in crate::store) budget: u32,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Swept {
    /// So many rows were there for it,
    pub(in crate::store) looked: u64,
    /// so many of them were taken back,
    pub(in crate::store) rows: u64,
    /// of which so many died,
    pub(in crate::store) dead: u64,
    /// and so many are as they were, and nobody says why: a trigger took it back, or left them out.
    pub(in crate::store) stuck: u64,
}

/// Which rows an operator means.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct Question {
    pub(in crate::store) state: Option<posthaste_core::admin::EventState>,
    pub(in crate::store) ids: Vec<String>,
    pub(in crate::store) event_type: Option<String>,
    pub(in crate::store) key: Option<String>,
    pub(in crate::store) since: Option<Timestamp>,
    pub(in crate::store) until: Option<Timestamp>,
    pub(in crate::store) code: Option<String>,
    /// What a failure said, or a part of it.
    pub(in crate::store) error: Option<String>,
    pub(in crate::store) topic: Option<Pattern>,
    /// Where the last page ended.
    pub(in crate::store) after: Option<(Timestamp, String)>,
    /// How many at most.
    pub(in crate::store) rows: u32,
    /// Only those that wait and that no relay has, whatever the state says.
    pub(in crate::store) unclaimed: bool,
}

/// What an operator wants of rows.
#[derive(Clone, Debug)]
pub(in crate::store) enum Wish {
    /// That they are pending again; but those that became due since then, by this very command, are not meant: they may have been
    /// delivered already.
    Again { but_due_since: Option<Timestamp> },
    /// That they are dead, with this error.
    Bury(String),
    /// That they are given up, with this error.
    Discard(String),
    /// That they are due then.
    Schedule(Timestamp),
}

impl Wish {
    /// Which statement does it.
    pub(in crate::store) fn change(&self) -> RowChange {
        match self {
            Self::Again { .. } => RowChange::Again,
            Self::Bury(_) => RowChange::Bury,
            Self::Discard(_) => RowChange::Discard,
            Self::Schedule(_) => RowChange::Schedule,
        }
    }

    /// Under which token the rows are taken, if they are.
    pub(in crate::store) fn token(&self, shape: &Shape) -> Option<String> {
        matches!(self, Self::Bury(_)).then(|| shape.token("operator", &fresh_id()))
    }

    /// What the statement is given, if it is a moment.
    pub(in crate::store) fn moment(&self) -> Option<Timestamp> {
        match self {
            Self::Again { but_due_since } => *but_due_since,
            Self::Schedule(at) => Some(*at),
            Self::Bury(_) | Self::Discard(_) => None,
        }
    }

    /// What the statement is given, if it is an error.
    pub(in crate::store) fn error(&self) -> Option<&str> {
        match self {
            Self::Bury(error) | Self::Discard(error) => Some(error),
            Self::Again { .. } | Self::Schedule(_) => None,
        }
    }
}

/// A row as operators see it.
pub(in crate::store) struct Seen {
    pub(in crate::store) raw: RawRow,
    pub(in crate::store) progress: Progress,
    pub(in crate::store) payload_bytes: Option<u64>,
}

/// A state that rows do not leave by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Terminal {
    Delivered,
    Dead,
}
