//! The table engine over a [`Driver`]: leases, claims, settles, sweeps and what operators do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::admin::Filter;
use posthaste_core::envelope::{Envelope, fresh_id};
use posthaste_core::findings::Finding;
use posthaste_core::lane::{LaneName, LaneSpec, Order};
use posthaste_core::prefix::TablePrefix;
use posthaste_core::publisher::{Published, Publisher};
use posthaste_core::schema::{Keyring, Schema, SchemaStatus};
use posthaste_core::signal::Signal;
use posthaste_core::store::{Claimed, Lease, Owner, Room, Settled, Standing, Store, Then};
use posthaste_core::table::{Column, Kind, meters};
use posthaste_core::{BoxFuture, Error, Result, crash};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use super::cursor::{Cursor, Look, Token};
use super::driver::{Ask, Driver};
use super::look::{Said, fits};
use super::refusal::is_refusal;
use crate::store::waiting::Waiting;
use crate::store::{StoreOptions, TableOptions};

/// How often a missing table is complained about.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// An outbox table of somebody else in a database.
pub(in crate::store) struct Table<D: Driver> {
    pub(super) driver: D,
    pub(super) options: TableOptions,
    pub(super) signal: Signal,
    waiting: Waiting,
    payload_bytes_max: usize,
    /// What the names of Posthaste's own tables begin with, should there be any.
    pub(super) prefix: TablePrefix,
    memory: Mutex<Memory<D>>,
}

/// What this process knows beyond what is stored.
struct Memory<D: Driver> {
    /// The statements for the table as it was last seen.
    sql: Option<Arc<D::Sql>>,
    /// The lease that each run of a relay acquired last.
    leases: HashMap<String, Arc<Driving<D>>>,
    /// What relays said of their lanes. One whose address is gone nobody takes before this process is started anew.
    said: HashMap<LaneName, Said>,
    /// When the missing table was last complained about.
    complained: Option<Instant>,
}

/// A lease, its statements and what its claims keep.
pub(super) struct Driving<D: Driver> {
    pub(super) cursor: Arc<Cursor>,
    pub(super) sql: Arc<D::Sql>,
    pub(super) kept: AsyncMutex<D::Kept>,
}

impl<D: Driver> Driving<D> {
    /// Whether claims are in the order of a key.
    pub(super) fn is_ordered(&self) -> bool {
        self.cursor.lane.order == Order::PerKey && D::shape(&self.sql).order_column().is_some()
    }
}

impl<D: Driver> Table<D> {
    /// The table of these options in the driver's database.
    ///
    /// # Errors
    /// `Config` for a profile that makes no sense.
    pub(in crate::store) fn new(driver: D, table: TableOptions, options: StoreOptions) -> Result<Self> {
        table.profile.check()?;
        let memory = Memory { sql: None, leases: HashMap::new(), said: HashMap::new(), complained: None };
        Ok(Self {
            driver,
            options: table,
            signal: options.signal,
            waiting: D::waiting(),
            payload_bytes_max: options.payload_bytes_max,
            prefix: options.prefix,
            memory: Mutex::new(memory),
        })
    }

    fn memory(&self) -> MutexGuard<'_, Memory<D>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statements for the table, which is looked at if that was not done yet.
    pub(super) async fn sql(&self) -> Result<Arc<D::Sql>> {
        let known = self.memory().sql.clone();
        match known {
            Some(sql) => Ok(sql),
            None => self.look().await,
        }
    }

    /// The SQL that the table needs, to be run by its owner.
    ///
    /// # Errors
    /// What the driver says.
    pub(in crate::store) async fn ddl(&self) -> Result<String> {
        let profile = &self.options.profile;
        Ok(D::ddl(profile, self.driver.present(profile).await?.as_ref()))
    }

