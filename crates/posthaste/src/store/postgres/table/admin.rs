//! What operators see of a table, and what they may do with it.

use std::time::Duration;

use posthaste_core::admin::{
    Actor, Admin, Applied, Command, EventState, Filter, Found, LaneStats, Page, Record,
};
use posthaste_core::lane::LaneName;
use posthaste_core::review::Review;
use posthaste_core::table::{Column, Kind, PostgresTableSql};
use posthaste_core::{BoxFuture, Error, Result};
use tokio_postgres::Row;

use super::super::error::{Db, explain};
use super::super::pool::Connection;
use super::super::rows::maybe_time;
use super::super::value::{Arg, Stamp, arg, args};
use super::claim::{millis, read};
use super::{PostgresTable, told};
use crate::store::table::look::{Progress, is_wanted, page_end, page_place, tell_unknown, view};
use crate::store::table::{cannot, nobodys_lane, note};

const PAGE_MAX: u32 = 1_000;
/// How many rows one statement of a command changes.
const STEP_ROWS: i64 = 1_000;
/// The first column after those of an event.
const STATUS: usize = 15;

/// A filter as the statements take it.
struct Question {
    ids: Option<Vec<String>>,
    event_type: Option<String>,
    key: Option<String>,
    since: Option<Stamp>,
    until: Option<Stamp>,
    after: Option<Stamp>,
    after_id: String,
    rows: i64,
}

impl Question {
    fn of(sql: &PostgresTableSql, filter: &Filter, page: Option<&Page>) -> Result<Self> {
        let has_uuids = sql.shape().found(Column::Id).is_some_and(|found| found.kind == Kind::Uuid);
        let is_possible = |id: &&String| !has_uuids || is_uuid(id);
        let ids = (!filter.ids.is_empty()).then(|| filter.ids.iter().filter(is_possible).cloned().collect());
        let (after, after_id) = match page.and_then(|page| page.after.as_deref()) {
            Some(text) => {
                let (at, id) = page_place(text)?;
                (Some(Stamp(at)), id)
            }
            None => (None, String::new()),
        };
        Ok(Self {
            ids,
            event_type: filter.event_type.clone(),
            key: filter.key.clone(),
            since: filter.since.map(Stamp),
            until: filter.until.map(Stamp),
            after,
            after_id,
            rows: page.map_or(STEP_ROWS, |page| i64::from(page.size.clamp(1, PAGE_MAX))),
        })
    }

    fn values(&self) -> [Arg<'_>; 8] {
        [
            arg(&self.ids),
            arg(&self.event_type),
            arg(&self.key),
            arg(&self.since),
            arg(&self.until),
            arg(&self.after),
            arg(&self.after_id),
            arg(&self.rows),
        ]
    }
}

fn is_uuid(text: &str) -> bool {
    let hex = text.bytes().filter(|b| *b != b'-');
    text.len() <= 36 && hex.clone().count() == 32 && hex.clone().all(|b| b.is_ascii_hexdigit())
}

impl PostgresTable {
    /// The lane that this process drives, or a name for it.
    fn lane(&self) -> LaneName {
        let memory = self.memory();
        let driven = memory.leases.values().next().map(|driving| driving.cursor.lane.name.clone());
        driven.unwrap_or_else(nobodys_lane)
    }

    async fn count(&self) -> Result<LaneStats> {
        let client = self.connections.get().await?;
        let sql = self.sql(&client).await?;
        let table = sql.shape().profile.table.to_string();
        let rows = client.query_typed(&sql.counts, &[]).await.map_err(|error| told(error, &table))?;
        let row = rows.first().ok_or_else(|| Error::corrupt("a count has no answer"))?;
        let mut stats = stats(row, self.lane()).map_err(explain)?;
        if let Some(said) = self.memory().said.get(&stats.lane) {
            said.tell(&mut stats);
        }
        Ok(stats)
    }

    async fn search(&self, filter: &Filter, page: Page) -> Result<Found> {
        let client = self.connections.get().await?;
        let sql = self.sql(&client).await?;
        let Some(which) = which(&sql, filter) else { return Ok(Found::default()) };
        let question = Question::of(&sql, filter, Some(&page))?;
        let table = sql.shape().profile.table.to_string();
        let rows = client.query_typed(&sql.find(&which), &question.values()).await;
        let rows = rows.map_err(|error| told(error, &table))?;
        let lane = self.lane();
        let mut found = Found::default();
        let mut last = None;
        for row in &rows {
            last = Some(page_end(&read(row).map_err(explain)?));
            let record = record(row, &sql, &lane, page.with_payload).map_err(explain)?;
            if is_wanted(filter, &record) {
                found.records.push(record);
            }
        }
        found.next = last.filter(|_| rows.len() as i64 == question.rows);
        Ok(found)
    }

