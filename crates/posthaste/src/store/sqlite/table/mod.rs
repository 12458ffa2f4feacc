//! The table engine on SQLite.
//!
//! Claims and settles are jobs of the one writer, which come one after another: nothing is locked and nothing skipped, and
//! what a dropped claim took is handed back by a job that comes after it. The file belongs to somebody else and stays as it
//! is: neither its journal mode nor its tables are changed.

mod admin;
mod check;
mod examine;
mod work;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste_core::envelope::{Envelope, fresh_id};
use posthaste_core::findings::Finding;
use posthaste_core::lane::{LaneName, LaneSpec};
use posthaste_core::publisher::{Published, Publisher};
use posthaste_core::schema::{Keyring, Schema, SchemaStatus};
use posthaste_core::signal::{Listener, Signal};
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::table::{SqliteTableSql, meters};
use posthaste_core::time::Clock;
use posthaste_core::{BoxFuture, Error, Result, crash};
use rusqlite::{Connection, OpenFlags};
use tokio::time::Instant;

use super::address::{Address, Mode};
use super::error::explain;
use super::reader::Reader;
use super::writer::{Kind, Writer};
use crate::store::table::cursor::{Cursor, Look, Token};
use crate::store::table::look::Said;
use crate::store::{StoreOptions, TableOptions};

/// How many statements stay prepared; more than there are.
const STATEMENTS_MAX: usize = 64;

/// An outbox table of somebody else in a SQLite file.
pub struct SqliteTable {
    path: Arc<Path>,
    clock: Arc<dyn Clock>,
    options: TableOptions,
    signal: Signal,
    payload_bytes_max: usize,
    writer: Writer,
    looks: Reader,
    memory: Mutex<Memory>,
}

/// What this process knows beyond what is stored.
#[derive(Default)]
struct Memory {
    sql: Option<Arc<SqliteTableSql>>,
    leases: HashMap<String, Arc<Cursor>>,
    said: HashMap<LaneName, Said>,
    listeners: HashMap<LaneName, Listener>,
}

