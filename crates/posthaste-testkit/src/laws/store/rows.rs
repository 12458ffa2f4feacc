//! What holds where not a lane but each row is leased: relays share the rows, and nobody owns more than it has claimed.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_core::admin::{Command, EventState, Filter};
use posthaste_core::store::{Outcome, Room, Standing, Then};

use super::cancelling::{POLLS_MAX, drop_at_poll, drop_settle_at_poll};
use crate::drive::{StoreBench, dead, ids, lane, one, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);
/// More often than any store of these laws lets a lease end without an answer.
const LEASES_MAX: u32 = 40;

/// What one relay has claimed no other sees, until its lease ends; then it comes again, as its next attempt.
pub async fn a_claimed_row_is_hidden_until_its_lease_ends_which_counts(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let first = bench.drive(&main).await?;
    ensure_eq!(ids(&first.claim_all().await?), ["a", "b"], "what the first relay claims");
    let other = bench.again().await?;
    let second = other.drive(&main).await?;
    ensure!(second.claim_all().await?.is_empty(), "a claimed row was claimed again");
    bench.pass(main.lease - SECOND);
    ensure!(other.drive(&main).await?.claim_all().await?.is_empty(), "claimed again before its lease ended");
    bench.pass(SECOND * 2);
    let claimed = other.drive(&main).await?.claim_all().await?;
    ensure_eq!(ids(&claimed), ["a", "b"], "what comes when the lease has ended");
    ensure!(claimed.iter().all(|claimed| claimed.parcel.attempt == 2), "a lease that ended was not counted");
    Ok(())
}

/// A relay sleeps past its lease while another delivers its rows: whatever it says then, nothing changes.
pub async fn a_stale_claim_settles_nothing_and_says_so(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    let first = bench.drive(&main).await?;
    let claimed = first.claim_all().await?;
    bench.pass(main.lease + SECOND);
    let other = bench.again().await?;
    let second = other.drive(&main).await?;
    let again = second.claim_all().await?;
    let outcomes = vec![
        settled(&claimed[0], Outcome::Delivered),
        settled(&claimed[1], retry(SECOND)),
        settled(&claimed[2], dead()),
    ];
    ensure_eq!(first.settle_then(outcomes, Then::Hold).await?, Standing::Lost, "a stale settle");
    for id in ["a", "b", "c"] {
        ensure_eq!(bench.state(&main.name, id).await?, EventState::Delivering, "the state of {id}");
    }
    second.deliver(&again).await?;
    ensure_eq!(bench.stats(&main.name).await?.delivered, 3, "delivered in the end");
    Ok(())
}

/// Renews with empty settles: nobody else gets the rows, however long it takes.
pub async fn renewing_keeps_what_was_claimed(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let other = bench.again().await?;
    for _ in 0..3 {
        bench.pass(main.lease - SECOND);
        driver.renew().await?;
        ensure!(other.drive(&main).await?.claim_all().await?.is_empty(), "a renewed row was claimed again");
    }
    driver.deliver(&claimed).await
}

/// Relays end again and again with the same row in hand: it is dead in the end, and nobody is harmed by it any more.
pub async fn a_row_whose_lease_ends_too_often_is_dead(bench: StoreBench) -> LawResult {
    bench.publish(&["poison"]).await?;
    let main = lane("main");
    for _ in 0..LEASES_MAX {
        let driver = bench.drive(&main).await?;
        if driver.claim_all().await?.is_empty() {
            let view = bench.view(&main.name, "poison").await?;
            ensure_eq!(view.state, EventState::Dead, "its state");
            ensure!(view.last_error.is_some(), "it does not say why");
            return Ok(());
        }
        bench.pass(main.lease + SECOND);
    }
    Err(crate::law::Verdict::broken(format_args!("not dead after {LEASES_MAX} leases that ended")))
}

