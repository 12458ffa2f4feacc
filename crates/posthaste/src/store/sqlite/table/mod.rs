//! Outbox tables on SQLite.
//!
//! Claims and settles are jobs of the one writer, which come one after another: nothing is locked and nothing skipped, and
//! what a dropped claim took is handed back by a job that comes after it. The file belongs to somebody else and stays as it
//! is: neither its journal mode nor its tables are changed.
//!
//! The engine reads before it writes, because a producer's open transaction keeps writers waiting. It always
//! looks at everything, and only as often as the relay asks: a reader of a file without a write-ahead log
//! keeps its producers from committing.

mod admin;
mod check;
mod count;
mod examine;
mod publish;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::lane::LaneSpec;
use posthaste_core::pattern::Pattern;
use posthaste_core::publisher::Published;
use posthaste_core::review::{AuditEntry, AuditPicker, Audited};
use posthaste_core::signal::Signal;
use posthaste_core::table::{
    AuditSql, Column, Present, Profile, Shape, SqliteTableSql, TOPIC_FUNCTION, sqlite_lacking_ddl,
    sqlite_table_ddl,
};
use posthaste_core::time::{Clock, Timestamp};
use posthaste_core::{Error, Result};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::address::{Address, Mode};
use super::admin::review::{insert_entry, pick};
use super::error::explain;
use super::files::Files;
use super::reader::Reader;
use super::writer::{Kind, Writer};
use crate::store::table::count::Counted;
use crate::store::table::cursor::{Left, Sorted};
use crate::store::table::driver::{Ask, Driver, Question, Seen, Sweep, Swept, Terminal, Wish};
use crate::store::table::engine::Table;
use crate::store::table::ledger::Ledger;
use crate::store::table::ring;
use crate::store::table::row::RawRow;
use crate::store::waiting::Waiting;
use crate::store::{StoreOptions, TableOptions};

/// How many statements stay prepared; more than there are.
const STATEMENTS_MAX: usize = 64;

/// An outbox table of somebody else in a SQLite file.
pub(in crate::store) type SqliteTable = Table<Sqlite>;

/// A SQLite file.
pub(in crate::store) struct Sqlite {
    path: Arc<Path>,
    clock: Arc<dyn Clock>,
    writer: Writer,
    looks: Reader,
    files: Arc<Files>,
    audit: Arc<AuditSql>,
}

/// Opens the file that the part of a URL after `sqlite:` names, which must be there.
///
/// # Errors
/// `Config` for a file that is not there or no database, and for a profile that makes no sense.
pub(in crate::store) fn open(rest: &str, table: TableOptions, options: StoreOptions) -> Result<SqliteTable> {
    table.profile.check()?;
    let address = Address::parse(rest, false)?;
    if address.mode == Mode::Make {
        return Err(Error::config(
            "an outbox table that is there already is in a file that is there: leave ?mode= away",
        ));
    }
    super::open::prepare_file(&address)?;
    let path: Arc<Path> = address.path.as_path().into();
    let connect = || -> Result<Connection> {
        let connection = super::open::connect(&address, options.busy_timeout)?;
        let set_up = || {
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
            add_topic_function(&connection)
        };
        set_up().map_err(|error| explain(error, &path))?;
        Ok(connection)
    };
    let connection = connect()?;
    let files = Arc::new(Files::of(&connection, &path)?);
    let file = Sqlite {
        writer: Writer::start(connection, Arc::clone(&files), options.busy_timeout)?,
        looks: Reader::start("posthaste-looks", connect()?)?,
        files,
        clock: Arc::clone(&options.clock),
        audit: Arc::new(AuditSql::sqlite(&options.prefix)),
        path,
    };
    Table::new(file, table, options)
}

/// Patterns are matched as everywhere else; SQLite has no words for it.
fn add_topic_function(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(TOPIC_FUNCTION, 2, flags, |context| {
        let pattern = context.get_raw(0).as_str()?.parse::<Pattern>();
        let topic = context.get_raw(1).as_str_or_null()?.unwrap_or_default();
        Ok(pattern.is_ok_and(|pattern| pattern.matches(topic)))
    })
}

