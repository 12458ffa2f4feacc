//! What producers and relays see of one another.

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tokio::time::sleep;

use crate::Stop;
use crate::relay::Settings;
use crate::scene::{Scene, times};
use crate::table::Row;

/// How long something is watched that must not happen.
const WATCHED: Duration = Duration::from_secs(4);

/// P1: one transaction is rolled back and one committed. P2: one stays open while a relay works, and is committed late.
pub(super) fn committing<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let (table, ground) = (&scene.table, scene.table.ground);
        let [never, kept, mut late] = [Row::new(), Row::new(), Row::new()].map(|row| [row]);
        // As old as a transaction that began long ago.
        (late[0].made_in, late[0].due_in) = (Some(-30_000), -30_000);
        ground.hold(&table.inserting(&never)).await?.roll_back().await?;
        let rolled_back = table.count("1 = 1").await?;
        ground.hold(&table.inserting(&kept)).await?.commit().await?;
        let committed = table.count("1 = 1").await?;
        scene.findings.hold(
            "P1",
            (rolled_back, committed) == (0, 1),
            "a transaction that was rolled back left no row, one that was committed left one",
            &format!("{rolled_back} rows after a rollback, {committed} after a commit: use a table that takes part in transactions"),
        );
        let mut relays = [scene.relay(Settings::default())?];
        scene.until_delivered(&mut relays, &kept).await?;
        let held = ground.hold(&scene.table.inserting(&late)).await?;
        if ground.has_one_writer() {
            sleep(WATCHED).await;
        } else {
            scene.let_work(&mut relays).await?;
        }
        let early = times(&relays, &late[0]);
        held.commit().await?;
        scene.until_delivered(&mut relays, &late).await?;
        scene.findings.hold(
            "P2",
            early == 0,
            "a row of an open transaction was not published, others were, and it came when it was committed",
            "a row was published before its transaction was committed",
        );
        Ok(())
    })
}

/// L2: somebody holds locks on rows, so that they cannot be claimed; a relay that publishes them all the same did not claim.
pub(super) fn claiming<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let locked = Row::many(5);
        let theirs = [Row::new().held_since(0), Row::new().held_since(0)];
        scene.table.insert(&locked).await?;
        scene.table.insert(&theirs).await?;
        // Locked for longer than this scene takes.
        let now = scene.table.ground.moment(600_000);
        let locked_at = scene.table.name(posthaste::table::Column::LockedAt);
        scene.table.change(&format!("{locked_at} = {now}"), &scene.table.among(&theirs)).await?;
        let lock = scene.table.ground.lock(scene.table.profile.table.name(), &scene.table.among(&locked));
        let held = scene.table.ground.hold(&lock).await?;
        let mut relays = [scene.relay(Settings::default())?];
        sleep(WATCHED).await;
        let early: usize = locked.iter().map(|row| times(&relays, row)).sum();
        held.roll_back().await?;
        scene.until_delivered(&mut relays, &locked).await?;
        let before = scene.table.snapshot(&theirs).await?;
        scene.let_work(&mut relays).await?;
        let stolen: usize = theirs.iter().map(|row| times(&relays, row)).sum();
        let untouched = scene.table.snapshot(&theirs).await? == before;
        if !scene.kit.sees {
            scene.findings.undecided("L2", "what the relay publishes is not seen");
        } else {
            scene.findings.hold(
                "L2",
                early == 0,
                "rows that could not be claimed were not published until they could",
                &format!("{early} rows were published while nobody could claim them"),
            );
        }
        scene.findings.hold(
            "L2",
            stolen == 0 && untouched,
            "rows that another relay had were left alone",
            &format!("rows that another relay had were {}", if untouched { "published" } else { "changed" }),
        );
        Ok(())
    })
}
