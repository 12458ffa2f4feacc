//! Relays that end without a word.

use futures_util::future::LocalBoxFuture;

use crate::Stop;
use crate::moves::State;
use crate::relay::Settings;
use crate::scene::{Scene, times};
use crate::table::Row;

/// L10: killed with rows in hand.
pub(super) fn after_the_claim<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(in_hand(scene))
}

/// L10: killed when rows were published and could not be recorded.
pub(super) fn after_publishing<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(published(scene))
}

/// Whether rows can be kept in a relay's hands; otherwise says why not.
fn can_hold(scene: &mut Scene<'_>) -> bool {
    if !scene.kit.sees {
        scene.findings.undecided(
            "L10",
            "rows stay in hand while nobody reads the relay's stdout, which is not its target",
        );
    }
    scene.kit.sees
}

async fn in_hand(scene: &mut Scene<'_>) -> Result<(), Stop> {
    if !can_hold(scene) {
        return Ok(());
    }
    let rows: Vec<_> = Row::many(4).into_iter().map(Row::large).collect();
    scene.table.insert(&rows).await?;
    let mut relays = [scene.unheard_relay()?];
    let in_hand = format!("{} AND {}", scene.table.among(&rows), scene.table.is(State::Delivering));
    scene
        .until(&mut relays, "rows are claimed", async |_| Ok(scene.table.count(&in_hand).await? > 0))
        .await?;
    relays[0].kill();
    let held = scene.table.count(&in_hand).await?;
    let mut relays = [scene.relay(Settings::default())?];
    scene.until_delivered(&mut relays, &rows).await?;
    scene.findings.ok("L10", format!("killed with {held} of {} rows in hand: all of them came", rows.len()));
    Ok(())
}

async fn published(scene: &mut Scene<'_>) -> Result<(), Stop> {
    if !can_hold(scene) {
        return Ok(());
    }
    let rows: Vec<_> = Row::many(3).into_iter().map(Row::large).collect();
    scene.table.insert(&rows).await?;
    let mut first = [scene.unheard_relay()?];
    scene.until_are(&mut first, &rows, State::Delivering).await?;
    let lock = scene.table.ground.lock(scene.table.profile.table.name(), &scene.table.among(&rows));
    let held = scene.table.ground.hold(&lock).await?;
    first[0].hear();
    let published = scene
        .until(&mut first, "rows are published that cannot be recorded", async |relays| {
            Ok(rows.iter().any(|row| times(relays, row) > 0))
        })
        .await;
    first[0].kill();
    // Its last statement would still be carried out when the lock is gone.
    scene.table.ground.run(&scene.table.ground.end_waiting(scene.table.profile.table.name())).await?;
    held.roll_back().await?;
    published?;
    let is_delivered = format!("{} AND {}", scene.table.among(&rows), scene.table.is(State::Delivered));
    let recorded = scene.table.count(&is_delivered).await?;
    let mut second = [scene.relay(Settings::default())?];
    scene.until_are(&mut second, &rows, State::Delivered).await?;
    scene.let_work(&mut second).await?;
    let sent = rows.iter().filter(|row| times(&first, row) > 0).count();
    let again: Vec<usize> = rows.iter().map(|row| times(&second, row)).collect();
    scene.findings.hold(
        "L10",
        again.iter().all(|times| *times <= 1),
        &format!("killed with {sent} rows published and {recorded} recorded: they came {again:?} times more"),
        &format!("after a crash rows were published {again:?} times more"),
    );
    Ok(())
}
