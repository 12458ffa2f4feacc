//! A target that does not acknowledge: nobody reads what the relay publishes, and no pipe is large enough for one event.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use posthaste::table::Column;
use tokio::time::sleep;

use crate::Stop;
use crate::moves::{Move, State};
use crate::relay::{ATTEMPTS_MAX, BACKOFF};
use crate::scene::Scene;
use crate::table::Row;

/// How long dead rows are watched.
const WATCHED: Duration = Duration::from_millis(2_500);
/// How much of the asked pause must be seen: it begins with the transaction that records the failure, and a busy server takes its time.
const PAUSE_SEEN_PERCENT: i64 = 80;

pub(super) fn failing<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        if !scene.kit.sees {
            let why = "a target that does not acknowledge is the relay's stdout, which is not its target";
            scene.findings.all_undecided(&["L6", "L7", "R2", "U1", "U2", "U5"], why);
            return Ok(());
        }
        let rows = [Row::new().large(), Row::new().large()];
        scene.table.insert(&rows).await?;
        let mut relays = [scene.unheard_relay()?];
        let ended = scene.until_are(&mut relays, &rows, State::Dead).await;
        let moves = scene.table.moves().await?;
        let delivered = moves.iter().filter(|one| one.to == State::Delivered).count();
        scene.findings.hold(
            "U2",
            delivered == 0,
            "nobody acknowledged, and nothing was delivered",
            &format!("{delivered} rows were marked as delivered that nobody had acknowledged"),
        );
        let failures: Vec<&Move> =
            moves.iter().filter(|one| one.is(State::Delivering, State::Pending)).collect();
        if failures.is_empty() {
            let why = "the relay waits for an acknowledgement without an end, so no attempt failed";
            scene.findings.all_undecided(&["L6", "L7", "R2", "U1", "U5"], why);
            return Ok(());
        }
        look_at_failures(scene, &failures);
        if let Err(Stop(why)) = ended {
            scene.findings.broken("L7", format!("{ATTEMPTS_MAX} attempts are allowed: {why}"));
            return Ok(());
        }
        look_at_pauses(scene, &moves, &rows);
        // Whoever tries a dead row again does it now.
        sleep(WATCHED).await;
        let after = scene.table.moves().await?;
        let moved = after.len() - moves.len();
        let claims = |row: &Row| after.iter().filter(|one| one.id == row.id && one.is_claim()).count();
        scene.findings.hold(
            "L7",
            moved == 0,
            &format!("dead after {ATTEMPTS_MAX} attempts, and left alone"),
            &format!("dead rows were changed {moved} times"),
        );
        relays[0].hear();
        scene
            .until(&mut relays, "every attempt can be read", async |relays| {
                Ok(rows.iter().all(|row| relays[0].times(&row.id) > 0))
            })
            .await?;
        sleep(WATCHED).await;
        for row in &rows {
            let (sent, claimed) = (relays[0].times(&row.id), claims(row));
            scene.findings.hold(
                "U1",
                sent <= claimed,
                &format!("{claimed} attempts sent {sent} times"),
                &format!("{claimed} attempts sent {sent} times"),
            );
        }
        Ok(())
    })
}

/// L6, U5: what a failure leaves in its row.
fn look_at_failures(scene: &mut Scene<'_>, failures: &[&Move]) {
    let number = failures.len();
    let wrong = failures.iter().filter(|one| one.due_in <= 0 || !one.is_counted()).count();
    scene.findings.hold(
        "L6",
        wrong == 0,
        &format!("{number} failures: one attempt more, no lease, due later"),
        &format!("{wrong} of {number} rows that failed are due at once, or the failure was not counted"),
    );
    if scene.table.has(Column::LastError) {
        let silent =
            failures.iter().filter(|one| one.error.as_deref().unwrap_or_default().is_empty()).count();
        let said = failures[0].error.as_deref().unwrap_or_default();
        let evidence = format!("the reason is kept: {said:?}");
        scene.findings.hold(
            "U5",
            silent == 0,
            &evidence,
            &format!("{silent} of {number} failures left no reason"),
        );
        scene.findings.hold(
            "L6",
            silent == 0,
            "with its reason",
            &format!("{silent} of {number} failures left no reason"),
        );
    } else {
        scene.findings.undecided("U5", "the table has no column for a reason");
    }
}

/// R2: between a failure and the next claim.
fn look_at_pauses(scene: &mut Scene<'_>, moves: &[Move], rows: &[Row]) {
    for row in rows {
        let mine: Vec<&Move> = moves.iter().filter(|one| one.id == row.id && one.from != one.to).collect();
        let pairs: Vec<_> = mine
            .windows(2)
            .filter(|pair| pair[0].is(State::Delivering, State::Pending) && pair[1].is_claim())
            .collect();
        let pauses: Vec<i64> = pairs.iter().map(|pair| pair[1].at - pair[0].at).collect();
        let least = i64::try_from(BACKOFF.as_millis()).unwrap_or(i64::MAX) * PAUSE_SEEN_PERCENT / 100;
        let waits = pauses.iter().all(|pause| *pause >= least);
        // By what the row says: a claim may be late, for reasons of its own.
        let grows = pairs.windows(2).all(|pair| pair[1][0].due_in > pair[0][0].due_in);
        let seen = format!(
            "pauses of {pauses:?} ms, where {} ms and then twice that were asked for",
            BACKOFF.as_millis()
        );
        scene.findings.hold("R2", waits && grows && !pauses.is_empty(), &seen, &seen);
    }
}
