//! Taking a lane.

use posthaste_core::admin::LaneState;
use posthaste_core::lane::{LaneSpec, OnDead, Order, Start};
use posthaste_core::log::spec;
use posthaste_core::review::REDEFINE;
use posthaste_core::sql::SqliteSql;
use posthaste_core::store::Owner;
use posthaste_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use serde_json::json;

use super::log;
use super::rows::lane_state;

/// A lane that was taken.
pub(super) struct Taken {
    pub(super) epoch: i64,
    pub(super) position: i64,
    pub(super) stumbles: u32,
    /// How many rows stay until the place has passed what was delivered from them.
    pub(super) done: i64,
}

struct LaneRow {
    owner_run: Option<String>,
    lease_until: i64,
    epoch: i64,
    position: i64,
    stumbles: u32,
    state: LaneState,
    waiting: i64,
    wanted_by: Option<String>,
    wanted_until: i64,
    /// How it is defined.
    spec: String,
}

/// Takes the lane if it is free; makes its row if there is none.
pub(super) fn acquire(
    connection: &Connection,
    sql: &SqliteSql,
    spec: &LaneSpec,
    owner: &Owner,
    now: Timestamp,
) -> rusqlite::Result<Option<Taken>> {
    let row = match lane_row(connection, sql, spec)? {
        Some(row) => row,
        None => make(connection, sql, spec, now)?,
    };
    if !is_free(&row, spec, owner, now) {
        if owner.stays {
            let until = now.after(spec.lease).as_micros();
            let values = (spec.name.as_str(), &owner.run, now.as_micros(), until);
            connection.prepare_cached(&sql.lane_want)?.execute(values)?;
        }
        return Ok(None);
    }
    let column = spec::column(spec);
    if row.spec != column {
        redefine(connection, sql, spec, owner, (&row.spec, &column), now)?;
    }
    let stumbles = if is_stumble(connection, sql, spec, &row, now)? { row.stumbles + 1 } else { 1 };
    connection.prepare_cached(&sql.lane_take)?.execute((
        spec.name.as_str(),
        &owner.name,
        &owner.run,
        now.after(spec.lease).as_micros(),
        column,
        now.as_micros(),
        stumbles,
    ))?;
    if row.waiting > 0 {
        promote(connection, sql, spec, now)?;
    }
    // Nothing should be left of it; but a row that stays keeps its event from retention.
    connection.prepare_cached(&sql.done_forget)?.execute((spec.name.as_str(), row.position))?;
    let mut count = connection.prepare_cached(&sql.done_count)?;
    let done: i64 = count.query_row((spec.name.as_str(), row.position), |row| row.get(0))?;
    Ok(Some(Taken { epoch: row.epoch + 1, position: row.position, stumbles, done }))
}

fn lane_row(connection: &Connection, sql: &SqliteSql, spec: &LaneSpec) -> rusqlite::Result<Option<LaneRow>> {
    let mut statement = connection.prepare_cached(&sql.lane_get)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(LaneRow {
            owner_run: row.get(0)?,
            lease_until: row.get(1)?,
            epoch: row.get(2)?,
            position: row.get(3)?,
            stumbles: row.get(4)?,
            state: lane_state(&row.get::<_, String>(5)?),
            waiting: row.get(6)?,
            wanted_by: row.get(8)?,
            wanted_until: row.get(9)?,
            spec: row.get(10)?,
        })
    };
    statement.query_row([spec.name.as_str()], read).optional()
}

fn make(
    connection: &Connection,
    sql: &SqliteSql,
    spec: &LaneSpec,
    now: Timestamp,
) -> rusqlite::Result<LaneRow> {
    let position = match spec.start {
        Start::Now => log::last(connection, sql)?,
        Start::At(time) => log::before(connection, sql, time)?,
        _ => log::before_first(connection, sql)?,
    };
    let epoch: i64 = connection.query_row(&sql.epoch_floor_get, [], |row| row.get(0))?;
    let column = spec::column(spec);
    let values = (spec.name.as_str(), epoch, position, &column, now.as_micros());
    connection.prepare_cached(&sql.lane_insert)?.execute(values)?;
    let state = LaneState::Active;
    Ok(LaneRow {
        owner_run: None,
        lease_until: 0,
        epoch,
        position,
        stumbles: 0,
        state,
        waiting: 0,
        wanted_by: None,
        wanted_until: 0,
        spec: column,
    })
}

/// Records that the lane is another one from its place on.
fn redefine(
    connection: &Connection,
    sql: &SqliteSql,
    spec: &LaneSpec,
    owner: &Owner,
    (old, new): (&str, &str),
    now: Timestamp,
) -> rusqlite::Result<()> {
    let lane = spec.name.as_str();
    tracing::warn!(lane, old, new, "this relay defines the lane anew, from its place on");
    let (change, one) = (json!({ "lane": lane, "old": old, "new": new }).to_string(), 1);
    let values = (now.as_micros(), &owner.name, "relay", REDEFINE, change, one, one);
    connection.prepare_cached(&sql.audit_insert)?.execute(values)?;
    Ok(())
}

fn is_free(row: &LaneRow, spec: &LaneSpec, owner: &Owner, now: Timestamp) -> bool {
    if matches!(row.state, LaneState::Paused | LaneState::Retired | LaneState::Error) {
        return false;
    }
    let promised =
        row.wanted_until > now.as_micros() && row.wanted_by.as_ref().is_some_and(|run| *run != owner.run);
    let Some(run) = &row.owner_run else { return !promised };
    let ended = row.lease_until <= now.as_micros();
    // No lease was ever that long: the clock went back, and nobody would take over for as long as it did.
    let absurd = row.lease_until > now.after(spec.lease * 2).as_micros();
    ((ended || absurd) && !promised) || *run == owner.run
}

/// Whether the last owner may have been ended by what it delivered: it did not end cleanly, its target took events, and
/// there is something due that it may have been delivering. An idle lane, or one whose target is away, is nobody's fault.
fn is_stumble(
    connection: &Connection,
    sql: &SqliteSql,
    spec: &LaneSpec,
    row: &LaneRow,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    if row.owner_run.is_none() || row.state != LaneState::Active {
        return Ok(false);
    }
    let unread = connection.prepare_cached(&sql.log_beyond)?.query_row([row.position], |row| row.get(0))?;
    Ok(unread || connection.prepare_cached(&sql.due)?.exists((spec.name.as_str(), now.as_micros()))?)
}

/// Nobody waits behind nobody: whatever happened to the rows or to the lane's order, from here on it is right again.
fn promote(
    connection: &Connection,
    sql: &SqliteSql,
    spec: &LaneSpec,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let (lane, now) = (spec.name.as_str(), now.as_micros());
    if spec.order == Order::PerKey {
        let blocks = spec.on_dead == OnDead::Block;
        connection.prepare_cached(&sql.promote_all)?.execute((lane, now, blocks))?;
    } else {
        connection.prepare_cached(&sql.promote_unordered)?.execute((lane, now))?;
    }
    Ok(())
}
