//! Dead events: never lost, never in the way unless they are meant to be.

use std::time::Duration;

use posthaste_core::admin::{Command, EventState};
use posthaste_core::lane::OnDead;
use posthaste_core::store::Outcome;
use posthaste_core::time::Moment;

use crate::drive::{StoreBench, dead, ids, in_lane, lane, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Kills the head of a key: it is found with its reason and never claimed, also by later leases; its key goes on.
pub async fn a_dead_event_is_never_claimed_but_found_and_its_key_goes_on(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], dead()), settled(&claimed[1], Outcome::Behind)]).await?;
    bench.publish_keyed(&[("k3", "k")]).await?;
    ensure_eq!(driver.drain().await?, ["k2", "k3"], "what goes on");
    let mut filter = in_lane(&main.name);
    filter.state = Some(EventState::Dead);
    let found = bench.find(&filter).await?;
    ensure_eq!(found.len(), 1, "dead events found");
    let view = &found[0].lanes[0];
    ensure_eq!(found[0].envelope.id, "k1", "the dead event");
    ensure_eq!((view.attempts, view.code.as_deref()), (1, Some("test failure")), "its attempts and code");
    ensure_eq!(view.dead_at, Some(bench.rig.now()), "when it died");
    drop(driver);
    bench.pass(SECOND * 1_000_000);
    ensure!(bench.drive(&main).await?.drain().await?.is_empty(), "a dead event was claimed");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.accepted, stats.delivered, stats.dead), (3, 2, 1), "accepted, delivered, dead");
    Ok(())
}

/// Kills the head of a key in a lane that blocks: later events of the key wait, old and new, others do not; redriving it
/// lets them go.
pub async fn a_dead_event_that_blocks_holds_its_key_until_it_is_redriven(bench: StoreBench) -> LawResult {
    let main = block_a_key(&bench).await?;
    let mut filter = in_lane(&main.name);
    filter.ids = vec!["k1".to_owned()];
    ensure_eq!(bench.apply(&filter, Command::Redrive { dry_run: false }).await?.changed, 1, "redriven");
    let mut seen = bench.drive(&main).await?.drain().await?;
    seen.sort();
    ensure_eq!(seen, ["k1", "k2", "k3"], "what comes after the redrive");
    Ok(())
}

/// The same, but the dead event is discarded: the others go on without it, in order.
pub async fn a_dead_event_that_blocks_holds_its_key_until_it_is_discarded(bench: StoreBench) -> LawResult {
    let main = block_a_key(&bench).await?;
    let mut filter = in_lane(&main.name);
    filter.ids = vec!["k1".to_owned()];
    let discard = Command::Discard { reason: "known".to_owned(), dry_run: false };
    ensure_eq!(bench.apply(&filter, discard).await?.changed, 1, "discarded");
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["k2", "k3"], "what comes after the discard");
    Ok(())
}

/// A lane that blocks, with `k1` dead and `k2` and `k3` behind it, and free to be taken.
async fn block_a_key(bench: &StoreBench) -> Result<posthaste_core::lane::LaneSpec, crate::law::Verdict> {
    bench.publish_keyed(&[("k1", "k"), ("k2", "k")]).await?;
    let mut main = lane("main");
    main.on_dead = OnDead::Block;
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], dead()), settled(&claimed[1], Outcome::Behind)]).await?;
    bench.publish_keyed(&[("k3", "k"), ("other", "o")]).await?;
    ensure_eq!(driver.drain().await?, ["other"], "what goes on beside a blocked key");
    drop(driver);
    bench.pass(main.lease + SECOND);
    let driver = bench.drive(&main).await?;
    ensure!(driver.drain().await?.is_empty(), "a blocked key went on after a crash");
    ensure_eq!(bench.state(&main.name, "k3").await?, EventState::Behind, "the state of k3");
    driver.give_up().await?;
    Ok(main)
}

/// Redrives a dead event: it is due at once, marked as replay, counted from its first attempt again.
pub async fn redrive_hands_a_dead_event_out_again_with_a_fresh_budget(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, retry(SECOND)).await?;
    bench.pass(SECOND);
    driver.settle_as(&driver.claim_all().await?, dead()).await?;
    let applied = bench.apply(&in_lane(&main.name), Command::Redrive { dry_run: false }).await?;
    ensure_eq!((applied.matched, applied.changed), (2, 2), "matched and changed");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.dead, stats.waiting), (0, 2), "dead and waiting after the redrive");
    let claimed = driver.claim_all().await?;
    ensure_eq!(ids(&claimed), ["a", "b"], "what is claimed");
    ensure!(claimed.iter().all(|claimed| claimed.parcel.replay), "a redriven event is not marked");
    ensure!(claimed.iter().all(|claimed| claimed.parcel.attempt == 1), "the budget is not fresh");
    driver.settle(vec![settled(&claimed[0], Outcome::Delivered), settled(&claimed[1], dead())]).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.delivered, stats.dead, stats.waiting), (1, 1, 0), "delivered, dead, waiting");
    ensure_eq!(stats.replayed, 1, "replayed");
    Ok(())
}

