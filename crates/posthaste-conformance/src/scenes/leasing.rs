//! Leases that end: of relays that are gone, and of one that only slept.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use posthaste::table::Column;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::Stop;
use crate::ground::literal;
use crate::moves::{Move, State};
use crate::relay::Settings;
use crate::scene::{Scene, millis};
use crate::table::Row;

/// The clocks of a relay and of its database may differ by this much.
const CLOCKS_MS: i64 = 250;

/// S5, L6: rows whose lease has ended long ago, and rows whose lease has just begun.
pub(super) fn expiring<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let lease = millis(scene.kit.lease);
        let stale = [(); 3].map(|()| Row::new().held_since(lease * 3));
        scene.table.insert(&stale).await?;
        let fresh = [(); 2].map(|()| Row::new().held_since(0));
        scene.table.insert(&fresh).await?;
        let mut relays = [scene.relay(Settings::default())?];
        scene.until_delivered(&mut relays, &stale).await?;
        scene.until_delivered(&mut relays, &fresh).await?;
        let moves = scene.table.moves().await?;
        let back = |row: &Row| {
            moves.iter().find(|one| one.id == row.id && one.is(State::Delivering, State::Pending))
        };
        let ages: Vec<Option<i64>> =
            fresh.iter().map(|row| back(row).and_then(|one| one.lease_age)).collect();
        let early = ages.iter().flatten().any(|age| *age < lease - CLOCKS_MS);
        let seen = format!(
            "rows of a relay that is gone came, not before their lease of {lease} ms had ended: after {ages:?} ms"
        );
        scene.findings.hold(
            "S5",
            !early,
            &seen,
            &format!("taken over after {ages:?} ms of a lease of {lease} ms"),
        );
        let counted: Vec<&Move> = stale.iter().chain(&fresh).filter_map(back).collect();
        scene.findings.hold(
            "L6",
            counted.len() == 5,
            "5 leases that ended: pending again, one attempt more",
            &format!("of 5 rows whose lease had ended {} became pending", counted.len()),
        );
        if scene.table.has(Column::LastError) {
            let silent = counted.iter().filter(|one| one.error.is_none()).count();
            scene.findings.hold(
                "L6",
                silent == 0,
                "with its reason",
                &format!("{silent} leases that ended left no reason"),
            );
        }
        Ok(())
    })
}

/// L9: a relay is stopped with rows in hand, the kit takes them over when their lease has ended, and then the relay wakes up.
pub(super) fn sleeping<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        if !scene.kit.sees {
            scene.findings.undecided(
                "L9",
                "rows stay in hand while nobody reads the relay's stdout, which is not its target",
            );
            return Ok(());
        }
        let rows = [Row::new().large(), Row::new().large()];
        scene.table.insert(&rows).await?;
        let mut relays = [scene.unheard_relay()?];
        scene.until_are(&mut relays, &rows, State::Delivering).await?;
        relays[0].signal(Signal::STOP);
        sleep(scene.kit.lease + Duration::from_millis(500)).await;
        take_over(scene, &rows).await?;
        let before = scene.table.snapshot(&rows).await?;
        let taken = scene
            .table
            .count(&format!("{} AND {}", scene.table.among(&rows), scene.table.is(State::Delivering)))
            .await?;
        if taken != 2 {
            return Err(Stop(format!("{taken} of 2 rows could be taken over")));
        }
        relays[0].signal(Signal::CONT);
        relays[0].hear();
        // What it still wanted to do with them it has done when it delivers something else, or has ended.
        let woke = scene.let_work(&mut relays).await;
        if woke.is_err() && relays[0].ended().is_none() {
            woke?;
        }
        let untouched = scene.table.snapshot(&rows).await? == before;
        scene.findings.hold(
            "L9",
            untouched,
            "a relay that slept past its lease and woke up changed nothing of what it had lost",
            "a relay that slept past its lease changed rows that somebody else had",
        );
        Ok(())
    })
}

/// What another relay would do: pending again with one attempt more, then claimed by a holder of its own for a long time.
async fn take_over(scene: &Scene<'_>, rows: &[Row]) -> Result<(), Stop> {
    let table = &scene.table;
    let name = |column| table.name(column);
    let word = |state| table.state_name(state).literal();
    let (status, by, at) = (name(Column::Status), name(Column::LockedBy), name(Column::LockedAt));
    let attempts = name(Column::Attempts);
    let back =
        format!("{status} = {}, {by} = NULL, {at} = NULL, {attempts} = {attempts} + 1", word(State::Pending));
    table.change(&back, &format!("{} AND {}", table.among(rows), table.is(State::Delivering))).await?;
    let claim = format!(
        "{status} = {}, {by} = {}, {at} = {}",
        word(State::Delivering),
        literal(&posthaste::envelope::fresh_id()),
        table.ground.moment(600_000)
    );
    let due = format!(
        "{} AND {} AND {} <= 0",
        table.among(rows),
        table.is(State::Pending),
        table.ground.ms_until(&name(Column::AvailableAt))
    );
    table.change(&claim, &due).await
}
