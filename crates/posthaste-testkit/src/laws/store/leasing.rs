//! Who drives a lane, and what a crash gives back.

use std::time::Duration;

use posthaste_core::store::{Outcome, Owner, Standing, Then};

use crate::drive::{StoreBench, dead, event, ids, lane, one, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Two relays, one paused past its lease: the second takes the lane, the first one's settle records nothing.
pub async fn a_stale_epoch_settles_nothing_and_says_so(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    let first = bench.drive(&main).await?;
    let claimed = first.claim_all().await?;
    bench.pass(main.lease + SECOND);
    let other = bench.again().await?;
    let second = other.drive(&main).await?;
    ensure!(second.lease.epoch() > first.lease.epoch(), "the second epoch is not higher");
    let outcomes = vec![
        settled(&claimed[0], Outcome::Delivered),
        settled(&claimed[1], retry(SECOND)),
        settled(&claimed[2], dead()),
    ];
    for then in [Then::Hold, Then::GiveUp, Then::Report(Some("x".into())), Then::Retire("x".into())] {
        let standing = first.settle_then(outcomes.clone(), then.clone()).await?;
        ensure_eq!(standing, Standing::Lost, "a stale settle with {then:?}");
    }
    let stats = bench.stats(&main.name).await?;
    ensure_eq!(stats.accepted, 0, "accepted after stale settles");
    ensure_eq!(stats.reason, None, "the lane's reason after a stale report");
    ensure_eq!(second.drain().await?, ["a", "b", "c"], "what the second relay delivers");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 3, "delivered in the end");
    Ok(())
}

/// Settles the first two of four and crashes: the next lease claims the last two, on their first attempt.
pub async fn a_crash_gives_back_exactly_what_was_not_settled(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c", "d"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.deliver(&claimed[..2]).await?;
    drop(driver);
    bench.pass(main.lease + SECOND);
    let reopened = bench.again().await?;
    let driver = reopened.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["c", "d"], "what comes back");
    ensure!(claimed.iter().all(|claimed| claimed.parcel.attempt == 1), "a crash was counted as an attempt");
    Ok(())
}

/// Settles out of order: totals count what the place has passed, and a crash gives back from the first gap on.
pub async fn answers_in_any_order_move_the_place_over_the_contiguous_prefix(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c", "d", "e"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    for (answered, passed) in [("c", 0), ("a", 1), ("e", 1), ("b", 3)] {
        driver.deliver(std::slice::from_ref(one(&claimed, answered)?)).await?;
        let stats = bench.stats(&main.name).await?;
        ensure_eq!(stats.delivered, passed, "delivered after the answer of {answered}");
        ensure_eq!(stats.unread, 5 - passed, "unread after the answer of {answered}");
    }
    drop(driver);
    bench.pass(main.lease + SECOND);
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["d", "e"], "what a crash gives back");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 5, "delivered in the end");
    Ok(())
}

/// Settles with `GiveUp`: somebody else has the lane at once, and the old lease is lost.
pub async fn giving_up_frees_the_lane_at_once(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let first = bench.drive(&main).await?;
    let claimed = first.claim_all().await?;
    let standing = first.settle_then(vec![settled(&claimed[0], Outcome::Delivered)], Then::GiveUp).await?;
    ensure!(standing != Standing::Lost, "giving up says {standing:?}");
    let other = bench.again().await?;
    ensure_eq!(other.drive(&main).await?.drain().await?, ["b"], "what the next relay delivers");
    let late = first.settle_then(vec![settled(&claimed[1], Outcome::Delivered)], Then::Hold).await?;
    ensure_eq!(late, Standing::Lost, "a settle after giving up");
    Ok(())
}

/// Tries to take a held lane: not before its lease ends, then yes.
pub async fn nobody_takes_a_held_lane_before_its_lease_ends_and_then_somebody_does(
    bench: StoreBench,
) -> LawResult {
    let main = lane("main");
    let _held = bench.drive(&main).await?;
    let other = bench.again().await?;
    ensure!(!other.can_drive(&main).await?, "a held lane was taken at once");
    bench.pass(main.lease - SECOND);
    ensure!(!other.can_drive(&main).await?, "a held lane was taken before its lease ended");
    ensure!(other.can_drive(&lane("free")).await?, "another lane is not free");
    bench.pass(SECOND * 2);
    ensure!(other.can_drive(&main).await?, "nobody can take a lane whose lease has ended");
    Ok(())
}

