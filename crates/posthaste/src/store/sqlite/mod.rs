//! The log engine on an embedded SQLite file.
//!
//! Three threads have the file open. One writes (`writer.rs`) and lets all callers that wait share a commit.
//! One reads for claims (`claim.rs`), and one reads for operators, so that a claim never waits behind an
//! operator's scan. Nothing blocks the async runtime. Dropping a future leaves nothing half done: a job that
//! has begun runs to its end, and one that has not is skipped.
//!
//! SQLite has one writer, so the order of `seq` is the order of commits and a lane's place is a number: in
//! one snapshot, everything beyond it is there or will get a higher number.
//!
//! Where a store may choose, this one does so:
//! * A row *behind* its key is stored as such and has no due time. The transaction that removes or kills what
//!   it waited for makes it due (`promote.sql`). Deriving that at every claim would cost more with every
//!   event that waits. The single writer makes the stored form safe, and acquiring (`acquire.rs`) repairs
//!   what was changed by hand.
//! * Totals change in the transaction of what they count; see `totals.rs`.
//! * Without any lane nothing is pruned: nobody has read anything yet.

mod acquire;
mod address;
mod admin;
mod checkpoint;
mod claim;
mod cursor;
mod dedup;
mod error;
mod examine;
mod files;
mod identity;
mod keys;
mod log;
mod migrate;
mod open;
mod publish;
mod reader;
mod rows;
mod settle;
pub(in crate::store) mod table;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::lane::LaneSpec;
use posthaste_core::prefix::TablePrefix;
use posthaste_core::publisher::{Published, Publisher};
use posthaste_core::schema::{Schema, SchemaStatus};
use posthaste_core::signal::Signal;
use posthaste_core::sql::SqliteSql;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::time::{Clock, Timestamp};
use posthaste_core::{BoxFuture, Error, Result, crash};
use rusqlite::Connection;
use tokio::sync::oneshot;

use self::address::{Address, Mode};
use self::cursor::{Cursor, Reading};
use self::error::explain;
use self::files::Files;
pub use self::identity::identity;
use self::reader::Reader;
use self::writer::{Kind, Writer};
use super::StoreOptions;
use super::waiting::Waiting;

/// When so much waits to be recorded, a claim does not leave it to the relay's next settle.
const TO_PARK_MAX: usize = 10_000;

/// A store in a SQLite file.
pub struct SqliteStore {
    path: Arc<Path>,
    prefix: TablePrefix,
    /// Taken when the file was opened: since then another file may have taken its path.
    identity: Option<String>,
    files: Arc<Files>,
    sql: Arc<SqliteSql>,
    clock: Arc<dyn Clock>,
    signal: Signal,
    payload_bytes_max: usize,
    /// `None`: the file was opened to be looked at.
    writer: Option<Writer>,
    claims: Reader,
    looks: Reader,
    waiting: Waiting,
}

impl SqliteStore {
    /// Opens the file that the part of a URL after `sqlite:` names, makes it if that is wanted, and brings its tables up
    /// to date.
    ///
    /// # Errors
    /// `Config` when the file or its folder is missing, may not be written, is no database, or was made by a newer
    /// release; `Unavailable` when the disk is full or another process holds the file for too long; `Corrupt` when it is
    /// damaged.
    pub async fn open(rest: &str, options: StoreOptions) -> Result<Self> {
        let address = Address::parse(rest, options.create)?;
        let (reply, opened) = oneshot::channel();
        // On a thread of its own: opening may wait for another process.
        std::thread::Builder::new()
            .name("posthaste-open".to_owned())
            .spawn(move || drop(reply.send(Self::open_blocking(address, options))))
            .map_err(|error| Error::unavailable("a thread cannot be started").because(error))?;
        opened.await.map_err(|_| Error::unavailable("opening the store ended early"))?
    }

