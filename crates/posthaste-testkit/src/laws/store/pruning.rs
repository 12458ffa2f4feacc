//! Retention: what may go, and what never.

use std::time::Duration;

use posthaste_core::admin::{Command, EventState, Filter};
use posthaste_core::store::{Outcome, Standing, Then};

use crate::drive::{StoreBench, dead, in_lane, lane, retry, settled};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

const HOUR: Duration = Duration::from_secs(3_600);

fn prune(delivered_age: Option<Duration>, dead_age: Option<Duration>) -> Command {
    Command::Prune { delivered_age, dead_age, dry_run: false }
}

/// The ids of all events, the oldest first.
async fn all(bench: &StoreBench) -> Result<Vec<String>, Verdict> {
    Ok(bench.find(&Filter::default()).await?.into_iter().rev().map(|record| record.envelope.id).collect())
}

/// Two lanes, one behind the other, and events young and old: only what both have passed and is old goes.
pub async fn prune_touches_only_what_every_lane_has_passed(bench: StoreBench) -> LawResult {
    bench.publish(&["old-1", "old-2", "old-3"]).await?;
    bench.pass(HOUR * 2);
    bench.publish(&["young"]).await?;
    let (ahead, behind) = (lane("ahead"), lane("behind"));
    bench.drive(&ahead).await?.drain().await?;
    let driver = bench.drive(&behind).await?;
    let claimed = driver.claim(2).await?;
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure_eq!(
        all(&bench).await?,
        ["old-1", "old-2", "old-3", "young"],
        "what stays before anything is settled"
    );
    driver.deliver(&claimed[..1]).await?;
    let dry = Command::Prune { delivered_age: Some(HOUR), dead_age: None, dry_run: true };
    let applied = bench.apply(&Filter::default(), dry).await?;
    ensure_eq!((applied.matched, applied.changed), (1, 0), "what a dry prune counts");
    let applied = bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure_eq!(applied.changed, 1, "events that went");
    ensure_eq!(all(&bench).await?, ["old-2", "old-3", "young"], "what stays");
    driver.deliver(&claimed[1..]).await?;
    driver.drain().await?;
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure_eq!(all(&bench).await?, ["young"], "what stays when both have passed all");
    Ok(())
}

/// Parks one event in each way: none of them goes by age, and old dead ones only when asked for.
pub async fn prune_leaves_what_is_parked_and_dead_unless_asked(bench: StoreBench) -> LawResult {
    bench.publish(&["dead", "retrying", "delivered"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], dead()),
            settled(&claimed[1], retry(HOUR * 100)),
            settled(&claimed[2], posthaste_core::store::Outcome::Delivered),
        ])
        .await?;
    bench.pass(HOUR * 2);
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure_eq!(all(&bench).await?, ["dead", "retrying"], "what stays");
    bench.apply(&Filter::default(), prune(Some(HOUR), Some(HOUR * 3))).await?;
    ensure_eq!(all(&bench).await?, ["dead", "retrying"], "what stays while the dead are young");
    bench.apply(&Filter::default(), prune(Some(HOUR), Some(HOUR))).await?;
    ensure_eq!(all(&bench).await?, ["retrying"], "what stays when the dead may go");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.dead, stats.waiting), (0, 1), "dead and waiting");
    Ok(())
}

/// Two lanes have the same events, long dead in one, and in the other waiting or unread, and then just dead: while the other needs an event it
/// stays, and stays dead where it died. When both have done with it, it goes once, from both, and is counted once.
pub async fn a_dead_event_stays_dead_while_another_lane_needs_it(bench: StoreBench) -> LawResult {
    let (main, other) = (lane("main"), lane("other"));
    bench.publish(&["waits", "unread"]).await?;
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, dead()).await?;
    let driver_of_other = bench.drive(&other).await?;
    let claimed = driver_of_other.claim_all().await?;
    driver_of_other.settle_as(&claimed[..1], retry(HOUR)).await?;
    bench.pass(HOUR * 2);
    let command = |dry_run| Command::Prune { delivered_age: Some(HOUR), dead_age: Some(HOUR), dry_run };
    for dry_run in [true, false] {
        let applied = bench.apply(&Filter::default(), command(dry_run)).await?;
        ensure_eq!((applied.matched, applied.changed), (0, 0), "what goes while one waits and one is unread");
    }
    let driver_of_other = bench.drive(&other).await?;
    driver_of_other.settle_as(&driver_of_other.claim_all().await?, dead()).await?;
    for dry_run in [true, false] {
        let applied = bench.apply(&Filter::default(), command(dry_run)).await?;
        ensure_eq!((applied.matched, applied.changed), (0, 0), "what goes while both have just died there");
    }
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.dead, stats.discarded), (2, 0), "what is dead in the lane in which it died long ago");
    let mut dead_in_main = in_lane(&main.name);
    dead_in_main.state = Some(EventState::Dead);
    ensure_eq!(bench.find(&dead_in_main).await?.len(), 2, "events that are dead there");
    bench.pass(HOUR * 2);
    let applied = bench.apply(&Filter::default(), command(true)).await?;
    ensure_eq!((applied.matched, applied.changed), (2, 0), "what a dry prune counts");
    let applied = bench.apply(&Filter::default(), command(false)).await?;
    ensure_eq!((applied.matched, applied.changed), (2, 2), "events that went");
    ensure!(all(&bench).await?.is_empty(), "something stayed");
    for lane in [&main, &other] {
        let stats = bench.stats(&lane.name).await?;
        ensure!(stats.adds_up(), "the totals do not add up: {stats:?}");
        ensure_eq!((stats.dead, stats.discarded), (0, 2), "dead and discarded in {:?}", lane.name);
    }
    Ok(())
}