    async fn look(&self) -> Result<Arc<D::Sql>> {
        let looked = self.driver.look(&self.options.profile).await;
        let mut memory = self.memory();
        match looked {
            Ok(sql) => {
                let sql = Arc::new(sql);
                memory.sql = Some(Arc::clone(&sql));
                memory.complained = None;
                Ok(sql)
            }
            Err(error) => {
                if error.retryable() && is_time_to_complain(&mut memory.complained) {
                    tracing::warn!(%error, "still waiting for the table");
                }
                Err(error)
            }
        }
    }

    /// The lane that this process drives, or a name for it; and what its relay said.
    pub(super) fn lane<T>(&self, tell: impl FnOnce(LaneName, Option<&Said>) -> T) -> T {
        let memory = self.memory();
        let driven = memory.leases.values().next().map(|driving| driving.cursor.lane.name.clone());
        let name = driven.unwrap_or_else(|| self.options.lane.clone());
        tell(name.clone(), memory.said.get(&name))
    }

    /// Whether this is the table's lane: as it is configured, or as this process drives it.
    fn knows_lane(&self, name: &LaneName) -> bool {
        let memory = self.memory();
        let is_driven = memory.leases.values().any(|driving| driving.cursor.lane.name == *name);
        is_driven || memory.said.contains_key(name) || *name == self.options.lane
    }

    /// A lane that a filter names must be the table's.
    pub(super) fn demand_lane(&self, filter: &Filter) -> Result<()> {
        match filter.lane.as_ref().filter(|name| !self.knows_lane(name)) {
            Some(name) => Err(Error::not_found(format!(
                "there is no lane {name}; `posthaste lane list` shows the one of the table"
            ))),
            None => Ok(()),
        }
    }

    async fn take(&self, lane: &LaneSpec, owner: &Owner) -> Result<Option<Lease>> {
        super::check_lane(lane)?;
        if self.memory().said.get(&lane.name).is_some_and(|said| said.retired.is_some()) {
            tracing::debug!("the lane's address is gone; start the relay anew to try it again");
            return Ok(None);
        }
        let sql = self.look().await?;
        self.driver.warn(&sql, lane).await?;
        let cursor = Arc::new(Cursor::new(lane.clone(), owner.clone()));
        let driving = Arc::new(Driving { cursor: Arc::clone(&cursor), sql, kept: AsyncMutex::default() });
        let before = {
            let mut memory = self.memory();
            // Whoever dropped its lease without a word holds a connection no longer; its rows wait for their lease to end.
            memory.leases.retain(|run, other| *run == owner.run || Arc::strong_count(&other.cursor) > 1);
            memory.leases.get(&owner.run).cloned()
        };
        if let Some(before) = before {
            // What it held is unknown now: it may have been sent. If this fails, it is known for the next try.
            before.cursor.end();
            self.hand_back(&before).await?;
        }
        self.memory().leases.insert(owner.run.clone(), Arc::clone(&driving));
        // Listens before the first claim, so that no publish between a claim and a wait goes unheard.
        self.waiting.listen(&lane.name, &self.signal);
        cursor.sweep_is_due();
        self.sweep(&driving).await?;
        Ok(Some(cursor.lease()))
    }

    fn driving(&self, lease: &Lease) -> Result<Arc<Driving<D>>> {
        let cursor = Cursor::of(lease)?;
        let driving = self.memory().leases.get(&cursor.owner.run).cloned();
        let driving = driving.filter(|driving| Arc::ptr_eq(&driving.cursor, &cursor) && !cursor.is_over());
        driving.ok_or_else(|| Error::conflict("the lease is over: this relay acquired anew"))
    }

