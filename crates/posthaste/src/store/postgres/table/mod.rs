//! The table engine on Postgres.
//!
//! * A claim is one statement that picks, leases and reads (`claim.rs`); in order per key it follows a lock, so that claims in
//!   order come one after another.
//! * Outcomes go by kind, one statement each, in one transaction where there are several (`settle.rs`).
//! * Leases that have ended are taken back at each acquisition and at an interval, in statements of bounded size (`sweep.rs`).
//! * The table is looked at when a lane is acquired (`check.rs`): what is missing is said with its column or GRANT.
//!
//! Claims of one lease have a connection of their own: should a claim be dropped half-way, the server may still carry it out,
//! and what is sent on the same connection afterwards comes after it. So a relay that stops hands back what such a claim took.

mod admin;
mod check;
mod claim;
mod examine;
mod publish;
mod settle;
mod sweep;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::lane::{LaneName, LaneSpec};
use posthaste_core::publisher::{Published, Publisher};
use posthaste_core::schema::{Keyring, Schema, SchemaStatus};
use posthaste_core::signal::Signal;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::table::PostgresTableSql;
use posthaste_core::{BoxFuture, Error, Result};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::error::explain;
use super::pool::{Connection, Connections};
use crate::store::table::cursor::Cursor;
use crate::store::table::look::Said;
use crate::store::waiting::Waiting;
use crate::store::{StoreOptions, TableOptions};

/// An outbox table of somebody else in a Postgres database.
pub struct PostgresTable {
    connections: Connections,
    options: TableOptions,
    signal: Signal,
    waiting: Waiting,
    payload_bytes_max: usize,
    memory: Mutex<Memory>,
}

/// What this process knows beyond what is stored.
#[derive(Default)]
struct Memory {
    /// The statements for the table as it was last seen.
    sql: Option<Arc<PostgresTableSql>>,
    /// The lease that each run of a relay acquired last.
    leases: HashMap<String, Arc<Driving>>,
    /// What relays said of their lanes. One whose address is gone nobody takes before this process is started anew.
    said: HashMap<LaneName, Said>,
    /// When the missing table was last complained about.
    complained: Option<Instant>,
}

/// A lease, its statements and its connection for claims.
struct Driving {
    cursor: Arc<Cursor>,
    sql: Arc<PostgresTableSql>,
    claims: AsyncMutex<Option<Connection>>,
}

