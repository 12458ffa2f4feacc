//! Events that were parked beyond the place and delivered before it passed them: they are delivered, whatever comes.

use std::time::Duration;

use posthaste_core::admin::{Command, EventState, Filter, Seek};
use posthaste_core::store::Claimed;

use crate::drive::{Driver, StoreBench, dead, event, ids, in_lane, lane, one, retry};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Publishes `gap`, `done` and `after`, and delivers `done` from its row while `gap` is unanswered.
async fn deliver_above_the_place(bench: &StoreBench) -> Result<(Driver, Vec<Claimed>), Verdict> {
    bench.publish_all(["gap", "done", "after"].map(event).into()).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&[one(&claimed, "done")?.clone()], retry(SECOND)).await?;
    bench.pass(SECOND);
    let due = driver.claim_all().await?;
    ensure_eq!(ids(&due), ["done"], "what is due");
    driver.deliver(&due).await?;
    Ok((driver, claimed))
}

/// A crash gives back what was not answered, and not what was delivered from its row; everything counts once.
pub async fn what_was_delivered_above_the_place_is_neither_handed_out_nor_counted_again(
    bench: StoreBench,
) -> LawResult {
    let main = lane("main");
    drop(deliver_above_the_place(&bench).await?);
    for _ in 0..2 {
        bench.pass(main.lease + SECOND);
        let driver = bench.again().await?.drive(&main).await?;
        ensure_eq!(ids(&driver.claim_all().await?), ["gap", "after"], "what a crash gives back");
    }
    bench.pass(main.lease + SECOND);
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["gap", "after"], "what a crash gives back");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.delivered, stats.unread), (3, 3, 0), "accepted, delivered, unread");
    Ok(())
}

/// A crash leaves a parked event beyond the place, and the next lease delivers it before it has read so far: neither that
/// lease nor the one after it hands the event out from the log.
pub async fn what_was_delivered_before_the_log_reached_it_is_not_handed_out_again(
    bench: StoreBench,
) -> LawResult {
    bench.publish_all(["gap", "done", "after"].map(event).into()).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&[one(&claimed, "done")?.clone()], retry(SECOND)).await?;
    drop(driver);
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    // Room for one: parked events have their turn first, and the log is not read.
    let due = driver.claim(1).await?;
    ensure_eq!(ids(&due), ["done"], "what is due");
    driver.deliver(&due).await?;
    ensure_eq!(ids(&driver.claim_all().await?), ["gap", "after"], "what this lease reads after it");
    drop(driver);
    bench.pass(main.lease + SECOND);
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["gap", "after"], "what the next lease reads");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.delivered), (3, 3), "accepted, delivered");
    Ok(())
}

/// It is seen as delivered, with nothing of how it was parked; it is not among what waits or is dead, and nothing can be
/// done to it that is for such.
pub async fn what_was_delivered_above_the_place_is_nothing_but_delivered(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let (driver, claimed) = deliver_above_the_place(&bench).await?;
    let view = bench.view(&main.name, "done").await?;
    ensure_eq!((view.state, view.attempts, view.code), (EventState::Delivered, 0, None), "how it is seen");
    let stats = bench.stats(&main.name).await?;
    let totals = (stats.accepted, stats.delivered, stats.waiting, stats.dead);
    ensure_eq!(totals, (1, 1, 0, 0), "accepted, delivered, waiting, dead");
    for state in [EventState::Retrying, EventState::Dead, EventState::Pending] {
        let mut filter = in_lane(&main.name);
        filter.state = Some(state);
        let found = bench.find(&filter).await?;
        ensure!(found.iter().all(|record| record.envelope.id != "done"), "it is found as {state:?}");
    }
    for command in [
        Command::Redrive { dry_run: false },
        Command::Discard { reason: "x".to_owned(), dry_run: false },
        Command::Remove { dry_run: true },
    ] {
        let name = command.name();
        let applied = bench.apply(&in_lane(&main.name), command).await?;
        ensure_eq!((applied.matched, applied.changed), (0, 0), "what {name} means");
    }
    // A late answer about it changes nothing.
    driver.settle_as(&[one(&claimed, "done")?.clone()], dead()).await?;
    ensure_eq!(bench.state(&main.name, "done").await?, EventState::Delivered, "its state");
    Ok(())
}

