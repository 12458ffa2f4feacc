//! Order per key, where a relay offers it.

use std::collections::BTreeMap;

use futures_util::future::LocalBoxFuture;
use posthaste::table::Column;

use crate::Stop;
use crate::moves::{Move, State};
use crate::relay::{Running, Settings, Subject};
use crate::scene::Scene;
use crate::table::Row;

const KEYS: usize = 4;
const ROWS_PER_KEY: usize = 6;
const ORDERED: Settings = Settings { batch: 10, ordered: true, is_heard: true, metrics_port: None };

/// O1, O2: two relays, four keys; the first row of one key is in somebody's hands, that of another has failed before.
pub(super) fn ordering<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let offers = match &scene.kit.subject {
            Subject::Own(_) => true,
            Subject::Other(line) => line.contains("{order}"),
        };
        let orders = scene.table.has(Column::Key) || scene.table.has(Column::OrderingKey);
        if !offers || !orders || !scene.kit.sees {
            let why = match (offers, orders) {
                (false, _) => "the relay's command line has no {order}, so order is not offered",
                (_, false) => "the table has no key",
                _ => "what the relay publishes is not seen",
            };
            scene.findings.all_undecided(&["O1", "O2", "X5"], why);
            return Ok(());
        }
        let has_both = scene.table.has(Column::OrderingKey) && scene.table.has(Column::Key);
        let keys = keys(has_both);
        // Row by row through the keys, as they were made.
        let rows: Vec<Row> =
            (0..ROWS_PER_KEY).flat_map(|n| keys.iter().map(move |rows| rows[n].clone())).collect();
        scene.table.insert(&rows).await?;
        let mut relays = [scene.relay(ORDERED)?, scene.relay(ORDERED)?];
        scene.until_delivered(&mut relays, &rows).await?;
        let moves = scene.table.moves().await?;
        let wrong: Vec<String> = keys.iter().flat_map(|rows| out_of_order(rows, &relays, &moves)).collect();
        let seen = format!(
            "{} rows of {KEYS} keys by 2 relays, one key's first row in other hands, another's failed before: in order",
            rows.len()
        );
        scene.findings.hold("O1", wrong.is_empty(), &seen, &wrong.join(", "));
        if has_both {
            scene.findings.hold(
                "O2",
                wrong.is_empty(),
                "in the order of ordering_key, with partition keys across it",
                "see O1",
            );
        } else {
            scene.findings.undecided("O2", "the table has one key for both");
        }
        drop(relays);
        replaying(scene, &keys, &rows).await
    })
}

/// Rows of each key, the earliest first.
fn keys(has_both: bool) -> Vec<Vec<Row>> {
    let mut keys: Vec<Vec<Row>> = (0..KEYS)
        .map(|key| {
            let row = |n: usize| {
                let mut row = Row::new();
                let made = -60_000 + i64::try_from(n * 100 + key).unwrap_or_default();
                (row.made_in, row.due_in) = (Some(made), made);
                let key = format!("key-{key}");
                row.key = Some(if has_both { format!("partition-{n}") } else { key.clone() });
                row.ordering_key = Some(key);
                row
            };
            (0..ROWS_PER_KEY).map(row).collect()
        })
        .collect();
    keys[0][0] = keys[0][0].clone().held_since(0);
    keys[1][0].attempts = 1;
    keys[1][0].due_in = 1_500;
    keys
}

/// Which rows of a key passed an earlier one: published before it by the same relay, or claimed by another one before it was
/// delivered.
fn out_of_order(rows: &[Row], relays: &[Running], moves: &[Move]) -> Vec<String> {
    let publisher = |row: &Row| {
        let places = relays.iter().enumerate().map(|(relay, running)| (running.place_of(&row.id), relay));
        places.filter_map(|(place, relay)| Some((relay, place?))).next()
    };
    let at = |row: &Row, is: fn(&Move) -> bool| moves.iter().position(|one| one.id == row.id && is(one));
    let passed = |pair: &[Row]| match (publisher(&pair[0]), publisher(&pair[1])) {
        (Some((first, place)), Some((second, later))) if first == second => later < place,
        _ => at(&pair[1], Move::is_claim) < at(&pair[0], |one| one.to == State::Delivered),
    };
    let wrong = rows.windows(2).filter(|pair| passed(pair));
    wrong.map(|pair| format!("{} passed {}", pair[1].id, pair[0].id)).collect()
}

/// X5: everything is replayed at once.
async fn replaying(scene: &mut Scene<'_>, keys: &[Vec<Row>], rows: &[Row]) -> Result<(), Stop> {
    if !scene.kit.is_own() {
        scene.findings.undecided("X5", "operators' tools of another relay are not known to this kit");
        return Ok(());
    }
    scene.verb(&["replay", "--lane", "main"]).await?;
    scene.until_are(&mut [], rows, State::Pending).await?;
    let mut relays = [scene.relay(ORDERED)?];
    scene.until_delivered(&mut relays, rows).await?;
    let mut wrong = BTreeMap::new();
    for pair in keys.iter().flat_map(|rows| rows.windows(2)) {
        if relays[0].place_of(&pair[1].id) < relays[0].place_of(&pair[0].id) {
            wrong.insert(&pair[1].id, &pair[0].id);
        }
    }
    let seen = format!("{} rows replayed at once came in the order of their keys", rows.len());
    scene.findings.hold("X5", wrong.is_empty(), &seen, &format!("replayed out of order: {wrong:?}"));
    Ok(())
}