/// Renews with empty settles and with full ones: the lease goes on from each.
pub async fn settling_renews_the_lease(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    bench.pass(main.lease - SECOND);
    driver.renew().await?;
    bench.pass(main.lease - SECOND);
    ensure!(!bench.can_drive(&main).await?, "an empty settle did not renew");
    driver.deliver(&claimed).await?;
    bench.pass(main.lease - SECOND);
    ensure!(!bench.can_drive(&main).await?, "a settle did not renew");
    bench.pass(SECOND * 2);
    ensure!(bench.can_drive(&main).await?, "the renewed lease never ends");
    Ok(())
}

/// The same run of a relay acquires again: it gets the lane with a new epoch, and its earlier lease is lost.
pub async fn an_owner_that_comes_back_takes_its_lane_and_ends_its_earlier_lease(
    bench: StoreBench,
) -> LawResult {
    bench.publish(&["a"]).await?;
    let (main, owner) = (lane("main"), Owner::new("relay"));
    let first = bench.drive_as(&main, &owner).await?;
    let claimed = first.claim_all().await?;
    let second = bench.drive_as(&main, &owner).await?;
    ensure!(second.lease.epoch() > first.lease.epoch(), "the second epoch is not higher");
    let late = first.settle_then(vec![settled(&claimed[0], Outcome::Delivered)], Then::Hold).await?;
    ensure_eq!(late, Standing::Lost, "a settle of the earlier lease");
    ensure_eq!(second.drain().await?, ["a"], "what the second lease delivers");
    let namesake = Owner::new("relay");
    ensure!(
        bench.store.acquire(&main, &namesake).await?.is_none(),
        "another run of the same name took the lane"
    );
    Ok(())
}

/// Two relays try both of two lanes in turns, one giving up now and then: every event comes once per lane.
pub async fn two_relays_share_lanes_and_no_event_comes_twice(bench: StoreBench) -> LawResult {
    let expected: Vec<String> = (0..40).map(|n| format!("e{n:02}")).collect();
    let second = bench.again().await?;
    let lanes = [lane("one"), lane("two")];
    let mut seen = [Vec::new(), Vec::new()];
    for (turn, chunk) in expected.chunks(4).enumerate() {
        bench.publish_all(chunk.iter().map(|id| event(id)).collect()).await?;
        for (n, spec) in lanes.iter().enumerate() {
            let (mine, other) = if (turn + n) % 2 == 0 { (&bench, &second) } else { (&second, &bench) };
            let driver = mine.drive(spec).await?;
            ensure!(!other.can_drive(spec).await?, "both relays drive lane {}", spec.name);
            seen[n].extend(driver.drain().await?);
            driver.give_up().await?;
        }
    }
    ensure_eq!(seen, [expected.clone(), expected], "what came down the two lanes");
    Ok(())
}

/// Crashes again and again without progress: stumbles grow. Progress or a clean end resets them.
pub async fn stumbles_count_acquisitions_without_progress(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let fresh = bench.drive(&main).await?.lease.stumbles();
    for crash in 1..=3 {
        bench.pass(main.lease + SECOND);
        let driver = bench.drive(&main).await?;
        driver.claim(1).await?;
        ensure_eq!(driver.lease.stumbles(), fresh + crash, "stumbles after {crash} crashes");
    }
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim(1).await?;
    driver.deliver(&claimed).await?;
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.lease.stumbles(), fresh, "stumbles after progress");
    driver.give_up().await?;
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.lease.stumbles(), fresh, "stumbles after a clean end");
    Ok(())
}

/// Crashes again and again with nothing to deliver, and then with a target that takes nothing: no event is to blame.
pub async fn crashes_of_an_idle_or_waiting_lane_are_no_stumbles(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let fresh = bench.drive(&main).await?.lease.stumbles();
    for _ in 0..3 {
        bench.pass(main.lease + SECOND);
        ensure_eq!(bench.drive(&main).await?.lease.stumbles(), fresh, "stumbles of an idle lane");
    }
    bench.publish(&["parked"]).await?;
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(1_000 * main.lease)).await?;
    for _ in 0..3 {
        bench.pass(main.lease + SECOND);
        ensure_eq!(bench.drive(&main).await?.lease.stumbles(), fresh, "stumbles while nothing is due");
    }
    bench.publish(&["a"]).await?;
    bench.pass(main.lease + SECOND);
    for _ in 0..3 {
        let driver = bench.drive(&main).await?;
        driver.claim(1).await?;
        driver.settle_then(Vec::new(), Then::Report(Some("away".to_owned()))).await?;
        bench.pass(main.lease + SECOND);
    }
    ensure_eq!(bench.drive(&main).await?.lease.stumbles(), fresh, "stumbles while the target is away");
    Ok(())
}