impl Sqlite {
    /// Runs this in the next commit.
    async fn write<T, F>(&self, kind: Kind, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let path = Arc::clone(&self.path);
        let work = move |connection: &Connection| work(connection).map_err(|error| explain(error, &path));
        self.writer.run(kind, 0, work, |_| ()).await
    }

    /// Runs this beside the writer.
    async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.files.check()?;
        let path = Arc::clone(&self.path);
        self.looks.run(move |connection| read(connection).map_err(|error| explain(error, &path))).await
    }
}

impl Driver for Sqlite {
    /// Shared: a job outlives whoever asked for it and was dropped.
    type Sql = Arc<SqliteTableSql>;
    type Kept = ();

    const BEGINS_AT_PLACE: bool = false;

    /// Whoever reads a file without a write-ahead log keeps its producers from committing, so it is not looked at more often
    /// than it must be.
    fn waiting() -> Waiting {
        Waiting::patient()
    }

    fn shape(sql: &Self::Sql) -> &Shape {
        sql.shape()
    }

    fn insert_columns(sql: &Self::Sql) -> &[Column] {
        &sql.insert_columns
    }

    async fn look(&self, profile: &Profile) -> Result<Self::Sql> {
        let wanted = profile.clone();
        let found = self.read(move |connection| check::columns(connection, &wanted)).await?;
        Ok(Arc::new(SqliteTableSql::new(check::shape(profile.clone(), &found)?)))
    }

    async fn present(&self, profile: &Profile) -> Result<Option<Present>> {
        let wanted = profile.clone();
        let present = move |connection: &Connection| {
            let columns = check::columns(connection, &wanted)?;
            let indexes = examine::indexes(connection, wanted.table.name())?.columns;
            Ok(Some(Present { columns, indexes }).filter(|present| !present.columns.is_empty()))
        };
        self.read(present).await
    }

    fn ddl(profile: &Profile, present: Option<&Present>) -> String {
        match present {
            Some(present) => sqlite_lacking_ddl(profile, present),
            None => sqlite_table_ddl(profile),
        }
    }

    async fn warn(&self, _: &Self::Sql, _: &LaneSpec) -> Result<()> {
        Ok(())
    }

    async fn examine(&self, sql: &Self::Sql, lanes: &[LaneSpec]) -> Vec<Finding> {
        examine::examine(self, sql, lanes).await
    }

    async fn claim(&self, sql: &Self::Sql, ask: Ask<'_>, (): &mut ()) -> Result<Vec<RawRow>> {
        let claim = Arc::new(work::Claim::new(sql, ask, self.clock.now()));
        // Looks before it writes: a producer's open transaction keeps writers waiting, and an idle relay writes nothing.
        let looking = Arc::clone(&claim);
        if self.read(move |connection| looking.finds_nothing(connection)).await? {
            return Ok(Vec::new());
        }
        self.write(Kind::Other, move |connection| claim.take(connection)).await
    }

    async fn due(&self, sql: &Self::Sql, ask: Ask<'_>) -> Result<Option<String>> {
        let claim = work::Claim::new(sql, ask, self.clock.now());
        self.read(move |connection| claim.first(connection)).await
    }

    async fn record(&self, sql: &Self::Sql, sorted: &Arc<Sorted>) -> Result<(u64, u64)> {
        let (sql, sorted, now) = (Arc::clone(sql), Arc::clone(sorted), self.clock.now());
        self.write(Kind::Settle, move |connection| work::record(connection, &sql, &sorted, now)).await
    }

    async fn hand_back(&self, sql: &Self::Sql, left: Left, (): &mut ()) -> Result<()> {
        let (sql, now) = (Arc::clone(sql), self.clock.now());
        self.write(Kind::Other, move |connection| work::hand_back(connection, &sql, &left, now)).await
    }

    async fn sweep(&self, sql: &Self::Sql, sweep: Sweep) -> Result<Swept> {
        // Looks before it writes, past what is passed over: one row that stays would make every sweep a write.
        if self.expired(sql, sweep).await?.is_none() {
            return Ok(Swept::default());
        }
        let (sql, now) = (Arc::clone(sql), self.clock.now());
        self.write(Kind::Other, move |connection| work::sweep(connection, &sql, sweep, now)).await
    }