/// Puts a row off that has failed before: it waits, and what is known of its failure stays as it is.
pub async fn a_row_that_is_put_off_waits_and_counts_no_attempt(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND)).await?;
    let failed = bench.view(&main.name, "a").await?;
    ensure_eq!((failed.state, failed.attempts), (EventState::Retrying, 1), "after a failure");
    ensure!(failed.last_error.is_some(), "it does not say why it failed");
    bench.pass(SECOND);
    for _ in 0..2 {
        let claimed = driver.claim_all().await?;
        ensure_eq!(one(&claimed, "a")?.parcel.attempt, 2, "its attempt");
        driver.settle_as(&claimed, Outcome::Later { after: SECOND * 5, error: None }).await?;
        let view = bench.view(&main.name, "a").await?;
        ensure_eq!((view.attempts, &view.last_error), (1, &failed.last_error), "its failure");
        bench.pass(SECOND * 4);
        driver.renew().await?;
        ensure!(driver.claim_all().await?.is_empty(), "claimed before it was due");
        bench.pass(SECOND);
    }
    Ok(())
}

/// Delivered and dead rows stay so, whatever time passes and whoever acquires.
pub async fn terminal_rows_never_move_by_themselves(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], Outcome::Delivered), settled(&claimed[1], dead())]).await?;
    for _ in 0..2 {
        bench.pass(Duration::from_secs(30 * 86_400));
        ensure!(bench.drive(&main).await?.claim_all().await?.is_empty(), "a terminal row was claimed");
    }
    ensure_eq!(bench.state(&main.name, "a").await?, EventState::Delivered, "the state of a");
    ensure_eq!(bench.state(&main.name, "b").await?, EventState::Dead, "the state of b");
    Ok(())
}