impl PostgresTable {
    /// Opens the database at this URL; nothing is connected before it is needed, and nothing is ever made there.
    ///
    /// # Errors
    /// `Config` for a URL that cannot be used, and for a profile that makes no sense.
    pub fn open(url: &str, table: TableOptions, options: StoreOptions) -> Result<Self> {
        table.profile.check()?;
        Ok(Self {
            connections: Connections::open(url, &options)?,
            options: table,
            signal: options.signal,
            waiting: Waiting::default(),
            payload_bytes_max: options.payload_bytes_max,
            memory: Mutex::default(),
        })
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statements for the table, which is looked at if that was not done yet.
    async fn sql(&self, client: &Connection) -> Result<Arc<PostgresTableSql>> {
        let known = self.memory().sql.clone();
        match known {
            Some(sql) => Ok(sql),
            None => self.look(client).await,
        }
    }

    /// Looks at the table.
    async fn look(&self, client: &Connection) -> Result<Arc<PostgresTableSql>> {
        let looked = check::check(client, &self.options.profile).await;
        let mut memory = self.memory();
        match looked {
            Ok(shape) => {
                let sql = Arc::new(PostgresTableSql::new(shape));
                memory.sql = Some(Arc::clone(&sql));
                memory.complained = None;
                Ok(sql)
            }
            Err(error) => {
                if error.retryable() {
                    check::complain(&mut memory.complained, &error);
                }
                Err(error)
            }
        }
    }

    async fn take(&self, lane: &LaneSpec, owner: &Owner) -> Result<Option<Lease>> {
        crate::store::table::check_lane(lane)?;
        if self.memory().said.get(&lane.name).is_some_and(|said| said.retired.is_some()) {
            tracing::debug!("the lane's address is gone; start the relay anew to try it again");
            return Ok(None);
        }
        let client = self.connections.get().await?;
        let sql = self.look(&client).await?;
        check::warn_of_order(&client, &sql, lane).await?;
        let cursor = Arc::new(Cursor::new(lane.clone(), owner.clone()));
        let driving = Arc::new(Driving { cursor: Arc::clone(&cursor), sql, claims: AsyncMutex::new(None) });
        let before = {
            let mut memory = self.memory();
            // Whoever dropped its lease without a word holds a connection no longer; its rows wait for their lease to end.
            memory.leases.retain(|run, other| *run == owner.run || Arc::strong_count(&other.cursor) > 1);
            memory.leases.insert(owner.run.clone(), Arc::clone(&driving))
        };
        if let Some(before) = before {
            // What it held is unknown now: it may have been sent.
            before.cursor.end();
            settle::hand_back(&client, &before).await?;
        }
        // Listens before the first claim, so that no publish between a claim and a wait goes unheard.
        self.waiting.listen(&lane.name, &self.signal);
        cursor.sweep_is_due();
        sweep::sweep(&client, &driving, &self.options).await?;
        Ok(Some(cursor.lease()))
    }

    fn driving(&self, lease: &Lease) -> Result<Arc<Driving>> {
        let cursor = Cursor::of(lease)?;
        let driving = self.memory().leases.get(&cursor.owner.run).cloned();
        let driving = driving.filter(|driving| Arc::ptr_eq(&driving.cursor, &cursor));
        driving.ok_or_else(|| Error::conflict("the lease is over: this relay acquired anew"))
    }

    async fn hand_out(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        if room.events == 0 {
            return Ok(Vec::new());
        }
        let driving = self.driving(lease)?;
        if driving.cursor.sweep_is_due() {
            let client = self.connections.get().await?;
            sweep::sweep(&client, &driving, &self.options).await?;
        }
        let claimed = claim::claim(&self.connections, &driving, room).await?;
        self.waiting.claimed(lease.lane(), !claimed.is_empty(), false);
        Ok(claimed)
    }

    async fn record(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let Ok(driving) = self.driving(lease) else { return Ok(Standing::Lost) };
        if driving.cursor.is_over() {
            return Ok(Standing::Lost);
        }
        let mut client = self.connections.get().await?;
        let standing = settle::settle(&mut client, &driving, outcomes).await?;
        self.memory().said.entry(lease.lane().clone()).or_default().hear(&then);
        if matches!(then, Then::GiveUp | Then::Retire(_)) {
            driving.cursor.end();
            settle::hand_back(&client, &driving).await?;
            self.memory().leases.remove(&driving.cursor.owner.run);
        } else if driving.cursor.sweep_is_due() {
            sweep::sweep(&client, &driving, &self.options).await?;
        }
        Ok(standing)
    }
}

impl Store for PostgresTable {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            let taken = self.connections.watched(self.take(lane, owner)).await;
            taken.map_err(|error| error.during(format!("acquire lane {}", lane.name)))
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(async move {
            let claimed = self.connections.watched(self.hand_out(lease, room)).await;
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
            let standing = self.connections.watched(self.record(lease, outcomes, then)).await;
            standing.map_err(|error| error.during(format!("settle lane {}", lease.lane())))
        })
    }

    fn wait<'a>(&'a self, lane: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(self.waiting.wait(&lane.name, &self.signal, at_most))
    }
}

impl Publisher for PostgresTable {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(self.connections.watched(self.append(events)))
    }
}

/// A table of somebody else has no version: it fits or it does not.
impl Schema for PostgresTable {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(async move {
            let look = async {
                let client = self.connections.get().await?;
                self.look(&client).await
            };
            self.connections.watched(look).await?;
            Ok(SchemaStatus::new(Some(1), 1, 1))
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async move { Err(crate::store::table::not_ours(&self.options.profile)) })
    }

    fn examine<'a>(&'a self, lanes: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async move {
            let looked = async { self.sql(&self.connections.get().await?).await };
            match looked.await {
                Ok(sql) => examine::examine(&self.connections, &sql, lanes).await,
                // What the table lacks is the answer of its status.
                Err(_) => Vec::new(),
            }
        })
    }
}

impl Keyring for PostgresTable {
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

/// What the server says about a table that is not ours.
fn told(error: tokio_postgres::Error, table: &str) -> Error {
    let code = error.as_db_error().map(|db| db.code().code().to_owned()).unwrap_or_default();
    match code.as_str() {
        "42P01" => check::absent(table).because(error),
        "42501" => check::no_right(table).because(error),
        "42703" | "42804" | "42883" => {
            Error::config(format!("the table {table} has changed since the relay looked at it"))
                .because(error)
        }
        _ => explain(error),
    }
}
