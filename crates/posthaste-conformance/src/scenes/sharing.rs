//! Several relays on one table, and how much one of them takes.

use std::collections::BTreeMap;

use futures_util::future::LocalBoxFuture;

use crate::Stop;
use crate::moves::rows_by_claim;
use crate::relay::{Running, Settings};
use crate::scene::{Scene, times};
use crate::table::Row;

const RELAYS: usize = 3;
const ROWS: usize = 400;
const BATCH: u32 = 5;

/// S4, S2, U5: three relays, many rows, no fault.
pub(super) fn sharing<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let started: Result<Vec<_>, _> =
            (0..RELAYS).map(|_| scene.relay(Settings { batch: 20, ..Settings::default() })).collect();
        let mut relays = started?;
        let mut rows = Vec::new();
        for _ in 0..4 {
            let some = Row::many(ROWS / 4);
            scene.table.insert(&some).await?;
            rows.extend(some);
        }
        scene.until_delivered(&mut relays, &rows).await?;
        let moves = scene.table.moves().await?;
        let mut claims = BTreeMap::<&str, usize>::new();
        for one in moves.iter().filter(|one| one.is_claim()) {
            *claims.entry(&one.id).or_default() += 1;
        }
        let twice = claims.values().filter(|claims| **claims > 1).count();
        let seen = format!("{ROWS} rows, {RELAYS} relays, each row claimed once");
        scene.findings.hold("S4", twice == 0, &seen, &format!("{twice} of {ROWS} rows were claimed twice"));
        let invalid =
            moves.iter().filter(|one| one.from != one.to && (one.from.is_terminal() || !one.is_allowed()));
        let invalid = invalid.count();
        let seen = format!("{} changes by {RELAYS} relays at once, each row delivered once", moves.len());
        scene.findings.hold(
            "S2",
            invalid == 0,
            &seen,
            &format!("{invalid} of {} changes are none that may be", moves.len()),
        );
        if scene.kit.sees {
            look_at_events(scene, &relays, &rows);
        }
        Ok(())
    })
}

fn look_at_events(scene: &mut Scene<'_>, relays: &[Running], rows: &[Row]) {
    let twice = rows.iter().filter(|row| times(relays, row) > 1).count();
    scene.findings.hold(
        "S4",
        twice == 0,
        "and published once",
        &format!("{twice} of {ROWS} rows were published twice"),
    );
    let lines: usize = relays.iter().map(|relay| relay.lines().len()).sum();
    let seen = format!("{lines} lines for {ROWS} events, each with one id");
    let events: usize = rows.iter().map(|row| times(relays, row)).sum();
    scene.findings.hold(
        "U5",
        lines >= ROWS && events == lines,
        &seen,
        &format!("{lines} lines have {events} ids: events are mixed"),
    );
}

/// S1: a limit far below what is there.
pub(super) fn limiting<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let rows = Row::many(60);
        scene.table.insert(&rows).await?;
        let mut relays = [scene.relay(Settings { batch: BATCH, ..Settings::default() })?];
        scene.until_delivered(&mut relays, &rows).await?;
        let claims = rows_by_claim(&scene.table.moves().await?);
        let most = claims.iter().copied().max().unwrap_or_default();
        let seen = format!("{} claims of at most {most} rows, where {BATCH} were allowed", claims.len());
        scene.findings.hold("S1", most <= BATCH as usize, &seen, &seen);
        Ok(())
    })
}
