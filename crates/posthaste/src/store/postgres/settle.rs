//! Recording what became of what was handed out, and moving the place.
//!
//! Every settle begins with the lane's row: `lane_settle.sql` locks it and refuses everything if the lease, the place or a
//! tick is not what this relay believes. Where nothing is parked that is the whole settle, one statement.
//!
//! Whether the place has passed an event that is done is asked by what its ticks see (`unpark.sql`). Which
//! rows are done beyond the place, the lease knows from its own settles and from the pages that it read. So a
//! settle that passes none of them is still one statement.

use std::collections::HashSet;
use std::time::Duration;

use posthaste_core::log::held::SettlePlan;
use posthaste_core::log::totals::Totals;
use posthaste_core::redact;
use posthaste_core::sql::PostgresSql;
use posthaste_core::store::{Settled, Standing, Then};
use posthaste_core::time::{Timestamp, micros};
use tokio_postgres::{Client, Row, Transaction};

use super::cursor::{Cursor, Passed, StoredPlace};
use super::error::Db;
use super::parking::Changes;
use super::rows;
use super::value::{Arg, Stamp, args};

/// What a settle changes: worked out before the database is asked, told to the cursor after its commit.
pub(super) struct Settle<'a> {
    sql: &'a PostgresSql,
    cursor: &'a Cursor,
    old: StoredPlace,
    reached: StoredPlace,
    tick_ids: Vec<i64>,
    tick_tokens: Vec<String>,
    passed: Passed,
    plan: SettlePlan,
    lane: &'a str,
    after: After,
    lease: i64,
}

/// What the database says about a settle that holds.
pub(super) struct Recorded {
    standing: Standing,
    /// What was delivered from its row beyond the place.
    done: Vec<i64>,
    /// The transaction's id, if it did nothing but move the place.
    pub(super) own_id: Option<u64>,
}

/// What becomes of the lease and of the lane's state.
struct After {
    ends: bool,
    retires: bool,
    reports: bool,
    why: Option<String>,
}

impl After {
    fn of(then: Then) -> Self {
        let (ends, retires, reports, why) = match then {
            Then::GiveUp => (true, false, false, None),
            Then::Retire(why) => (true, true, false, Some(redact::clean(&why))),
            Then::Report(why) => (false, false, true, why.as_deref().map(redact::clean)),
            _ => (false, false, false, None),
        };
        Self { ends, retires, reports, why }
    }
}

/// Says that what the cursor holds may not be what is stored, unless told otherwise before it is dropped.
pub(super) struct Unsure<'a>(Option<&'a Cursor>);

impl Drop for Unsure<'_> {
    fn drop(&mut self) {
        if let Some(cursor) = self.0 {
            cursor.lock().held.is_broken = true;
        }
    }
}

impl<'a> Settle<'a> {
    /// Takes from the cursor what is to be recorded; `None`: the lease is lost already.
    pub(super) fn begin(
        sql: &'a PostgresSql,
        cursor: &'a Cursor,
        outcomes: Vec<Settled>,
        then: Then,
        lease: Duration,
    ) -> Option<Self> {
        if cursor.lock().held.is_broken {
            return None;
        }
        let mut reading = cursor.lock();
        let (old, plan) = (reading.stored, reading.held.plan(outcomes));
        let passed = reading.advance();
        let (tick_ids, tick_tokens) = reading.ticks();
        Some(Self {
            sql,
            cursor,
            old,
            reached: reading.reached,
            tick_ids,
            tick_tokens,
            passed,
            plan,
            lane: cursor.lane(),
            after: After::of(then),
            lease: micros(lease),
        })
    }

    /// Whether the lane's row is all that changes.
    pub(super) fn is_one_statement(&self) -> bool {
        self.plan.is_empty() && self.passed.done.is_empty()
    }

    /// Records it as one statement.
    pub(super) async fn record_alone(&self, client: &Client) -> Db<Option<Recorded>> {
        let row = client.query_typed_opt(&self.sql.lane_settle, &self.lane_values()).await?;
        let Some(row) = row else { return Ok(None) };
        let own_id = row.try_get::<_, &str>(3)?.parse().ok();
        Ok(Some(Recorded { standing: standing(&row)?, done: Vec::new(), own_id }))
    }

    /// Records it in a transaction; `None`: nothing of it holds.
    pub(super) async fn record(&self, tx: &Transaction<'_>) -> Db<Option<Recorded>> {
        let row = tx.query_typed_opt(&self.sql.lane_settle, &self.lane_values()).await?;
        let Some(row) = row else { return Ok(None) };
        let now = rows::time(&row, 1)?;
        let (mut totals, mut keys) = (Totals::default(), HashSet::new());
        self.park(tx, now, &mut totals, &mut keys).await?;
        self.park_again(tx, now, &mut totals, &mut keys).await?;
        let done = self.unpark(tx, &mut totals, &mut keys).await?;
        self.forget_done(tx).await?;
        if self.cursor.is_ordered() && !keys.is_empty() {
            let keys: Vec<String> = keys.into_iter().collect();
            let blocks = self.cursor.blocks_on_dead();
            tx.execute_typed(&self.sql.promote, &args![self.cursor.lane(), keys, Stamp(now), blocks]).await?;
        }
        add_totals(tx, self.sql, self.cursor.lane(), totals).await?;
        Ok(Some(Recorded { standing: standing(&row)?, done, own_id: None }))
    }

