//! Totals that add up, and lags that are true.

use std::time::Duration;

use posthaste_core::admin::{Command, LaneStats, Page, all_lanes};
use posthaste_core::store::Outcome;
use posthaste_core::time::Moment;

use crate::drive::{StoreBench, dead, event, in_lane, keyed, lane, one, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

fn totals(stats: &LaneStats) -> [u64; 5] {
    [stats.accepted, stats.delivered, stats.waiting, stats.dead, stats.discarded]
}

/// Pages of lanes are as large as was asked for, ordered by name, and each lane is on one of them.
pub async fn lanes_come_in_pages_ordered_by_name(bench: StoreBench) -> LawResult {
    for name in ["d", "b", "e", "a", "c"] {
        bench.drive(&lane(name)).await?;
    }
    let (mut sizes, mut names, mut page) = (Vec::new(), Vec::new(), Page::first(2));
    loop {
        let found = bench.store.lanes(page.clone()).await?;
        sizes.push(found.lanes.len());
        names.extend(found.lanes.iter().map(|stats| stats.lane.to_string()));
        let Some(next) = found.next else { break };
        page.after = Some(next);
        ensure!(sizes.len() < 10, "the pages of lanes do not end");
    }
    ensure_eq!(sizes, [2, 2, 1], "lanes on each page");
    ensure_eq!(names, ["a", "b", "c", "d", "e"], "lanes on all pages");
    let all: Vec<_> = all_lanes(&*bench.store).await?.iter().map(|stats| stats.lane.to_string()).collect();
    ensure_eq!(all, names, "lanes asked for together");
    Ok(())
}

/// Leads one event through each end and looks at the totals after every step.
pub async fn totals_add_up_after_every_step(bench: StoreBench) -> LawResult {
    let mut scheduled = event("scheduled");
    scheduled.available = Some(Moment::In(SECOND * 5));
    let mut expired = event("expired");
    expired.expires = Some(Moment::In(Duration::ZERO));
    let plain = ["delivered", "retried", "dead", "slow"].map(event);
    bench
        .publish_all([plain.to_vec(), vec![keyed("k1", "k"), keyed("k2", "k"), scheduled, expired]].concat())
        .await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    ensure_eq!(totals(&bench.stats(&main.name).await?), [0; 5], "totals at the start");
    let claimed = driver.claim_all().await?;
    ensure_eq!(claimed.len(), 6, "events claimed");
    ensure_eq!(totals(&bench.stats(&main.name).await?), [0; 5], "totals after a claim");
    driver.renew().await?;
    ensure_eq!(
        totals(&bench.stats(&main.name).await?),
        [2, 0, 1, 0, 1],
        "totals after parking what was found"
    );
    let steps = [
        ("delivered", Outcome::Delivered, [3, 1, 1, 0, 1]),
        ("retried", retry(SECOND), [4, 1, 2, 0, 1]),
        ("dead", dead(), [5, 1, 2, 1, 1]),
        ("slow", Outcome::Slow, [6, 1, 3, 1, 1]),
        ("k1", retry(SECOND), [7, 1, 4, 1, 1]),
        ("k2", Outcome::Behind, [8, 1, 5, 1, 1]),
        ("slow", Outcome::Delivered, [8, 2, 4, 1, 1]),
    ];
    for (id, outcome, expected) in steps {
        let outcome_name = format!("{outcome:?}");
        driver.settle(vec![settled(one(&claimed, id)?, outcome)]).await?;
        ensure_eq!(totals(&bench.stats(&main.name).await?), expected, "totals after {id} is {outcome_name}");
    }
    bench.pass(SECOND * 5);
    driver.drain().await?;
    ensure_eq!(totals(&bench.stats(&main.name).await?), [8, 6, 0, 1, 1], "totals after a drain");
    bench.apply(&in_lane(&main.name), Command::Redrive { dry_run: false }).await?;
    ensure_eq!(totals(&bench.stats(&main.name).await?), [8, 6, 1, 0, 1], "totals after a redrive");
    driver.drain().await?;
    ensure_eq!(totals(&bench.stats(&main.name).await?), [8, 7, 0, 0, 1], "totals in the end");
    Ok(())
}

/// Publishes at two times and delivers one after another: unread counts down, and the oldest unread is the next. What is
/// rolled back after them was never to be read.
pub async fn unread_and_oldest_unread_say_how_far_a_lane_is(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.oldest_unread_at), (0, None), "an empty log");
    let first = bench.rig.now();
    bench.publish(&["a"]).await?;
    bench.pass(SECOND);
    let second = bench.rig.now();
    bench.publish(&["b"]).await?;
    for (unread, oldest) in [(2, Some(first)), (1, Some(second)), (0, None)] {
        let stats = bench.stats(&main.name).await?;
        ensure_eq!((stats.unread, stats.oldest_unread_at), (unread, oldest), "unread and the oldest of it");
        let claimed = driver.claim(1).await?;
        ensure!(claimed.len() == usize::from(unread > 0), "{} claimed with {unread} unread", claimed.len());
        driver.deliver(&claimed).await?;
    }
    let mut tx = bench.rig.begin().await?;
    tx.publish(event("c")).await?;
    tx.rollback().await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.oldest_unread_at), (0, None), "unread after a rollback");
    Ok(())
}

/// One event is scheduled for later and one fails: only that one counts as retried, with its age, and it no longer does when it was
/// delivered.
pub async fn what_is_scheduled_is_not_retried(bench: StoreBench) -> LawResult {
    let mut scheduled = event("scheduled");
    scheduled.available = Some(Moment::In(SECOND * 600));
    bench.publish_all(vec![scheduled, event("failed")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND * 60)).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.waiting, stats.retrying), (2, Some(1)), "what waits, and of that what has failed");
    let records = bench.find(&in_lane(&main.name)).await?;
    let failed = records.iter().find(|record| record.envelope.id == "failed");
    ensure_eq!(stats.oldest_waiting_at, failed.map(|record| record.created_at), "how old it is");
    bench.pass(SECOND * 61);
    driver.deliver(&driver.claim_all().await?).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.retrying, stats.oldest_waiting_at), (Some(0), None), "what is retried in the end");
    Ok(())
}

/// One event of the oldest is scheduled for later, one fails, one of its key waits behind it and one dies: one has failed and waits, and it
/// is the oldest whose time has come, also when nothing is unread.
pub async fn what_failed_and_waits_is_told_with_the_age_of_the_oldest(bench: StoreBench) -> LawResult {
    let mut scheduled = event("scheduled");
    scheduled.available = Some(Moment::In(SECOND * 600));
    bench.publish_all(vec![scheduled, event("dead")]).await?;
    bench.pass(SECOND);
    let time = bench.rig.now();
    bench.publish_all(vec![keyed("failed", "k")]).await?;
    bench.pass(SECOND);
    bench.publish_all(vec![keyed("behind", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!(
        (stats.retrying, stats.oldest_waiting_at),
        (Some(0), None),
        "what waits before anything is read"
    );
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(one(&claimed, "dead")?, dead()),
            settled(one(&claimed, "failed")?, retry(SECOND * 60)),
            settled(one(&claimed, "behind")?, Outcome::Behind),
        ])
        .await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.oldest_unread_at), (0, None), "what is unread");
    ensure_eq!((stats.waiting, stats.retrying), (3, Some(1)), "what waits, and of that what has failed");
    ensure_eq!(stats.oldest_waiting_at, Some(time), "the oldest whose time has come");
    ensure_eq!(stats.oldest_at(), Some(time), "the oldest of all");
    Ok(())
}
