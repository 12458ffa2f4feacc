//! The lanes and their totals.

use std::collections::HashMap;

use posthaste_core::admin::{LaneState, LaneStats, Lanes, Page, PageOfLanes};
use posthaste_core::lane::LaneName;
use posthaste_core::log::question::{self, Head, KnownLane};
use posthaste_core::log::spec::StoredSpec;
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Row, Transaction};

use crate::store::log::driver::Step;
use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::snapshot::Snapshot;
use crate::store::postgres::value::args;

/// How many retried events of a lane are counted at every look.
const RETRYING_MAX: i64 = 10_000;

/// What a lane has passed: what one snapshot sees, and of what another sees that up to a number.
#[derive(Clone, Debug)]
pub(in crate::store) struct Passed {
    pub(super) whole: String,
    pub(super) part: Option<String>,
    pub(super) position: i64,
    /// Above this is whatever is not passed, but for what committed late.
    pub(super) from: i64,
    /// Above this is nothing that is passed.
    pub(super) to: i64,
    /// The tick of which it has passed all.
    pub(super) tick: i64,
    /// The tick of which it has passed a part.
    pub(super) part_of: Option<i64>,
}

impl Passed {
    /// The transactions that may have committed late: those that were open in its snapshots.
    pub(super) fn late(&self) -> Vec<String> {
        let snapshots = [Some(&self.whole), self.part.as_ref()].into_iter().flatten();
        let mut open: Vec<u64> =
            snapshots.filter_map(|text| Snapshot::parse(text)).flat_map(|snapshot| snapshot.open).collect();
        open.sort_unstable();
        open.dedup();
        open.iter().map(u64::to_string).collect()
    }

    fn read(row: &Row) -> Db<Self> {
        Ok(Self {
            position: row.try_get(13)?,
            whole: row.try_get(14)?,
            part: row.try_get(15)?,
            from: row.try_get(19)?,
            to: row.try_get(20)?,
            tick: row.try_get(21)?,
            part_of: row.try_get(22)?,
        })
    }
}

impl question::Passed for Passed {
    /// A snapshot that cannot be read has seen nothing.
    fn holds(&self, head: &Head) -> bool {
        let sees = |text: &str| Snapshot::parse(text).is_some_and(|snapshot| snapshot.sees(head.xid));
        sees(&self.whole) || (head.seq <= self.position && self.part.as_deref().is_some_and(sees))
    }
}

/// Every lane, as commands and filters need it.
pub(super) async fn known(client: &Client, sql: &PostgresSql) -> Db<Vec<KnownLane<Passed>>> {
    let mut lanes = Vec::new();
    for row in client.query_typed(&sql.lanes_all, &args!["", None::<i64>]).await? {
        // A name that no lane can have was not written by us.
        if let Ok(name) = row.try_get::<_, &str>(0)?.parse() {
            let spec = StoredSpec::read(row.try_get(12)?);
            lanes.push(KnownLane { name, spec, passed: Passed::read(&row)? });
        }
    }
    Ok(lanes)
}

/// Puts these lanes into a state, but those that are being removed.
pub(super) async fn set_state(
    tx: &Transaction<'_>,
    sql: &PostgresSql,
    lanes: &[LaneName],
    state: LaneState,
) -> Db<Step> {
    let mut changed = 0;
    for name in lanes {
        changed += tx.execute_typed(&sql.lane_state, &args![name.as_str(), state.name()]).await?;
    }
    Ok(Step::changed(changed, None))
}

/// A page of lanes with their totals. Costs a few steps in an index per lane, however long the log is.
pub(super) async fn stats(client: &Client, sql: &PostgresSql, page: &Page) -> Db<Lanes> {
    let mut lanes = PageOfLanes::new(page);
    let mut waiting = waiting(client, sql, &lanes).await?;
    let (after, rows) = (lanes.after().to_owned(), lanes.rows());
    for row in client.query_typed(&sql.lanes_all, &args![after, Some(rows)]).await? {
        let Some(name) = lanes.next(row.try_get(0)?) else { continue };
        let count = |column: usize| row.try_get::<_, i64>(column).map(|count| count.max(0).unsigned_abs());
        let mut stats = LaneStats::new(name);
        stats.state = rows::lane_state(row.try_get(1)?);
        stats.reason = row.try_get(2)?;
        stats.owner = row.try_get(3)?;
        stats.epoch = row.try_get(4)?;
        stats.position = row.try_get(5)?;
        stats.oldest_unread_at = rows::maybe_time(&row, 17)?;
        // Numbers that were taken and rolled back are nobody's events: they alone leave nothing to read.
        let is_behind = stats.oldest_unread_at.is_some();
        let beyond = (row.try_get::<_, i64>(16)? - stats.position).max(0);
        let late: i64 = row.try_get(18)?;
        stats.unread = if is_behind { (beyond + late).unsigned_abs() } else { 0 };
        stats.unread_is_estimate = stats.unread > 0;
        stats.accepted = count(6)?;
        stats.delivered = count(7)?;
        stats.waiting = count(8)?;
        stats.dead = count(9)?;
        stats.discarded = count(10)?;
        stats.replayed = count(11)?;
        if let Some(waiting) = waiting.remove(stats.lane.as_str()) {
            (stats.retrying, stats.oldest_waiting_at) = waiting;
        }
        lanes.push(stats);
    }
    Ok(lanes.found())
}

/// How many events of each lane of a page have failed and wait, unless they are too many, and when the
/// oldest that waits was taken in.
async fn waiting(
    client: &Client,
    sql: &PostgresSql,
    page: &PageOfLanes,
) -> Db<HashMap<String, (Option<u64>, Option<Timestamp>)>> {
    let mut lanes = HashMap::new();
    let (after, rows) = (page.after(), page.rows());
    for row in client.query_typed(&sql.lanes_waiting, &args![RETRYING_MAX + 1, after, rows]).await? {
        let (looked_at, failed): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let retrying = (looked_at <= RETRYING_MAX).then_some(failed.unsigned_abs());
        lanes.insert(row.try_get(0)?, (retrying, rows::maybe_time(&row, 3)?));
    }
    Ok(lanes)
}
