//! Claiming rows.

use posthaste_core::lane::Order;
use posthaste_core::store::{Claimed, Room};
use posthaste_core::table::meters;
use posthaste_core::time::{Timestamp, micros};
use posthaste_core::{Result, crash};
use tokio::time::Instant;
use tokio_postgres::Row;

use super::super::error::{Db, explain};
use super::super::pool::{Connection, Connections, begin, commit};
use super::super::rows::maybe_time;
use super::super::value::{Stamp, args};
use super::{Driving, told};
use crate::store::table::cursor::{Look, Token, said};
use crate::store::table::row::RawRow;

/// To look for earlier rows of a key, the planner would rather read the whole table, as it expects none; and the sum of what it
/// expects makes it compile the statement for longer than it runs.
const BY_INDEX: &str =
    "SET LOCAL enable_seqscan = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off";

/// Leases rows and reads them.
pub(super) async fn claim(connections: &Connections, driving: &Driving, room: Room) -> Result<Vec<Claimed>> {
    let mut kept = driving.claims.lock().await;
    if kept.is_none() {
        *kept = Some(connections.get().await?);
    }
    let client = kept.as_mut().expect("it was just put there");
    let claimed = claim_on(client, driving, room).await;
    if claimed.is_err() {
        // It may be cut; the next claim takes another.
        *kept = None;
    }
    claimed
}

async fn claim_on(client: &mut Connection, driving: &Driving, room: Room) -> Result<Vec<Claimed>> {
    let look = driving.cursor.look();
    let claimed = claim_once(client, driving, room, look).await?;
    if claimed.is_empty() && driving.cursor.should_look_again(look) {
        return claim_once(client, driving, room, Look::Whole).await;
    }
    Ok(claimed)
}

async fn claim_once(
    client: &mut Connection,
    driving: &Driving,
    room: Room,
    look: Look,
) -> Result<Vec<Claimed>> {
    let (cursor, sql) = (&driving.cursor, &driving.sql);
    let unique = posthaste_core::envelope::fresh_id();
    let token: Token = sql.shape().token(&cursor.owner.name, &unique).into();
    let began = Instant::now();
    cursor.begin_claim(&token);
    let is_ordered = cursor.lane.order == Order::PerKey && sql.shape().order_column().is_some();
    let rows = ask(client, driving, &token, room, look, is_ordered).await?;
    crash::point("claim: read");
    let mut rows = rows.iter().map(read).collect::<Db<Vec<_>>>().map_err(explain)?;
    // An UPDATE answers in the order in which it came by the rows.
    if is_ordered {
        rows.sort_by(|a, b| (a.place_in_key(), &a.id).cmp(&(b.place_in_key(), &b.id)));
    } else {
        rows.sort_by(|a, b| (a.place(), &a.id).cmp(&(b.place(), &b.id)));
    }
    let latest = rows.iter().filter_map(|row| row.available_at).max();
    let tickets =
        cursor.end_claim(&token, began, look, rows.iter().map(|row| (row.id.as_str(), row.attempts)), latest);
    let (mut claimed, mut bad) = (Vec::with_capacity(rows.len()), Vec::new());
    for (row, ticket) in rows.into_iter().zip(tickets) {
        let id = row.id.clone();
        match row.parcel() {
            Ok(parcel) => claimed.push(Claimed::new(ticket, parcel)),
            Err(reason) => bad.push((ticket, id, reason)),
        }
    }
    if !bad.is_empty() {
        set_aside(client, driving, bad).await?;
    }
    Ok(claimed)
}

async fn ask(
    client: &mut Connection,
    driving: &Driving,
    token: &Token,
    room: Room,
    look: Look,
    is_ordered: bool,
) -> Result<Vec<Row>> {
    let (cursor, sql) = (&driving.cursor, &driving.sql);
    let (mine, slow) = if is_ordered { cursor.mine() } else { Default::default() };
    let place = match look {
        Look::Since(place) => place,
        Look::Whole => Timestamp::from_micros(0),
    };
    let (events, bytes) = (i64::from(room.events), i64::try_from(room.bytes).unwrap_or(i64::MAX));
    let (token, place) = (token.to_string(), Stamp(place));
    let values = args![token, events, bytes, place, mine, slow];
    let text = match (is_ordered, look) {
        (false, Look::Since(_)) => &sql.claim,
        (false, Look::Whole) => &sql.claim_from_start,
        (true, Look::Since(_)) => &sql.claim_ordered,
        (true, Look::Whole) => &sql.claim_ordered_from_start,
    };
    let table = sql.shape().profile.table.to_string();
    let failed = |error| told(error, &table);
    if !is_ordered {
        return client.query_typed(text, &values).await.map_err(failed);
    }
    let tx = begin(client).await?;
    // Sent together: each comes after the one before it, and the last sees what the lock's last holder committed.
    let (told, locked, rows) = tokio::join!(
        tx.batch_execute(BY_INDEX),
        tx.query_typed(&sql.order_lock, &[]),
        tx.query_typed(text, &values)
    );
    told.map_err(failed)?;
    locked.map_err(failed)?;
    let rows = rows.map_err(failed)?;
    commit(tx).await?;
    Ok(rows)
}

/// Rows that are no events are dead at once, with the reason; the rest flows.
async fn set_aside(
    client: &Connection,
    driving: &Driving,
    bad: Vec<(posthaste_core::store::Ticket, String, String)>,
) -> Result<()> {
    let (cursor, sql) = (&driving.cursor, &driving.sql);
    let tokens = cursor.left().tokens;
    let ids: Vec<String> = bad.iter().map(|(_, id, _)| id.clone()).collect();
    let errors: Vec<String> = bad.iter().map(|(_, _, reason)| said(reason)).collect();
    let spent = vec![false; ids.len()];
    let table = sql.shape().profile.table.to_string();
    client
        .execute_typed(&sql.dead, &args![ids, tokens, errors, spent])
        .await
        .map_err(|error| told(error, &table))?;
    for (ticket, id, reason) in &bad {
        cursor.let_go(*ticket);
        tracing::warn!(table, event_id = id.as_str(), reason, "a row that is no event was set aside as dead");
    }
    meters::count_set_aside(cursor.lane.name.as_str(), bad.len() as u64);
    Ok(())
}

/// Reads the columns of an event.
pub(super) fn read(row: &Row) -> Db<RawRow> {
    Ok(RawRow {
        id: row.try_get(0)?,
        event_type: row.try_get(1)?,
        topic: row.try_get(2)?,
        key: row.try_get(3)?,
        headers: row.try_get(4)?,
        payload: row.try_get(5)?,
        attempts: row.try_get::<_, Option<i64>>(6)?.unwrap_or_default(),
        created_at: maybe_time(row, 7)?.unwrap_or_default(),
        available_at: maybe_time(row, 8)?,
        source: row.try_get(9)?,
        subject: row.try_get(10)?,
        content_type: row.try_get(11)?,
        version: row.try_get(12)?,
        occurred_at: maybe_time(row, 13)?,
        sequence: row.try_get(14)?,
    })
}

/// How many milliseconds a span has, as statements take it.
pub(super) fn millis(span: std::time::Duration) -> i64 {
    micros(span) / 1_000
}
