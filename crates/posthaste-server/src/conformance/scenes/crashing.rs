//! Relays that end without a word.

use futures_util::future::LocalBoxFuture;

use crate::conformance::Stop;
use crate::conformance::moves::State;
use crate::conformance::relay::Settings;
use crate::conformance::scene::{Scene, times};
use crate::conformance::table::Row;

/// L10: killed with rows in hand, and killed when they were published and could not be recorded.
pub(super) fn crashing<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        if !scene.kit.sees {
            scene.findings.undecided(
                "L10",
                "rows stay in hand while nobody reads the relay's stdout, which is not its target",
            );
            return Ok(());
        }
        after_the_claim(scene).await?;
        after_publishing(scene).await
    })
}

async fn after_the_claim(scene: &mut Scene<'_>) -> Result<(), Stop> {
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

async fn after_publishing(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let rows: Vec<_> = Row::many(3).into_iter().map(Row::large).collect();
    scene.table.insert(&rows).await?;
    let mut first = [scene.unheard_relay()?];
    scene.until_are(&mut first, &rows, State::Delivering).await?;
    let lock = scene.table.ground.lock(scene.table.profile.table.name(), &scene.table.among(&rows));
    let held = scene.table.ground.hold(&lock).await?;
    first[0].hear();
    let published = scene
        .until(&mut first, "rows are published that cannot be recorded", async |relays| {
            Ok(rows.iter().all(|row| times(relays, row) > 0))
        })
        .await;
    first[0].kill();
    held.roll_back().await?;
    published?;
    let recorded = scene
        .table
        .count(&format!("{} AND {}", scene.table.among(&rows), scene.table.is(State::Delivered)))
        .await?;
    let mut second = [scene.relay(Settings::default())?];
    scene
        .until_delivered(&mut second, &rows)
        .await
        .or_else(|stop| if recorded > 0 { Ok(()) } else { Err(stop) })?;
    scene.let_work(&mut second).await?;
    let most = rows.iter().map(|row| times(&second, row)).max().unwrap_or_default();
    scene.findings.hold(
        "L10",
        most <= 1,
        &format!(
            "killed with {} rows published and {recorded} recorded: the rest came once more",
            rows.len()
        ),
        &format!("after a crash a row was published {most} times more"),
    );
    Ok(())
}
