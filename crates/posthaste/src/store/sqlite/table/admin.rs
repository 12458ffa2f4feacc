//! What operators see of a table and may do with it, and publishing for the command line and for tests.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::admin::{
    Actor, Admin, Applied, Command, EventState, Filter, Found, LaneStats, Page, Record,
};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::publisher::Published;
use posthaste_core::review::Review;
use posthaste_core::sql::StoredEvent;
use posthaste_core::table::{Column, SqliteTableSql};
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Error, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use super::super::error::explain;
use super::super::writer::Kind;
use super::SqliteTable;
use super::work::{list, read, text};
use crate::store::table::look::{
    Progress, fits, is_same, is_wanted, page_end, page_place, tell_unknown, view,
};
use crate::store::table::{cannot, nobodys_lane, note};

const PAGE_MAX: u32 = 1_000;
/// How many rows one commit of a command changes.
const STEP_ROWS: u32 = 1_000;
/// The first column after those of an event.
const STATUS: usize = 15;

/// A filter as the statements take it.
fn question(filter: &Filter, page: Option<&Page>, now: Timestamp) -> Result<[Value; 9]> {
    let optional = |text: Option<String>| text.map_or(Value::Null, Value::from);
    let (after, after_id) = match page.and_then(|page| page.after.as_deref()) {
        Some(place) => {
            let (at, id) = page_place(place)?;
            (Some(text(at)), id)
        }
        None => (None, String::new()),
    };
    let rows = page.map_or(STEP_ROWS, |page| page.size.clamp(1, PAGE_MAX));
    Ok([
        optional((!filter.ids.is_empty()).then(|| list(&filter.ids))),
        optional(filter.event_type.clone()),
        optional(filter.key.clone()),
        optional(filter.since.map(text)),
        optional(filter.until.map(text)),
        optional(after),
        Value::from(after_id),
        Value::from(i64::from(rows)),
        Value::from(text(now)),
    ])
}

impl SqliteTable {
    fn lane(&self) -> LaneName {
        let memory = self.memory();
        let driven = memory.leases.values().next().map(|cursor| cursor.lane.name.clone());
        driven.unwrap_or_else(nobodys_lane)
    }

    async fn counted(&self) -> Result<LaneStats> {
        let (sql, lane, now) = (self.sql().await?, self.lane(), text(self.clock.now()));
        let count = move |connection: &Connection| {
            connection.prepare_cached(&sql.counts)?.query_row([now], |row| {
                let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                let mut stats = LaneStats::new(lane);
                stats.unread = number(0)?;
                stats.waiting = number(1)?;
                stats.delivered = number(2)?;
                stats.dead = number(3)?;
                stats.accepted = stats.waiting + stats.delivered + stats.dead;
                let oldest = row.get::<_, Option<i64>>(4)?;
                stats.oldest_unread_at = oldest.map(|millis| Timestamp::from_micros(millis * 1_000));
                tell_unknown(&mut stats, number(5)?);
                Ok(stats)
            })
        };
        let mut stats = self.read(count).await?;
        if let Some(said) = self.memory().said.get(&stats.lane) {
            said.tell(&mut stats);
        }
        Ok(stats)
    }

