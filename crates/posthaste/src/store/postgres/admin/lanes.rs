//! The lanes and their totals.

use posthaste_core::admin::LaneStats;
use posthaste_core::lane::LaneName;
use posthaste_core::sql::PostgresSql;
use tokio_postgres::{Client, Row};

use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::snapshot::Snapshot;
use crate::store::spec::StoredSpec;

/// A lane as commands and filters need it.
#[derive(Clone, Debug)]
pub(super) struct KnownLane {
    pub(super) name: LaneName,
    pub(super) spec: StoredSpec,
    pub(super) passed: Passed,
}

/// What a lane has passed: what one snapshot sees, and of what another sees that up to a number.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    pub(super) whole: String,
    pub(super) part: Option<String>,
    pub(super) position: i64,
}

impl Passed {
    /// Whether this event is passed. A snapshot that cannot be read has seen nothing.
    pub(super) fn holds(&self, seq: i64, xid: u64) -> bool {
        let sees = |text: &str| Snapshot::parse(text).is_some_and(|snapshot| snapshot.sees(xid));
        sees(&self.whole) || (seq <= self.position && self.part.as_deref().is_some_and(sees))
    }
}

impl KnownLane {
    fn read(row: &Row, name: LaneName) -> Db<Self> {
        let passed = Passed { position: row.try_get(13)?, whole: row.try_get(14)?, part: row.try_get(15)? };
        Ok(Self { name, spec: StoredSpec::read(row.try_get(12)?), passed })
    }
}

/// Every lane, as commands and filters need it.
pub(super) async fn known(client: &Client, sql: &PostgresSql) -> Db<Vec<KnownLane>> {
    let mut lanes = Vec::new();
    for row in client.query_typed(&sql.lanes_all, &[]).await? {
        // A name that no lane can have was not written by us.
        if let Ok(name) = row.try_get::<_, &str>(0)?.parse() {
            lanes.push(KnownLane::read(&row, name)?);
        }
    }
    Ok(lanes)
}

/// Every lane with its totals. Costs a few steps in an index per lane, however long the log is.
pub(super) async fn stats(client: &Client, sql: &PostgresSql) -> Db<Vec<LaneStats>> {
    let mut lanes = Vec::new();
    for row in client.query_typed(&sql.lanes_all, &[]).await? {
        let Ok(name) = row.try_get::<_, &str>(0)?.parse() else { continue };
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
        let beyond = row.try_get::<_, i64>(16)? - stats.position;
        stats.unread = if is_behind { beyond.max(0).unsigned_abs() } else { 0 };
        stats.accepted = count(6)?;
        stats.delivered = count(7)?;
        stats.waiting = count(8)?;
        stats.dead = count(9)?;
        stats.discarded = count(10)?;
        stats.replayed = count(11)?;
        lanes.push(stats);
    }
    Ok(lanes)
}