/// Who asks for it gets it again: by a replay once, and by a seek with everything else.
pub async fn replay_and_seek_deliver_again_what_was_delivered_above_the_place(
    bench: StoreBench,
) -> LawResult {
    let main = lane("main");
    let (driver, _) = deliver_above_the_place(&bench).await?;
    let mut filter = in_lane(&main.name);
    filter.ids = vec!["done".to_owned()];
    let applied = bench.apply(&filter, Command::Replay { dry_run: false }).await?;
    ensure_eq!((applied.matched, applied.changed), (1, 1), "what is replayed");
    ensure_eq!(bench.stats(&main.name).await?.waiting, 1, "waiting");
    let again = driver.claim_all().await?;
    ensure_eq!(ids(&again), ["done"], "what comes again");
    ensure!(again[0].parcel.replay, "it is not marked");
    driver.deliver(&again).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.delivered, stats.replayed), (2, 2, 1), "accepted, delivered, replayed");
    drop(driver);
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure_eq!(ids(&driver.claim_all().await?), ["gap", "after"], "what a crash gives back after it");
    bench.apply(&in_lane(&main.name), Command::Seek { to: Seek::Beginning, dry_run: false }).await?;
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["gap", "done", "after"], "what a seek delivers");
    ensure_eq!(bench.stats(&main.name).await?.accepted, 5, "accepted: two before the seek, three after it");
    Ok(())
}

/// The lane is moved past it: it is not among what is given up, and nothing of it is left.
pub async fn what_is_skipped_above_the_place_was_delivered_all_the_same(bench: StoreBench) -> LawResult {
    let main = lane("main");
    drop(deliver_above_the_place(&bench).await?);
    bench.pass(HOUR * 2);
    let skip = Command::Skip { age: HOUR, reason: "nobody came".to_owned(), dry_run: false };
    ensure_eq!(bench.apply(&in_lane(&main.name), skip).await?.changed, 2, "what is given up");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!(
        (stats.accepted, stats.delivered, stats.discarded),
        (3, 1, 2),
        "accepted, delivered, discarded"
    );
    prune_everything(&bench, 3).await
}

/// The place passes it in the lease that delivered it, or in a later one: retention then takes it like any other.
pub async fn nothing_is_left_of_what_the_place_has_passed(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let (driver, claimed) = deliver_above_the_place(&bench).await?;
    driver.deliver(&claimed).await?;
    driver.give_up().await?;
    ensure_eq!(bench.stats(&main.name).await?.accepted, 3, "accepted");
    bench.pass(HOUR * 2);
    prune_everything(&bench, 3).await?;
    drop(deliver_above_the_place_anew(&bench).await?);
    bench.pass(main.lease + SECOND);
    bench.drive(&main).await?.drain().await?;
    bench.pass(HOUR * 2);
    prune_everything(&bench, 2).await
}

/// The same once more with other events, as a log is never without a past.
async fn deliver_above_the_place_anew(bench: &StoreBench) -> Result<Driver, Verdict> {
    bench.publish_all(["gap-2", "done-2"].map(event).into()).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&[one(&claimed, "done-2")?.clone()], retry(SECOND)).await?;
    bench.pass(SECOND);
    let due = driver.claim_all().await?;
    driver.deliver(&due).await?;
    Ok(driver)
}

async fn prune_everything(bench: &StoreBench, events: u64) -> LawResult {
    let prune = Command::Prune { delivered_age: Some(HOUR), dead_age: None, dry_run: false };
    ensure_eq!(bench.apply(&Filter::default(), prune).await?.changed, events, "what retention takes");
    ensure!(bench.find(&Filter::default()).await?.is_empty(), "something is left");
    Ok(())
}