    async fn search(&self, filter: &Filter, page: Page) -> Result<Found> {
        let (sql, lane, now) = (self.sql().await?, self.lane(), self.clock.now());
        let which = match filter.state {
            Some(state) => match sql.in_state(state) {
                Some(which) => which,
                None => return Ok(Found::default()),
            },
            None => "true".to_owned(),
        };
        let question = question(filter, Some(&page), now)?;
        let with_payload = page.with_payload;
        let rows_max = page.size.clamp(1, PAGE_MAX) as usize;
        let find = move |connection: &Connection| {
            let mut statement = connection.prepare(&sql.find(&which))?;
            let rows = statement
                .query_map(params_from_iter(question), |row| record(row, &sql, &lane, with_payload, now))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let records = self.read(find).await?;
        let mut found = Found::default();
        if records.len() == rows_max {
            found.next = records.last().map(|(_, end)| end.clone());
        }
        let records = records.into_iter().map(|(record, _)| record);
        found.records = records.filter(|record| is_wanted(filter, record)).collect();
        Ok(found)
    }

    async fn act(&self, filter: &Filter, command: Command, by: &Actor) -> Result<Applied> {
        let sql = self.sql().await?;
        let applied = match &command {
            Command::Redrive { dry_run } => self.again(&sql, filter, EventState::Dead, *dry_run).await?,
            Command::Replay { dry_run } => self.again(&sql, filter, EventState::Delivered, *dry_run).await?,
            Command::Prune { delivered_age, dead_age, dry_run } => {
                let delivered = [sql.count_delivered.clone(), sql.prune_delivered.clone()];
                let dead = [sql.count_dead.clone(), sql.prune_dead.clone()];
                let first = self.prune(*delivered_age, delivered, *dry_run).await?;
                let second = self.prune(*dead_age, dead, *dry_run).await?;
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
        sql: &Arc<SqliteTableSql>,
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
        let (count, change) = (sql.find_count(&which), sql.again(&which));
        let asked = question(filter, None, self.clock.now())?;
        let values = asked.clone();
        let matched = self
            .read(move |connection| {
                connection.query_row(&count, params_from_iter(values), |row| row.get::<_, i64>(0))
            })
            .await?
            .unsigned_abs();
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        let mut changed = 0;
        loop {
            let (change, values) = (change.clone(), asked.clone());
            let step = move |connection: &Connection| connection.execute(&change, params_from_iter(values));
            let step = self.write(Kind::Other, step).await?;
            changed += step as u64;
            if step < STEP_ROWS as usize {
                break;
            }
        }
        self.signal.ring();
        Ok(Applied::new(matched.max(changed), changed))
    }

    async fn prune(
        &self,
        age: Option<Duration>,
        [count, delete]: [String; 2],
        dry_run: bool,
    ) -> Result<Applied> {
        let Some(age) = age else { return Ok(Applied::default()) };
        let cutoff = text(self.clock.now().before(age));
        let before = cutoff.clone();
        let matched = self
            .read(move |connection| connection.query_row(&count, [before], |row| row.get::<_, i64>(0)))
            .await?
            .unsigned_abs();
        if dry_run {
            return Ok(Applied::new(matched, 0));
        }
        let mut changed = 0;
        loop {
            let (delete, cutoff) = (delete.clone(), cutoff.clone());
            let step = self
                .write(Kind::Other, move |connection| {
                    connection.execute(&delete, (cutoff, i64::from(STEP_ROWS)))
                })
                .await?;
            changed += step as u64;
            if step < STEP_ROWS as usize {
                return Ok(Applied::new(matched.max(changed), changed));
            }
        }
    }

    pub(super) async fn append(&self, events: Vec<Envelope>) -> Result<Vec<Published>> {
        let sql = self.sql().await?;
        for event in &events {
            event.check(self.payload_bytes_max)?;
            fits(&sql.insert_columns, event)?;
        }
        let (path, clock, signal) = (Arc::clone(&self.path), Arc::clone(&self.clock), self.signal.clone());
        let bytes = events.iter().map(|event| event.payload.len()).sum();
        let work = move |connection: &Connection| {
            let now = clock.now();
            let publish = |event| insert(connection, &sql, event, now);
            events
                .iter()
                .map(publish)
                .map(|done| done.map_err(|error| explain(error, &path)).flatten())
                .collect()
        };
        let ring = move |published: Option<&Vec<Published>>| {
            if published.is_some_and(|published| published.contains(&Published::Now)) {
                signal.ring();
            }
        };
        self.writer.run(Kind::Publish, bytes, work, ring).await
    }
}

fn insert(
    connection: &Connection,
    sql: &SqliteTableSql,
    event: &Envelope,
    now: Timestamp,
) -> rusqlite::Result<Result<Published>> {
    let optional = |text: Option<String>| text.map_or(Value::Null, Value::from);
    let available = event.available.map(|moment| text(moment.resolve(now)));
    let mut values = vec![
        Value::from(event.id.clone()),
        Value::from(event.event_type.clone()),
        Value::from(event.payload.clone()),
        optional(available),
        Value::from(text(now)),
    ];
    for column in &sql.insert_columns {
        values.push(match column {
            Column::Key => optional(event.key.clone()),
            Column::Headers => Value::from(StoredEvent::headers_column(&event.headers)),
            Column::Topic => Value::from(event.topic.clone()),
            Column::Source => Value::from(event.source.clone()),
            Column::Subject => optional(event.subject.clone()),
            Column::ContentType => Value::from(event.content_type.clone()),
            Column::Version => Value::from(i64::from(event.version)),
            Column::OccurredAt => optional(event.occurred_at.map(text)),
            _ => Value::Null,
        });
    }
    if connection.prepare_cached(&sql.insert)?.execute(params_from_iter(values))? > 0 {
        return Ok(Ok(Published::Now));
    }
    let mut statement = connection.prepare_cached(&sql.same)?;
    let there = statement.query_row([&event.id], read)?;
    Ok(if is_same(there, event) {
        Ok(Published::Before)
    } else {
        Err(Error::conflict(format!("the event {} exists with other contents", event.id)))
    })
}

fn record(
    row: &Row<'_>,
    sql: &SqliteTableSql,
    lane: &LaneName,
    with_payload: bool,
    now: Timestamp,
) -> rusqlite::Result<(Record, String)> {
    let raw = read(row)?;
    let end = page_end(&raw);
    let millis = |millis: i64| Timestamp::from_micros(millis * 1_000);
    let progress = Progress {
        status: row.get(STATUS)?,
        last_error: row.get(STATUS + 1)?,
        changed_at: row.get::<_, Option<i64>>(STATUS + 2)?.map(millis),
        now,
    };
    let payload_bytes = row.get::<_, Option<i64>>(STATUS + 3)?.map(i64::unsigned_abs);
    let view = view(lane, &sql.shape().profile.states, &raw, progress);
    let created = raw.created_at;
    let mut envelope = raw.envelope_or_empty();
    if !with_payload {
        envelope.payload = Vec::new();
    }
    let mut record = Record::new(created.as_micros(), envelope, payload_bytes, created);
    record.lanes.push(view);
    Ok((record, end))
}

impl Review for SqliteTable {}

impl Admin for SqliteTable {
    fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>> {
        Box::pin(async move { Ok(vec![self.counted().await?]) })
    }

    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
        Box::pin(self.search(filter, page))
    }

    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
    ) -> BoxFuture<'a, Result<Applied>> {
        Box::pin(self.act(filter, command, by))
    }
}