impl SqliteTable {
    /// Opens the file that the part of a URL after `sqlite:` names, which must be there.
    ///
    /// # Errors
    /// `Config` for a file that is not there or no database, and for a profile that makes no sense.
    pub fn open(rest: &str, table: TableOptions, options: StoreOptions) -> Result<Self> {
        table.profile.check()?;
        let address = Address::parse(rest, false)?;
        if address.mode == Mode::Make {
            return Err(Error::config(
                "an outbox table that is there already is in a file that is there: leave ?mode= away",
            ));
        }
        super::open::prepare_file(&address)?;
        let path: Arc<Path> = address.path.as_path().into();
        let connect = || -> rusqlite::Result<Connection> {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&address.path, flags)?;
            connection.busy_timeout(options.busy_timeout)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
            Ok(connection)
        };
        let connect = || connect().map_err(|error| explain(error, &path));
        Ok(Self {
            writer: Writer::start(connect()?, Arc::clone(&path), options.busy_timeout)?,
            looks: Reader::start("posthaste-looks", connect()?)?,
            path,
            clock: options.clock,
            options: table,
            signal: options.signal,
            payload_bytes_max: options.payload_bytes_max,
            memory: Mutex::default(),
        })
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        let path = Arc::clone(&self.path);
        self.looks.run(move |connection| read(connection).map_err(|error| explain(error, &path))).await
    }

    /// The statements for the table, which is looked at if that was not done yet.
    async fn sql(&self) -> Result<Arc<SqliteTableSql>> {
        let known = self.memory().sql.clone();
        match known {
            Some(sql) => Ok(sql),
            None => self.look().await,
        }
    }

    async fn look(&self) -> Result<Arc<SqliteTableSql>> {
        let profile = self.options.profile.clone();
        let found = self.read(move |connection| check::columns(connection, &profile)).await?;
        let sql = Arc::new(SqliteTableSql::new(check::shape(self.options.profile.clone(), &found)?));
        self.memory().sql = Some(Arc::clone(&sql));
        Ok(sql)
    }

    async fn take(&self, lane: &LaneSpec, owner: &Owner) -> Result<Option<Lease>> {
        crate::store::table::check_lane(lane)?;
        if self.memory().said.get(&lane.name).is_some_and(|said| said.retired.is_some()) {
            return Ok(None);
        }
        let sql = self.look().await?;
        let cursor = Arc::new(Cursor::new(lane.clone(), owner.clone()));
        let before = {
            let mut memory = self.memory();
            // Whoever dropped its lease without a word: its rows wait for their lease to end.
            memory.leases.retain(|run, other| *run == owner.run || Arc::strong_count(other) > 1);
            memory.leases.insert(owner.run.clone(), Arc::clone(&cursor))
        };
        if let Some(before) = before {
            before.end();
            self.hand_back(&sql, &before).await?;
        }
        let listener = self.signal.listen();
        self.memory().listeners.entry(lane.name.clone()).or_insert(listener);
        cursor.sweep_is_due();
        self.sweep(&sql, &cursor).await?;
        Ok(Some(cursor.lease()))
    }

    /// The cursor of a lease, if its relay has not acquired anew.
    fn cursor(&self, lease: &Lease) -> Result<Arc<Cursor>> {
        let cursor = Cursor::of(lease)?;
        let is_last =
            self.memory().leases.get(&cursor.owner.run).is_some_and(|last| Arc::ptr_eq(last, &cursor));
        if is_last { Ok(cursor) } else { Err(Error::conflict("the lease is over: this relay acquired anew")) }
    }

    async fn hand_out(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        if room.events == 0 {
            return Ok(Vec::new());
        }
        let (cursor, sql) = (self.cursor(lease)?, self.sql().await?);
        if cursor.sweep_is_due() {
            self.sweep(&sql, &cursor).await?;
        }
        let token: Token = sql.shape().token(&cursor.owner.name, &fresh_id()).into();
        let began = Instant::now();
        // Looks before it writes: a producer's open transaction keeps writers waiting, and an idle relay writes nothing.
        let ask = Arc::new(work::Ask::of(&cursor, &token, room, self.clock.now()));
        let (statements, question) = (Arc::clone(&sql), Arc::clone(&ask));
        if self.read(move |connection| question.finds_nothing(connection, &statements)).await? {
            return Ok(Vec::new());
        }
        cursor.begin_claim(&token);
        let statements = Arc::clone(&sql);
        let rows = self.write(Kind::Other, move |connection| ask.claim(connection, &statements)).await?;
        crash::point("claim: read");
        let ids = rows.iter().map(|row| (row.id.as_str(), row.attempts));
        let tickets = cursor.end_claim(&token, began, Look::Whole, ids, None);
        let (mut claimed, mut bad) = (Vec::with_capacity(rows.len()), Vec::new());
        for (row, ticket) in rows.into_iter().zip(tickets) {
            let id = row.id.clone();
            match row.parcel() {
                Ok(parcel) => claimed.push(Claimed::new(ticket, parcel)),
                Err(reason) => {
                    tracing::warn!(
                        event_id = id.as_str(),
                        reason,
                        "a row that is no event was set aside as dead"
                    );
                    cursor.let_go(ticket);
                    bad.push((id, reason));
                }
            }
        }
        if !bad.is_empty() {
            meters::count_set_aside(lease.lane().as_str(), bad.len() as u64);
            let (statements, now) = (Arc::clone(&sql), self.clock.now());
            self.write(Kind::Other, move |connection| {
                work::set_aside(connection, &statements, &token, &bad, now)
            })
            .await?;
        }
        Ok(claimed)
    }

    async fn record(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let Ok(cursor) = self.cursor(lease) else { return Ok(Standing::Lost) };
        if cursor.is_over() {
            return Ok(Standing::Lost);
        }
        let sql = self.sql().await?;
        let sorted = Arc::new(cursor.sort(outcomes));
        let (statements, work_on, now) = (Arc::clone(&sql), Arc::clone(&sorted), self.clock.now());
        let (recorded, renewed) = self
            .write(Kind::Settle, move |connection| work::record(connection, &statements, &work_on, now))
            .await?;
        cursor.recorded(&sorted);
        let lost = sorted.outcomes() + sorted.unknown - recorded.min(sorted.outcomes());
        if lost > 0 {
            meters::count_lost(lease.lane().as_str(), lost);
            tracing::warn!(
                rows = lost,
                "leases of rows were lost before their outcome came; somebody else has them"
            );
        }
        let standing = sorted.standing(recorded, renewed);
        self.memory().said.entry(lease.lane().clone()).or_default().hear(&then);
        if matches!(then, Then::GiveUp | Then::Retire(_)) {
            cursor.end();
            self.hand_back(&sql, &cursor).await?;
            self.memory().leases.remove(&cursor.owner.run);
        } else if cursor.sweep_is_due() {
            self.sweep(&sql, &cursor).await?;
        }
        Ok(standing)
    }

    async fn sweep(&self, sql: &Arc<SqliteTableSql>, cursor: &Cursor) -> Result<()> {
        let (mut swept, mut dead) = (0, 0);
        let (statements, cutoff) = (Arc::clone(sql), work::text(self.clock.now().before(cursor.lane.lease)));
        let look = move |connection: &Connection| {
            connection.prepare_cached(&statements.expired)?.query_row([cutoff], |row| row.get::<_, bool>(0))
        };
        if !self.read(look).await? {
            return Ok(());
        }
        loop {
            let (statements, now, lease) = (Arc::clone(sql), self.clock.now(), cursor.lane.lease);
            let (rows, budget) = (self.options.sweep_rows.max(1), self.options.attempts_max.max(1));
            let sweep =
                move |connection: &Connection| work::sweep(connection, &statements, lease, rows, budget, now);
            let (some, some_dead) = self.write(Kind::Other, sweep).await?;
            swept += some;
            dead += some_dead;
            if some < u64::from(rows) {
                break;
            }
        }
        if swept > 0 {
            meters::count_swept(cursor.lane.name.as_str(), swept, dead);
            tracing::warn!(
                rows = swept,
                dead,
                "leases had ended without an answer; their rows are pending again"
            );
        }
        Ok(())
    }

    async fn hand_back(&self, sql: &Arc<SqliteTableSql>, cursor: &Cursor) -> Result<()> {
        let (statements, left, now) = (Arc::clone(sql), cursor.left(), self.clock.now());
        self.write(Kind::Other, move |connection| work::hand_back(connection, &statements, &left, now))
            .await?;
        cursor.forget();
        Ok(())
    }
}