/// Prunes what was delivered and what is dead: the lane's totals still know of it.
pub async fn what_is_pruned_still_counts_as_accepted(bench: StoreBench) -> LawResult {
    bench.publish(&["dead", "delivered"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let delivered = settled(&claimed[1], posthaste_core::store::Outcome::Delivered);
    driver.settle(vec![settled(&claimed[0], dead()), delivered]).await?;
    bench.pass(HOUR * 2);
    bench.apply(&Filter::default(), prune(Some(HOUR), Some(HOUR))).await?;
    ensure!(all(&bench).await?.is_empty(), "something stayed");
    ensure_eq!(bench.stats(&main.name).await?.accepted, 2, "accepted");
    Ok(())
}

/// Prunes a log that nobody reads yet: everything stays, because a lane may begin at its beginning.
pub async fn prune_without_lanes_keeps_everything(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    bench.pass(HOUR * 2);
    let applied = bench.apply(&Filter::default(), prune(Some(HOUR), Some(HOUR))).await?;
    ensure_eq!(applied.changed, 0, "events that went");
    ensure_eq!(bench.drive(&lane("main")).await?.drain().await?, ["a", "b"], "what is claimed later");
    Ok(())
}

/// Prunes everything and publishes again, also after the store was opened anew: numbers of pruned events do not come
/// back, so nothing new is taken for something old.
pub async fn what_is_published_after_a_prune_is_claimed(bench: StoreBench) -> LawResult {
    let main = lane("main");
    bench.publish(&["a", "b"]).await?;
    bench.drive(&main).await?.drain().await?;
    bench.pass(HOUR * 2);
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure!(all(&bench).await?.is_empty(), "something stayed");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.oldest_unread_at), (0, None), "unread and its oldest in an empty log");
    let reopened = bench.again().await?;
    reopened.publish(&["c"]).await?;
    let driver = reopened.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["c"], "what is claimed after the prune");
    Ok(())
}

/// Goes back to the beginning of a log whose first events were pruned: what is there comes again, and nothing else.
pub async fn a_seek_after_a_prune_finds_what_is_left(bench: StoreBench) -> LawResult {
    let main = lane("main");
    bench.publish(&["a", "b"]).await?;
    bench.drive(&main).await?.drain().await?;
    bench.pass(HOUR * 2);
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    let reopened = bench.again().await?;
    reopened.publish(&["c"]).await?;
    reopened.drive(&main).await?.drain().await?;
    let mut seeking = in_lane(&main.name);
    seeking.ids.clear();
    let seek = Command::Seek { to: posthaste_core::admin::Seek::Beginning, dry_run: false };
    reopened.apply(&seeking, seek).await?;
    ensure_eq!(reopened.drive(&main).await?.drain().await?, ["c"], "what is claimed from the beginning");
    Ok(())
}

/// A lane has delivered one old event, parked another and not read two more: those two count as discarded, the parked one
/// and what is young are delivered. A second time there is nothing to skip, and nothing comes back.
pub async fn what_a_lane_is_moved_past_counts_as_discarded(bench: StoreBench) -> LawResult {
    bench.publish(&["delivered", "parked"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], Outcome::Delivered), settled(&claimed[1], retry(HOUR))]).await?;
    bench.publish(&["old-1", "old-2"]).await?;
    bench.pass(HOUR * 2);
    bench.publish(&["young"]).await?;
    let skip = |dry_run| Command::Skip { age: HOUR, reason: "nobody came".to_owned(), dry_run };
    let applied = bench.apply(&in_lane(&main.name), skip(true)).await?;
    ensure_eq!((applied.matched, applied.changed), (2, 0), "what a dry skip counts");
    let applied = bench.apply(&in_lane(&main.name), skip(false)).await?;
    ensure_eq!((applied.matched, applied.changed), (2, 2), "what is skipped");
    ensure_eq!(
        driver.settle_then(Vec::new(), Then::Hold).await?,
        Standing::Lost,
        "the lease that was out when the lane was moved"
    );
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.discarded, stats.waiting), (4, 2, 1), "accepted, discarded, waiting");
    ensure_eq!(stats.reason.as_deref(), Some("nobody came"), "the lane's reason");
    bench.apply(&Filter::default(), prune(Some(HOUR), None)).await?;
    ensure_eq!(all(&bench).await?, ["parked", "young"], "what retention leaves");
    let driver = bench.drive(&main).await?;
    let mut rest = driver.drain().await?;
    driver.give_up().await?;
    rest.sort();
    ensure_eq!(rest, ["parked", "young"], "what is delivered");
    let applied = bench.apply(&in_lane(&main.name), skip(false)).await?;
    ensure_eq!(applied.matched, 0, "skipped a second time");
    ensure_eq!(bench.drive(&main).await?.drain().await?, Vec::<String>::new(), "what comes after that");
    Ok(())
}