    async fn hand_out(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        if room.events == 0 {
            return Ok(Vec::new());
        }
        let (driving, began) = (self.driving(lease)?, Instant::now());
        let cursor = &driving.cursor;
        if cursor.sweep_is_due() {
            self.sweep(&driving).await?;
        }
        let mut kept = driving.kept.lock().await;
        let mut look = cursor.look();
        let claimed = loop {
            let until = began + lease.length() / 4;
            let (claimed, taken) = self.claim_past_refused(&driving, &mut kept, room, look, until).await?;
            let is_late = Instant::now() >= until;
            if cursor.has_missed() || taken > 0 && claimed.is_empty() && is_late {
                // What is due may still be there: the relay asks again after its next settle, also one that leaves when nothing is.
                lease.note_unrecorded();
                break claimed;
            }
            match taken {
                _ if !claimed.is_empty() => break claimed,
                0 if !cursor.should_look_again(look) => break claimed,
                0 => look = Look::Whole,
                // None of what was taken was an event: what is due comes after it.
                _ => look = cursor.look(),
            }
        };
        self.waiting.claimed(lease.lane(), !claimed.is_empty(), false);
        Ok(claimed)
    }

    /// One claim; answers its events, and how many rows it took for that.
    pub(super) async fn claim_once(
        &self,
        driving: &Driving<D>,
        kept: &mut D::Kept,
        room: Room,
        look: Look,
    ) -> Result<(Vec<Claimed>, usize)> {
        let (cursor, shape) = (&driving.cursor, D::shape(&driving.sql));
        let token: Token = shape.token(&cursor.owner.name, &fresh_id()).into();
        let (is_ordered, passed) = (driving.is_ordered(), cursor.passed());
        let began = Instant::now();
        cursor.begin_claim(&token);
        let ask = Ask { cursor, token: &token, room, look, is_ordered, passed: &passed };
        let asked = self.driver.claim(&driving.sql, ask, kept).await;
        if asked.as_ref().is_err_and(is_refusal) {
            cursor.refuse_claim(&token);
        }
        let mut rows = asked?;
        crash::point("claim: read");
        let has_numbers = shape.found(Column::Id).is_some_and(|found| found.kind == Kind::Int);
        if is_ordered {
            rows.sort_by(|a, b| {
                a.place_in_key().cmp(&b.place_in_key()).then_with(|| a.by_id(b, has_numbers))
            });
        } else {
            rows.sort_by(|a, b| a.place().cmp(&b.place()).then_with(|| a.by_id(b, has_numbers)));
        }
        let latest = rows.iter().filter_map(|row| row.available_at).max().filter(|_| D::BEGINS_AT_PLACE);
        let (taken, ids) = (rows.len(), rows.iter().map(|row| (row.id.as_str(), row.attempts)));
        let tickets = cursor.end_claim(&token, began, look, ids, latest);
        let (mut claimed, mut bad) = (Vec::with_capacity(rows.len()), Vec::new());
        for (row, ticket) in rows.into_iter().zip(tickets) {
            let id = row.id.clone();
            match row.parcel() {
                Ok(parcel) => claimed.push(Claimed::new(ticket, parcel)),
                Err(reason) => {
                    cursor.let_go(ticket);
                    bad.push((id, reason));
                }
            }
        }
        if !bad.is_empty() {
            self.set_aside(driving, &token, bad).await?;
        }
        cursor.hand_out(&token);
        Ok((claimed, taken))
    }

    /// Rows that are no events are dead at once, with the reason; the rest flows.
    async fn set_aside(&self, driving: &Driving<D>, token: &Token, bad: Vec<(String, String)>) -> Result<()> {
        let table = &D::shape(&driving.sql).profile.table;
        for (id, reason) in &bad {
            tracing::warn!(%table, event_id = id, reason, "a row that is no event was set aside as dead");
        }
        meters::count_set_aside(driving.cursor.lane.name.as_str(), bad.len() as u64);
        self.bury(driving, token, bad).await
    }