impl Store for SqliteTable {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            self.take(lane, owner).await.map_err(|error| error.during(format!("acquire lane {}", lane.name)))
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            let claimed = self.hand_out(lease, room).await;
            claimed.map_err(|error| error.during(format!("claim from lane {}", lease.lane())))
        })
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(async move {
            let standing = self.record(lease, outcomes, then).await;
            standing.map_err(|error| error.during(format!("settle lane {}", lease.lane())))
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let kept = self.memory().listeners.get(&lane.name).cloned();
            let mut listener = kept.unwrap_or_else(|| self.signal.listen());
            listener.heard(at_most).await;
            self.memory().listeners.insert(lane.name.clone(), listener);
        })
    }
}

impl Publisher for SqliteTable {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(self.append(events))
    }
}

/// A table of somebody else has no version: it fits or it does not.
impl Schema for SqliteTable {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(async move {
            self.look().await?;
            Ok(SchemaStatus::new(Some(1), 1, 1))
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async move { Err(crate::store::table::not_ours(&self.options.profile)) })
    }

    fn examine<'a>(&'a self, lanes: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async move {
            match self.sql().await {
                Ok(sql) => examine::examine(self, &sql, lanes).await,
                // What the table lacks is the answer of its status.
                Err(_) => Vec::new(),
            }
        })
    }
}

impl Keyring for SqliteTable {
    fn add<'a>(&'a self, _: &'a str, _: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(Error::config("an outbox table of somebody else keeps no API keys")) })
    }

    fn name_of<'a>(&'a self, _: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async { Ok(None) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async { Ok(0) })
    }
}