/// Hands events back unsent, new and retried ones, and gives up: the next lease claims them with the same attempt.
pub async fn released_events_are_handed_out_again_as_if_never_claimed(bench: StoreBench) -> LawResult {
    bench.publish(&["parked"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND)).await?;
    bench.publish(&["new"]).await?;
    bench.pass(SECOND);
    let before = driver.claim_all().await?;
    let outcomes = before.iter().map(|claimed| settled(claimed, Outcome::Released)).collect();
    driver.settle_then(outcomes, Then::GiveUp).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.waiting, stats.unread), (1, 1, 1), "accepted, waiting, unread");
    let after = bench.drive(&main).await?.claim_all().await?;
    ensure_eq!(ids(&after), ids(&before), "what is handed out again");
    let attempts = |claimed: &[posthaste_core::store::Claimed]| -> Vec<u32> {
        claimed.iter().map(|claimed| claimed.parcel.attempt).collect()
    };
    ensure_eq!(attempts(&after), attempts(&before), "their attempts");
    Ok(())
}

/// One relay holds three lanes, another asks for them: it is promised one, hears of it at once, and gets no more than that.
pub async fn a_relay_with_two_lanes_more_hands_one_over(bench: StoreBench) -> LawResult {
    let (rich, poor) = (Owner::new("rich"), Owner::new("poor"));
    let lanes = ["one", "two", "three"].map(lane);
    let mut held = Vec::new();
    for spec in &lanes {
        held.push(bench.drive_as(spec, &rich).await?);
    }
    let other = bench.again().await?;
    let asks = async |spec, owner: &Owner| other.store.acquire(spec, owner).await;
    ensure!(asks(&lanes[0], &poor.passing()).await?.is_none(), "a held lane was taken");
    ensure_eq!(held[0].settle_then(Vec::new(), Then::Hold).await?, Standing::Held, "asked for in passing");
    for spec in &lanes {
        ensure!(asks(spec, &poor).await?.is_none(), "a held lane was taken");
    }
    let mut standings = Vec::new();
    for driver in &held {
        standings.push(driver.settle_then(Vec::new(), Then::Hold).await?);
    }
    ensure_eq!(standings, [Standing::Wanted, Standing::Held, Standing::Held], "after all were asked for");
    held.remove(0).give_up().await?;
    ensure!(asks(&lanes[0], &rich).await?.is_none(), "what was promised was taken back");
    ensure!(asks(&lanes[0], &Owner::new("third")).await?.is_none(), "what was promised went to a third");
    let got = asks(&lanes[0], &poor).await?;
    ensure!(got.is_some(), "what was promised cannot be had");
    for spec in &lanes[1..] {
        ensure!(asks(spec, &poor).await?.is_none(), "a held lane was taken");
    }
    held[0].renew().await?;
    held[1].renew().await
}

/// What was promised to a relay that never comes for it is free again after the length of a lease.
pub async fn a_promise_ends_with_the_length_of_a_lease(bench: StoreBench) -> LawResult {
    let (rich, poor) = (Owner::new("rich"), Owner::new("poor"));
    let lanes = ["one", "two"].map(lane);
    let first = bench.drive_as(&lanes[0], &rich).await?;
    let _second = bench.drive_as(&lanes[1], &rich).await?;
    ensure!(bench.store.acquire(&lanes[0], &poor).await?.is_none(), "a held lane was taken");
    ensure_eq!(first.settle_then(Vec::new(), Then::Hold).await?, Standing::Wanted, "after it was asked for");
    first.give_up().await?;
    ensure!(bench.store.acquire(&lanes[0], &rich).await?.is_none(), "what was promised was taken back");
    bench.pass(lanes[0].lease);
    ensure!(bench.store.acquire(&lanes[0], &rich).await?.is_some(), "the promise does not end");
    Ok(())
}