    async fn act(&self, filter: &Filter, command: Command, by: &Actor) -> Result<Applied> {
        let client = self.connections.get().await?;
        let sql = self.sql(&client).await?;
        let applied = match &command {
            Command::Redrive { dry_run } => {
                self.again(&client, &sql, filter, EventState::Dead, *dry_run).await?
            }
            Command::Replay { dry_run } => {
                self.again(&client, &sql, filter, EventState::Delivered, *dry_run).await?
            }
            Command::Prune { delivered_age, dead_age, dry_run } => {
                let delivered = [sql.count_delivered.as_str(), &sql.prune_delivered];
                let dead = [sql.count_dead.as_str(), &sql.prune_dead];
                let first = prune(&client, &sql, *delivered_age, delivered, *dry_run).await?;
                let second = prune(&client, &sql, *dead_age, dead, *dry_run).await?;
                Applied::new(first.matched + second.matched, first.changed + second.changed)
            }
            other => return Err(cannot(other)),
        };
        note(&command, by, applied);
        Ok(applied)
    }

    /// Terminal rows are pending again, in small steps.
    async fn again(
        &self,
        client: &Connection,
        sql: &PostgresTableSql,
        filter: &Filter,
        from: EventState,
        dry_run: bool,
    ) -> Result<Applied> {
        if filter.topic.is_some() || filter.asks_a_failure() {
            return Err(Error::rejected(
                "a table is searched by ids, type, key and time; leave topic, code and error away",
            ));
        }
        let which = sql.in_state(from).unwrap_or_else(|| "false".to_owned());
        let question = Question::of(sql, filter, None)?;
        let table = sql.shape().profile.table.to_string();
        let failed = |error| told(error, &table);
        let count = client.query_typed(&sql.find_count(&which), &question.values()).await.map_err(failed)?;
        let matched =
            count.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0)).map_err(failed)?.unsigned_abs();
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        let (text, mut changed) = (sql.again(&which), 0);
        loop {
            let step = client.execute_typed(&text, &question.values()).await.map_err(failed)?;
            changed += step;
            if step < question.rows.unsigned_abs() {
                break;
            }
        }
        self.signal.ring();
        Ok(Applied::new(matched.max(changed), changed))
    }
}

async fn prune(
    client: &Connection,
    sql: &PostgresTableSql,
    age: Option<Duration>,
    [count, delete]: [&str; 2],
    dry_run: bool,
) -> Result<Applied> {
    let Some(age) = age.map(millis) else { return Ok(Applied::default()) };
    let table = sql.shape().profile.table.to_string();
    let failed = |error| told(error, &table);
    let counted = client.query_typed(count, &args![age]).await.map_err(failed)?;
    let matched =
        counted.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0)).map_err(failed)?.unsigned_abs();
    if dry_run {
        return Ok(Applied::new(matched, 0));
    }
    let mut changed = 0;
    loop {
        let step = client.execute_typed(delete, &args![age, STEP_ROWS]).await.map_err(failed)?;
        changed += step;
        if step < STEP_ROWS.unsigned_abs() {
            return Ok(Applied::new(matched.max(changed), changed));
        }
    }
}

/// The condition of the filter's state; `None` where no row can be in it.
fn which(sql: &PostgresTableSql, filter: &Filter) -> Option<String> {
    match filter.state {
        Some(state) => sql.in_state(state),
        None => Some("true".to_owned()),
    }
}

fn stats(row: &Row, lane: LaneName) -> Db<LaneStats> {
    let number = |column| row.try_get::<_, i64>(column).map(i64::unsigned_abs);
    let mut stats = LaneStats::new(lane);
    stats.unread = number(0)?;
    stats.waiting = number(1)?;
    stats.delivered = number(2)?;
    stats.dead = number(3)?;
    stats.accepted = stats.waiting + stats.delivered + stats.dead;
    stats.oldest_unread_at = maybe_time(row, 4)?;
    tell_unknown(&mut stats, number(5)?);
    Ok(stats)
}

fn record(row: &Row, sql: &PostgresTableSql, lane: &LaneName, with_payload: bool) -> Db<Record> {
    let raw = read(row)?;
    let progress = Progress {
        status: row.try_get(STATUS)?,
        last_error: row.try_get(STATUS + 1)?,
        changed_at: maybe_time(row, STATUS + 3)?,
        now: maybe_time(row, STATUS + 5)?.unwrap_or_default(),
    };
    let payload_bytes = row.try_get::<_, Option<i64>>(STATUS + 4)?.map(i64::unsigned_abs);
    let view = view(lane, &sql.shape().profile.states, &raw, progress);
    let created = raw.created_at;
    let mut envelope = raw.envelope_or_empty();
    if !with_payload {
        envelope.payload = Vec::new();
    }
    let mut record = Record::new(created.as_micros(), envelope, payload_bytes, created);
    record.lanes.push(view);
    Ok(record)
}

impl Review for PostgresTable {}

impl Admin for PostgresTable {
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>> {
        Box::pin(async move { Ok(vec![self.connections.watched(self.count()).await?]) })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(self.connections.watched(self.search(filter, page)))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(self.connections.watched(self.act(filter, command, by)))
    }
}