    /// The values of `lane_settle.sql`.
    fn lane_values(&self) -> [Arg<'_>; 17] {
        let (cursor, old, new) = (self.cursor, &self.old, &self.reached);
        args![
            self.lane,
            cursor.epoch,
            cursor.run,
            old.tick_a,
            old.tick_b,
            old.position,
            new.tick_a,
            new.tick_b,
            new.position,
            self.tick_ids,
            self.tick_tokens,
            self.after.ends,
            self.after.retires,
            self.after.reports,
            self.after.why,
            self.passed.delivered,
            self.lease,
        ]
    }

    async fn park(
        &self,
        tx: &Transaction<'_>,
        now: Timestamp,
        totals: &mut Totals,
        keys: &mut HashSet<String>,
    ) -> Db<()> {
        if self.plan.park.is_empty() {
            return Ok(());
        }
        let changes = Changes::new(self.plan.park.iter().map(|(seq, parking)| (*seq, parking)), now);
        // Fewer rows than asked for: somebody deleted an event by hand, and there is nothing to wait for.
        for row in changes.ask(tx, &self.sql.park, self.cursor, true).await? {
            totals.accepted += 1;
            *total_of(totals, row.try_get(0)?) += 1;
            keys.extend(row.try_get::<_, Option<String>>(1)?);
        }
        Ok(())
    }

    async fn park_again(
        &self,
        tx: &Transaction<'_>,
        now: Timestamp,
        totals: &mut Totals,
        keys: &mut HashSet<String>,
    ) -> Db<()> {
        if self.plan.park_again.is_empty() {
            return Ok(());
        }
        let changes = Changes::new(self.plan.park_again.iter().map(|(seq, parking)| (*seq, parking)), now);
        for row in changes.ask(tx, &self.sql.park_again, self.cursor, false).await? {
            totals.waiting -= 1;
            *total_of(totals, row.try_get(0)?) += 1;
            keys.extend(row.try_get::<_, Option<String>>(1)?);
        }
        Ok(())
    }

    /// Ends what was delivered from its row; answers what of it the place has not passed, whose rows stay.
    async fn unpark(
        &self,
        tx: &Transaction<'_>,
        totals: &mut Totals,
        keys: &mut HashSet<String>,
    ) -> Db<Vec<i64>> {
        let mut done = Vec::new();
        if self.plan.unpark.is_empty() {
            return Ok(done);
        }
        for row in tx.query_typed(&self.sql.unpark, &args![self.lane, self.plan.unpark]).await? {
            totals.waiting -= 1;
            totals.delivered += 1;
            totals.replayed += i64::from(row.try_get::<_, bool>(1)?);
            keys.extend(row.try_get::<_, Option<String>>(0)?);
            if row.try_get(3)? {
                done.push(row.try_get(2)?);
            }
        }
        Ok(done)
    }

    /// The place passes what was delivered from its row before: the row is not needed any more.
    async fn forget_done(&self, tx: &Transaction<'_>) -> Db<()> {
        if self.passed.done.is_empty() {
            return Ok(());
        }
        tx.execute_typed(&self.sql.done_forget, &args![self.lane, self.passed.done]).await.map(drop)
    }

    /// Guards what follows: unless it ends well, the cursor is thrown away with its lease.
    pub(super) fn unsure(&self) -> Unsure<'a> {
        Unsure(Some(self.cursor))
    }

    /// Tells the cursor that it was committed.
    pub(super) fn tell(self, recorded: Recorded, mut unsure: Unsure<'_>) -> Standing {
        unsure.0 = None;
        let mut reading = self.cursor.lock();
        reading.is_stored(self.reached);
        reading.done.extend(recorded.done);
        reading.has_parked |= !self.is_one_statement();
        reading.held.recorded(&self.plan);
        recorded.standing
    }
}

fn standing(row: &Row) -> Db<Standing> {
    let is_wanted = row.try_get::<_, Option<bool>>(2)? == Some(true);
    Ok(match row.try_get(0)? {
        "paused" => Standing::Paused,
        _ if is_wanted => Standing::Wanted,
        _ => Standing::Held,
    })
}

fn total_of<'t>(totals: &'t mut Totals, state: &str) -> &'t mut i64 {
    match state {
        "dead" => &mut totals.dead,
        "discarded" => &mut totals.discarded,
        _ => &mut totals.waiting,
    }
}

/// Adds to a lane's totals.
pub(super) async fn add_totals(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lane: &str,
    totals: Totals,
) -> Db<()> {
    debug_assert!(totals.add_up(), "{totals:?}");
    if totals == Totals::default() {
        return Ok(());
    }
    let Totals { accepted, delivered, waiting, dead, discarded, replayed } = totals;
    tx.execute_typed(&sql.lane_totals, &args![lane, accepted, delivered, waiting, dead, discarded, replayed])
        .await
        .map(drop)
}