    async fn expired(&self, sql: &Self::Sql, sweep: Sweep) -> Result<Option<String>> {
        let (sql, now) = (Arc::clone(sql), self.clock.now());
        self.read(move |connection| work::expired(connection, &sql, sweep, now)).await
    }

    async fn count(&self, sql: &Self::Sql) -> Result<Counted> {
        let (sql, now) = (Arc::clone(sql), self.clock.now());
        self.read(move |connection| count::count(connection, &sql, now)).await
    }

    async fn find(&self, sql: &Self::Sql, question: &Question) -> Result<Vec<Seen>> {
        let Some(asked) = admin::Asked::of(sql, question, self.clock.now()) else { return Ok(Vec::new()) };
        let sql = Arc::clone(sql);
        self.read(move |connection| asked.find(connection, &sql)).await
    }

    async fn matched(&self, sql: &Self::Sql, question: &Question) -> Result<(u64, Timestamp)> {
        let now = self.clock.now();
        let Some(asked) = admin::Asked::of(sql, question, now) else { return Ok((0, now)) };
        let sql = Arc::clone(sql);
        let matched = self.read(move |connection| asked.count(connection, &sql)).await?;
        Ok((matched, now))
    }

    async fn change(
        &self,
        sql: &Self::Sql,
        question: &Question,
        wish: &Wish,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let Some(asked) = admin::Asked::of(sql, question, self.clock.now()) else { return Ok(0) };
        let (sql, audit, wish) = (Arc::clone(sql), Arc::clone(&self.audit), wish.clone());
        let page = ledger.clone();
        let work = move |connection: &Connection| asked.change(connection, (&sql, &audit), &wish, page);
        let (changed, page) = self.write(Kind::Other, work).await?;
        *ledger = page;
        Ok(changed)
    }

    async fn count_old(&self, sql: &Self::Sql, what: Terminal, age: Duration) -> Result<u64> {
        let (sql, cutoff) = (Arc::clone(sql), self.clock.now().before(age));
        self.read(move |connection| admin::count_old(connection, &sql, what, cutoff)).await
    }

    async fn prune(
        &self,
        sql: &Self::Sql,
        what: Terminal,
        age: Duration,
        rows: u32,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let (sql, audit, now) = (Arc::clone(sql), Arc::clone(&self.audit), self.clock.now());
        let page = (ledger.clone(), now);
        let work = move |connection: &Connection| {
            admin::prune(connection, (&sql, &audit), (what, now.before(age)), rows, page)
        };
        let (removed, page) = self.write(Kind::Other, work).await?;
        *ledger = page;
        Ok(removed)
    }

    async fn record_table(&self) -> Result<Option<String>> {
        let audit = Arc::clone(&self.audit);
        self.read(move |connection| {
            let is_there: bool = connection.query_row(&audit.exists, [], |row| row.get(0))?;
            Ok(is_there.then(|| audit.table.clone()))
        })
        .await
    }

    async fn write_record(&self, entry: AuditEntry) -> Result<()> {
        let (audit, now) = (Arc::clone(&self.audit), self.clock.now());
        let work = move |connection: &Connection| insert_entry(connection, &audit.insert, &entry, now);
        self.write(Kind::Other, work).await
    }

    async fn read_record(&self, mut picker: AuditPicker) -> Result<Audited> {
        let audit = Arc::clone(&self.audit);
        self.read(move |connection| {
            pick(connection, &audit.down, &mut picker)?;
            Ok(picker.picked())
        })
        .await
    }

    async fn insert(&self, sql: &Self::Sql, events: Vec<Envelope>, bell: &Signal) -> Result<Vec<Published>> {
        let (sql, path, clock) = (Arc::clone(sql), Arc::clone(&self.path), Arc::clone(&self.clock));
        let bytes = events.iter().map(|event| event.payload.len()).sum();
        let work = move |connection: &Connection| {
            let now = clock.now();
            let inserted = events.iter().map(|event| publish::insert(connection, &sql, event, now));
            inserted.map(|done| done.map_err(|error| explain(error, &path)).flatten()).collect()
        };
        let bell = bell.clone();
        let after =
            move |published: Option<&Vec<Published>>| ring(&bell, published.map_or(&[], Vec::as_slice));
        self.writer.run(Kind::Publish, bytes, work, after).await
    }
}