/// Two relays claim in turns: never more than asked, never the same row, and together everything.
pub async fn relays_claim_apart_and_together_everything(bench: StoreBench) -> LawResult {
    let all: Vec<String> = (0..20).map(|n| format!("e{n:02}")).collect();
    bench.publish(&all.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let main = lane("main");
    let other = bench.again().await?;
    let relays = [bench.drive(&main).await?, other.drive(&main).await?];
    let mut seen = BTreeSet::new();
    for turn in 0..20_u32 {
        let room = turn % 3 + 1;
        let claimed = relays[turn as usize % 2].claim(room).await?;
        ensure!(claimed.len() <= room as usize, "{} rows for a room of {room}", claimed.len());
        for id in ids(&claimed) {
            ensure!(seen.insert(id.clone()), "{id} was claimed twice");
        }
    }
    ensure_eq!(seen.into_iter().collect::<Vec<_>>(), all, "all claims together");
    Ok(())
}

/// A key's head is in the hands of one relay: the other gets nothing of that key, and everything of others.
pub async fn the_order_of_a_key_holds_between_relays(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k"), ("l1", "l"), ("k3", "k")]).await?;
    let main = lane("main");
    let other = bench.again().await?;
    let (first, second) = (bench.drive(&main).await?, other.drive(&main).await?);
    let head = first.claim(1).await?;
    ensure_eq!(ids(&head), ["k1"], "what the first relay claims");
    let theirs = second.claim_all().await?;
    ensure_eq!(ids(&theirs), ["l1"], "what the second relay claims meanwhile");
    first.settle_as(&head, retry(SECOND)).await?;
    ensure!(second.claim_all().await?.is_empty(), "a row overtook the failed head of its key");
    bench.pass(SECOND);
    let head = second.claim(1).await?;
    ensure_eq!(ids(&head), ["k1"], "what is due");
    ensure!(first.claim_all().await?.is_empty(), "a row overtook the head of its key");
    second.deliver(&head).await?;
    ensure_eq!(first.drain().await?, ["k2", "k3"], "the rest of the key");
    Ok(())
}

/// A clean end: what was not sent comes back as if never claimed, what was sent and not answered as its next attempt.
pub async fn a_clean_end_leaves_nothing_claimed(bench: StoreBench) -> LawResult {
    bench.publish(&["done", "unsent", "unanswered"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let outcomes = vec![
        settled(one(&claimed, "done")?, Outcome::Delivered),
        settled(one(&claimed, "unsent")?, Outcome::Released),
    ];
    let standing = driver.settle_then(outcomes, Then::GiveUp).await?;
    ensure_eq!(standing, Standing::Held, "giving up");
    let other = bench.again().await?;
    let claimed = other.drive(&main).await?.claim_all().await?;
    ensure_eq!(one(&claimed, "unsent")?.parcel.attempt, 1, "the attempt of what was not sent");
    ensure_eq!(one(&claimed, "unanswered")?.parcel.attempt, 2, "the attempt of what was not answered");
    ensure_eq!(claimed.len(), 2, "what comes back");
    Ok(())
}

/// Drops a claim at each of its polls and ends cleanly: the server may have carried it out, and nothing stays claimed.
pub async fn what_a_dropped_claim_took_is_handed_back_by_a_clean_end(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    let other = bench.again().await?;
    for polls in 0..POLLS_MAX {
        let driver = bench.drive(&main).await?;
        drop_at_poll(polls, bench.store.claim(&driver.lease, Room { events: 3, bytes: 1 << 20 })).await;
        // What came back before the drop was sent to nobody: it counts as an attempt, and no more than that.
        driver.give_up().await?;
        let second = other.drive(&main).await?;
        let claimed = second.claim_all().await?;
        ensure_eq!(ids(&claimed), ["a", "b", "c"], "what is free after a drop at poll {polls}");
        second.settle_as(&claimed, Outcome::Released).await?;
        second.give_up().await?;
    }
    Ok(())
}

/// Drops a settle at each of its polls: afterwards either all of its outcomes are recorded or none, and what is not recorded
/// comes again when its lease has ended.
pub async fn a_dropped_settle_of_rows_leaves_nothing_half_done(bench: StoreBench) -> LawResult {
    let main = lane("main");
    for polls in 0..POLLS_MAX {
        let names = ["a", "b", "c", "d"].map(|name| format!("{name}-{polls:02}"));
        bench.publish(&names.each_ref().map(String::as_str)).await?;
        let driver = bench.drive(&main).await?;
        let claimed = driver.claim_all().await?;
        ensure_eq!(ids(&claimed), names, "what is claimed");
        drop_settle_at_poll(polls, &bench, &driver, &claimed).await;
        // A second settle waits for what the dropped one has locked on a server that has not noticed yet.
        driver.settle_then(Vec::new(), Then::Hold).await?;
        drop(driver);
        // A settle that the server still carries out comes before the end of the lease is seen.
        bench.pass(main.lease + SECOND);
        let driver = bench.drive(&main).await?;
        let delivered = bench.state(&main.name, &names[0]).await? == EventState::Delivered;
        let is_dead = bench.state(&main.name, &names[2]).await? == EventState::Dead;
        ensure_eq!(delivered, is_dead, "half done at poll {polls}");
        let mut seen = driver.drain().await?;
        seen.sort();
        let expected: &[String] = if delivered { &[names[1].clone(), names[3].clone()] } else { &names };
        ensure_eq!(seen, expected, "what comes after a drop at poll {polls}");
        driver.give_up().await?;
    }
    Ok(())
}

/// An operator redrives a dead row and replays a delivered one: each comes again once, on its first attempt.
pub async fn a_row_that_is_sent_again_by_an_operator_has_a_fresh_budget(bench: StoreBench) -> LawResult {
    bench.publish(&["dead", "delivered", "other"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND)).await?;
    bench.pass(SECOND);
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(one(&claimed, "dead")?, dead()),
            settled(one(&claimed, "delivered")?, Outcome::Delivered),
            settled(one(&claimed, "other")?, Outcome::Delivered),
        ])
        .await?;
    let mut filter = Filter::default();
    filter.lane = Some(main.name.clone());
    let redriven = bench.apply(&filter, Command::Redrive { dry_run: false }).await?;
    filter.ids = vec!["delivered".to_owned()];
    let replayed = bench.apply(&filter, Command::Replay { dry_run: false }).await?;
    ensure_eq!((redriven.changed, replayed.changed), (1, 1), "what was sent again");
    let claimed = driver.claim_all().await?;
    let mut seen = ids(&claimed);
    seen.sort();
    ensure_eq!(seen, ["dead", "delivered"], "what comes again");
    ensure!(claimed.iter().all(|claimed| claimed.parcel.attempt == 1), "the budget is not fresh");
    driver.deliver(&claimed).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.delivered, stats.dead, stats.waiting), (3, 0, 0), "delivered, dead, waiting");
    ensure!(driver.claim_all().await?.is_empty(), "a row came again that was sent again once");
    Ok(())
}