    fn open_blocking(address: Address, options: StoreOptions) -> Result<Self> {
        let sql = Arc::new(SqliteSql::new(&options.prefix));
        let path: Arc<Path> = address.path.as_path().into();
        let mut to_write = None;
        if address.mode != Mode::Look {
            open::prepare_file(&address)?;
            let connection = open::writer(&address, options.synchronous, options.busy_timeout)?;
            migrate::migrate(&connection, &options.prefix, &sql, &path)?;
            to_write = Some(connection);
        }
        let claims = open::reader(&address, options.busy_timeout)?;
        let files = Arc::new(Files::of(to_write.as_ref().unwrap_or(&claims), &path)?);
        let start = |connection| Writer::start(connection, Arc::clone(&files), options.busy_timeout);
        let writer = to_write.map(start).transpose()?;
        let looks = open::reader(&address, options.busy_timeout)?;
        let status = migrate::status(&looks, &sql).map_err(|error| explain(error, &path))?;
        migrate::check(status, &path)?;
        Ok(Self {
            identity: identity(&path, &options.prefix),
            path,
            files,
            prefix: options.prefix,
            sql,
            clock: options.clock,
            signal: options.signal,
            payload_bytes_max: options.payload_bytes_max,
            writer,
            claims: Reader::start("posthaste-claims", claims)?,
            looks: Reader::start("posthaste-looks", looks)?,
            waiting: Waiting::patient(),
        })
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.path.to_path_buf()
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| {
            Error::config(format!("{} was opened read-only; open it without ?mode=ro", self.path.display()))
        })
    }

    /// Runs this in the next commit.
    async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &SqliteSql, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    {
        let (sql, clock, path) = (Arc::clone(&self.sql), Arc::clone(&self.clock), Arc::clone(&self.path));
        let work = move |connection: &Connection| {
            work(connection, &sql, clock.now()).map_err(|error| explain(error, &path))
        };
        self.writer()?.run(Kind::Other, 0, work, |_| ()).await
    }

    /// Runs this in a snapshot, beside claims.
    async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &SqliteSql) -> rusqlite::Result<T> + Send + 'static,
    {
        self.files.check()?;
        let (sql, path) = (Arc::clone(&self.sql), Arc::clone(&self.path));
        self.looks.run(move |connection| read(connection, &sql).map_err(|error| explain(error, &path))).await
    }

    async fn acquire_lane(&self, lane: &LaneSpec, owner: &Owner) -> Result<Option<Lease>> {
        let (spec, by) = (lane.clone(), owner.clone());
        let taken =
            self.write(move |connection, sql, now| acquire::acquire(connection, sql, &spec, &by, now));
        let Some(taken) = taken.await.map_err(|error| error.during(format!("acquire lane {}", lane.name)))?
        else {
            return Ok(None);
        };
        // Listens before the first claim, so that no publish between a claim and a wait goes unheard.
        self.waiting.listen(&lane.name, &self.signal);
        let reading = Reading::from(taken.position, taken.done);
        let cursor = Arc::new(Cursor::new(lane.clone(), owner.run.clone(), taken.epoch, reading));
        let lease = Lease::new(lane.name.clone(), taken.epoch, lane.lease, cursor);
        Ok(Some(lease.with_stumbles(taken.stumbles)))
    }

    async fn claim_events(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        let cursor = Cursor::of(lease)?;
        if room.events == 0 {
            return Ok(Vec::new());
        }
        let (sql, clock, path) = (Arc::clone(&self.sql), Arc::clone(&self.clock), Arc::clone(&self.path));
        let claim = move |connection: &Connection| {
            let answer = claim::claim(connection, &sql, &cursor, room, clock.now());
            crash::point("claim: read");
            answer.map_err(|error| explain(error, &path).during(format!("claim from lane {}", cursor.lane())))
        };
        let answer = self.claims.run(claim).await?;
        if answer.to_park > 0 || answer.is_partial && answer.claimed.is_empty() {
            // Asks the relay to come back, also one that leaves when nothing is due.
            lease.note_unrecorded();
        }
        self.waiting.claimed(lease.lane(), !answer.claimed.is_empty(), answer.is_partial);
        if answer.to_park > TO_PARK_MAX
            && self.settle_events(lease, Vec::new(), Then::Hold).await? == Standing::Lost
        {
            return Ok(Vec::new());
        }
        Ok(answer.claimed)
    }

    async fn settle_events(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let cursor = Cursor::of(lease)?;
        let (sql, clock, path) = (Arc::clone(&self.sql), Arc::clone(&self.clock), Arc::clone(&self.path));
        let request = settle::Request { outcomes, then, lease: lease.length() };
        let after = Arc::clone(&cursor);
        let work = move |connection: &Connection| {
            let done = settle::settle(connection, &sql, &cursor, request, clock.now());
            done.map_err(|error| explain(error, &path).during(format!("settle lane {}", cursor.lane())))
        };
        let tell = move |done: Option<&settle::Done>| settle::Done::tell(done, &after);
        let done = self.writer()?.run(Kind::Settle, 0, work, tell).await?;
        Ok(done.standing)
    }

    async fn publish_events(&self, events: Vec<Envelope>) -> Result<Vec<Published>> {
        let mut bytes = 0;
        for event in &events {
            event.check(self.payload_bytes_max)?;
            bytes += event.payload.len();
        }
        let (sql, clock, path) = (Arc::clone(&self.sql), Arc::clone(&self.clock), Arc::clone(&self.path));
        let signal = self.signal.clone();
        let work =
            move |connection: &Connection| publish::publish(connection, &sql, &path, &events, clock.now());
        let ring = move |published: Option<&Vec<Published>>| {
            if published.is_some_and(|published| published.contains(&Published::Now)) {
                signal.ring();
            }
        };
        self.writer()?.run(Kind::Publish, bytes, work, ring).await
    }
}

impl Store for SqliteStore {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(self.acquire_lane(lane, owner))
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(self.claim_events(lease, room))
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(self.settle_events(lease, outcomes, then))
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(self.waiting.wait(&lane.name, &self.signal, at_most))
    }
}

impl Publisher for SqliteStore {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(self.publish_events(events))
    }
}

impl Schema for SqliteStore {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(self.read(migrate::status))
    }

    /// The file was brought up to date when it was opened, so that there is nothing left to do, unless somebody dropped
    /// the tables since.
    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async move {
            let (sql, path, prefix) = (Arc::clone(&self.sql), Arc::clone(&self.path), self.prefix.clone());
            let work =
                move |connection: &Connection| migrate::apply_missing(connection, &prefix, &sql, &path);
            self.writer()?.run(Kind::Other, 0, work, |_| ()).await
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<Option<String>>> {
        Box::pin(async { Ok(self.identity.clone()) })
    }

    fn examine<'a>(&'a self, _: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(examine::examine(self))
    }
}