/// Discards a dead, a retrying and a behind event: all are found as discarded with the reason, and none is claimed.
pub async fn discard_gives_up_dead_and_waiting_events_with_a_record(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("dead", "d"), ("retrying", "k"), ("behind", "k"), ("fine", "f")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], dead()),
            settled(&claimed[1], retry(SECOND)),
            settled(&claimed[2], Outcome::Behind),
            settled(&claimed[3], Outcome::Delivered),
        ])
        .await?;
    let discard = Command::Discard { reason: "an accident".to_owned(), dry_run: false };
    let applied = bench.apply(&in_lane(&main.name), discard).await?;
    ensure_eq!((applied.matched, applied.changed), (3, 3), "matched and changed");
    bench.pass(SECOND);
    ensure!(driver.drain().await?.is_empty(), "a discarded event was claimed");
    for id in ["dead", "retrying", "behind"] {
        let view = bench.view(&main.name, id).await?;
        ensure_eq!(view.state, EventState::Discarded, "the state of {id}");
        ensure!(
            view.last_error.as_deref().is_some_and(|text| text.contains("an accident")),
            "no reason at {id}"
        );
    }
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.discarded, stats.dead, stats.waiting), (3, 0, 0), "discarded, dead, waiting");
    Ok(())
}

/// Discards a retry while it is out: its late answer neither revives nor counts it.
pub async fn an_answer_for_a_discarded_event_changes_nothing(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND)).await?;
    bench.pass(SECOND);
    let claimed = driver.claim_all().await?;
    ensure_eq!(claimed.len(), 2, "due events");
    bench.apply(&in_lane(&main.name), Command::Discard { reason: "x".to_owned(), dry_run: false }).await?;
    driver
        .settle(vec![settled(&claimed[0], Outcome::Delivered), settled(&claimed[1], retry(SECOND))])
        .await?;
    bench.pass(SECOND);
    ensure!(driver.drain().await?.is_empty(), "a discarded event was claimed");
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.discarded, stats.delivered, stats.waiting), (2, 0, 0), "discarded, delivered, waiting");
    Ok(())
}

/// Buries a retry, one that waits behind it, and one that is out: all are dead with the reason, a late answer changes nothing, and
/// a redrive brings them back.
pub async fn what_an_operator_buries_is_dead_until_it_is_redriven(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("retrying", "k"), ("behind", "k"), ("out", "o")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let failed = [retry(SECOND), Outcome::Behind, retry(Duration::ZERO)];
    let outcomes = claimed.iter().zip(failed).map(|(claimed, outcome)| settled(claimed, outcome));
    driver.settle(outcomes.collect()).await?;
    let out = driver.claim_all().await?;
    ensure_eq!(ids(&out), ["out"], "what is due");
    let bury = Command::Bury { reason: "an accident".to_owned(), dry_run: false };
    let applied = bench.apply(&in_lane(&main.name), bury).await?;
    ensure_eq!((applied.matched, applied.changed), (3, 3), "matched and changed");
    driver.deliver(&out).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.dead, stats.waiting, stats.delivered), (3, 0, 0), "dead, waiting, delivered");
    for id in ["retrying", "behind", "out"] {
        let view = bench.view(&main.name, id).await?;
        ensure_eq!(
            (view.state, view.code.as_deref()),
            (EventState::Dead, Some("buried")),
            "the state of {id}"
        );
        ensure_eq!(view.last_error.as_deref(), Some("an accident"), "why {id} is dead");
    }
    bench.apply(&in_lane(&main.name), Command::Redrive { dry_run: false }).await?;
    let mut came = driver.drain().await?;
    came.sort();
    ensure_eq!(came, ["behind", "out", "retrying"], "what a redrive brings back");
    Ok(())
}

/// Puts one of two retries forward and the other one back.
pub async fn an_operator_sets_when_an_event_is_due(bench: StoreBench) -> LawResult {
    bench.publish(&["early", "late"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.settle_as(&driver.claim_all().await?, retry(SECOND * 3)).await?;
    for (id, at) in [("early", Moment::In(Duration::ZERO)), ("late", Moment::In(SECOND * 6))] {
        let mut one = in_lane(&main.name);
        one.ids = vec![id.to_owned()];
        let applied = bench.apply(&one, Command::Schedule { at, dry_run: false }).await?;
        ensure_eq!((applied.matched, applied.changed), (1, 1), "matched and changed");
    }
    ensure_eq!(driver.drain().await?, ["early"], "what is due at once");
    bench.pass(SECOND * 4);
    ensure!(driver.drain().await?.is_empty(), "what was put back came at its old time");
    bench.pass(SECOND * 3);
    ensure_eq!(driver.drain().await?, ["late"], "what is due later");
    Ok(())
}
