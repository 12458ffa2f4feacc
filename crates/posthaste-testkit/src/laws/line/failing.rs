//! Failures: of one event, of the target, of the adapter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use posthaste_core::admin::{Command, EventState, LaneState};

use super::{LineBench, Running, SOON, line};
use crate::drive::in_lane;
use crate::law::LawResult;
use crate::target::{Say, Scripted};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

/// One event fails until its budget is spent: it is dead with its code, others of its key go on, and a redrive delivers it.
pub async fn a_poison_event_ends_dead_and_can_be_redriven(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let target = Scripted::new()
        .script("poison", [Say::Failed, Say::Failed, Say::Failed])
        .script("rejected", [Say::Rejected]);
    bench.publish_keyed(&[("poison", "k"), ("k2", "k"), ("rejected", "r"), ("r2", "r")]).await?;
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    let name = "main".parse()?;
    eventually(SOON, "two are dead and two delivered", async || {
        bench.stats(&name).await.is_ok_and(|stats| (stats.dead, stats.delivered) == (2, 2))
    })
    .await?;
    let (poison, rejected) = (bench.view(&name, "poison").await?, bench.view(&name, "rejected").await?);
    ensure_eq!((poison.state, poison.attempts), (EventState::Dead, 3), "the poison's state and attempts");
    ensure_eq!(
        (rejected.state, rejected.attempts),
        (EventState::Dead, 1),
        "the rejected one's state and attempts"
    );
    ensure_eq!(poison.code.as_deref(), Some("scripted"), "its code");
    bench.apply(&in_lane(&name), Command::Redrive { dry_run: false }).await?;
    line_bench.until_settled("main").await?;
    running.stop().await?;
    let mut seen = target.acknowledged();
    seen.sort();
    ensure_eq!(seen, ["k2", "poison", "r2", "rejected"], "what was acknowledged");
    ensure_eq!(bench.stats(&name).await?.dead, 0, "dead in the end");
    Ok(())
}

/// The target is away at the start, again later, and comes back: the lane says so, nothing is counted, all arrives.
pub async fn an_unavailable_target_burns_no_attempt(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let target = Scripted::new();
    target.set_away(true);
    bench.publish_keyed(&[("a", "k"), ("b", "k"), ("c", "l")]).await?;
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    let name = "main".parse()?;
    eventually(SOON, "the lane says that its target is away", async || {
        bench
            .stats(&name)
            .await
            .is_ok_and(|stats| stats.state == LaneState::Unavailable && stats.reason.is_some())
    })
    .await?;
    ensure_eq!(bench.stats(&name).await?.accepted, 0, "accepted while the target is away");
    target.set_away(false);
    line_bench.until_settled("main").await?;
    eventually(SOON, "the lane says that its target is back", async || {
        bench.stats(&name).await.is_ok_and(|stats| stats.state == LaneState::Active)
    })
    .await?;
    running.stop().await?;
    ensure!(
        target.tried().iter().all(|tried| tried.attempt == 1),
        "an attempt was burnt: {:?}",
        target.tried()
    );
    let order: Vec<String> = target.acknowledged().into_iter().filter(|id| id != "c").collect();
    ensure_eq!(order, ["a", "b"], "the order of the key");
    Ok(())
}

/// The address is gone: the lane is retired, its events wait, and an operator's resume delivers them.
pub async fn a_gone_address_retires_the_lane_and_its_events_wait(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let target = Scripted::new().script("a", [Say::Gone]);
    bench.publish_keyed(&[("a", "k"), ("b", "k")]).await?;
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    let name = "main".parse()?;
    eventually(SOON, "the lane is retired", async || {
        bench.stats(&name).await.is_ok_and(|stats| stats.state == LaneState::Retired)
    })
    .await?;
    let stats = bench.stats(&name).await?;
    ensure_eq!((stats.accepted, stats.unread), (0, 2), "accepted and unread");
    bench.apply(&in_lane(&name), Command::Resume).await?;
    line_bench.until_settled("main").await?;
    running.stop().await?;
    ensure_eq!(target.acknowledged(), ["a", "b"], "what was acknowledged");
    Ok(())
}

/// An event is never answered: it times out, is tried again, and others do not wait for it.
pub async fn an_event_without_an_answer_times_out_and_is_tried_again(line_bench: LineBench) -> LawResult {
    let target = Scripted::new().script("mute", [Say::Nothing]);
    line_bench.bench.publish(&["mute", "a"]).await?;
    let lane = line("main", &target)?.timeout(std::time::Duration::from_millis(100));
    let running = Running::start(line_bench.store(), vec![lane]);
    line_bench.until_acknowledged(&target, 2).await?;
    line_bench.until_settled("main").await?;
    running.stop().await?;
    let attempts: Vec<u32> =
        target.tried().iter().filter(|tried| tried.id == "mute").map(|tried| tried.attempt).collect();
    ensure_eq!(attempts, [1, 2], "the attempts of the mute one");
    Ok(())
}

/// An adapter panics over one event: that lane goes on after a pause and loses nothing, another lane does not notice.
pub async fn a_panic_in_a_target_stops_neither_its_lane_nor_others(line_bench: LineBench) -> LawResult {
    let (target, other) = (Scripted::new().script("b", [Say::Panic]), Scripted::new());
    line_bench.bench.publish(&["a", "b", "c"]).await?;
    let lanes = vec![line("main", &target)?, line("other", &other)?];
    let running = Running::start(line_bench.store(), lanes);
    line_bench.until_settled("other").await?;
    line_bench.until_settled("main").await?;
    running.stop().await?;
    for id in ["a", "b", "c"] {
        ensure!(target.acknowledged().iter().any(|seen| seen == id), "{id} is lost");
    }
    ensure_eq!(other.acknowledged().len(), 3, "what the other lane acknowledged");
    Ok(())
}

/// Hooks hear of failures and deaths after they are recorded.
pub async fn hooks_hear_of_failures_and_deaths(line_bench: LineBench) -> LawResult {
    let target = Scripted::new().script("a", [Say::Failed, Say::Rejected]);
    line_bench.bench.publish(&["a"]).await?;
    let (failed, dead) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (count_failed, count_dead) = (Arc::clone(&failed), Arc::clone(&dead));
    let store: Arc<dyn posthaste_core::store::Store> =
        Arc::<dyn posthaste_core::schema::Backend>::clone(line_bench.store());
    let relay = posthaste_core::relay::Relay::new(store)
        .lane(line("main", &target)?)
        .on_failed(move |_| {
            count_failed.fetch_add(1, Ordering::SeqCst);
        })
        .on_dead(move |_| {
            count_dead.fetch_add(1, Ordering::SeqCst);
        });
    eventually(SOON, "the event is dead", async || {
        relay.once().await.is_ok() && dead.load(Ordering::SeqCst) == 1
    })
    .await?;
    ensure_eq!(
        (failed.load(Ordering::SeqCst), dead.load(Ordering::SeqCst)),
        (1, 1),
        "failures and deaths heard of"
    );
    Ok(())
}