    async fn record(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let Ok(driving) = self.driving(lease) else { return Ok(Standing::Lost) };
        let cursor = &driving.cursor;
        let sorted = Arc::new(cursor.sort(&outcomes));
        let (standing, lost) = match self.driver.record(&driving.sql, &sorted).await {
            Ok((recorded, renewed)) => {
                cursor.recorded(&sorted);
                (sorted.standing(recorded, renewed), sorted.lost(recorded))
            }
            Err(error) if is_refusal(&error) => {
                let apart = self.record_apart(&driving, &outcomes).await?;
                let is_lost = apart.lost > 0 && apart.recorded == 0;
                (if is_lost { Standing::Lost } else { Standing::Held }, apart.lost)
            }
            Err(error) => return Err(error),
        };
        if lost > 0 {
            meters::count_lost(cursor.lane.name.as_str(), lost);
            tracing::warn!(
                rows = lost,
                "leases of rows were lost before their outcome came; somebody else has them"
            );
        }
        self.memory().said.entry(lease.lane().clone()).or_default().hear(&then);
        if matches!(then, Then::GiveUp | Then::Retire(_)) {
            cursor.end();
            self.hand_back(&driving).await?;
            self.memory().leases.remove(&cursor.owner.run);
        } else if cursor.sweep_is_due()
            && let Err(error) = self.sweep(&driving).await
        {
            // What was handed in is recorded, whatever becomes of the leases of others.
            tracing::warn!(%error, "leases that have ended could not be looked for; that comes again");
        }
        Ok(standing)
    }

    async fn append(&self, events: Vec<Envelope>) -> Result<Vec<Published>> {
        events.iter().try_for_each(|event| event.check(self.payload_bytes_max))?;
        let sql = self.sql().await?;
        events.iter().try_for_each(|event| fits(D::insert_columns(&sql), event))?;
        self.driver.insert(&sql, events, &self.signal).await
    }
}

/// Whether to say now that it is still not there; the first time is the relay's own to say.
fn is_time_to_complain(last: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let is_time = last.is_some_and(|at| now.duration_since(at) >= COMPLAIN_EVERY);
    if is_time || last.is_none() {
        *last = Some(now);
    }
    is_time
}

impl<D: Driver> Store for Table<D> {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, owner: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            let taken = self.take(lane, owner).await;
            taken.map_err(|error| error.during(format!("acquire lane {}", lane.name)))
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
        Box::pin(self.waiting.wait(&lane.name, &self.signal, at_most))
    }
}

impl<D: Driver> Publisher for Table<D> {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(self.append(events))
    }
}

/// A table of somebody else has no version: it fits or it does not.
impl<D: Driver> Schema for Table<D> {
    fn status(&self) -> BoxFuture<'_, Result<SchemaStatus>> {
        Box::pin(async move {
            self.look().await?;
            Ok(SchemaStatus::new(Some(1), 1, 1))
        })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Vec<u32>>> {
        Box::pin(async move { Err(super::not_ours(&self.options.profile)) })
    }

    fn examine<'a>(&'a self, lanes: &'a [LaneSpec]) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(async move {
            match self.sql().await {
                Ok(sql) => self.driver.examine(&sql, lanes).await,
                // What the table lacks is the answer of its status.
                Err(_) => Vec::new(),
            }
        })
    }
}

impl<D: Driver> Keyring for Table<D> {
    fn add<'a>(&'a self, _: &'a str, _: &'a [u8; 32]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Err(Error::config("an outbox table of somebody else keeps no API keys")) })
    }

    fn name_of<'a>(&'a self, _: &'a [u8; 32]) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async { Ok(None) })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async { Ok(0) })
    }

    fn hashes(&self, _: u32) -> BoxFuture<'_, Result<Vec<[u8; 32]>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_table_that_is_not_there_is_worth_one_warning_a_minute() {
        let (mut last, mut warnings) = (None, 0);
        // Ten minutes, looked at four times a second.
        for _ in 0..10 * 60 * 4 {
            warnings += u32::from(is_time_to_complain(&mut last));
            tokio::time::advance(Duration::from_millis(250)).await;
        }
        assert_eq!(warnings, 9, "the first one is the relay's own");
    }
}
