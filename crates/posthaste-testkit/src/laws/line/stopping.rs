//! Stopping a relay: by word, at once, and with work in flight.

use std::time::Duration;

use super::{LineBench, Running, SOON, judge, line};
use crate::drive::event;
use crate::law::LawResult;
use crate::target::{Gate, Say, Scripted};
use crate::wait::{eventually, never};
use crate::{ensure, ensure_eq};

/// Tells a relay to stop while an event is in flight: it claims nothing more, waits for the answer, records it, and frees
/// the lane at once.
pub async fn a_graceful_stop_settles_what_is_in_flight_and_frees_the_lane(
    line_bench: LineBench,
) -> LawResult {
    let bench = &line_bench.bench;
    let gate = Gate::closed();
    let target = Scripted::new().script("a", [Say::YesBehind(gate.clone())]);
    bench.publish(&["a"]).await?;
    let mut running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    eventually(SOON, "the event is in flight", async || target.tried().len() == 1).await?;
    running.tell_to_stop();
    // The word reaches the lane through the relay's own task: both have their turn before anything more happens.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    // Published after the word to stop, so it must wait for the next relay.
    bench.publish(&["b"]).await?;
    never(Duration::from_millis(100), "something was claimed after the stop", async || {
        target.tried().len() > 1
    })
    .await?;
    gate.open();
    running.ended().await?;
    let spec = line_bench.spec("main")?;
    let stats = bench.stats(&spec.name).await?;
    ensure_eq!((stats.delivered, stats.owner), (1, None), "delivered, and the owner");
    let driver = bench.drive(&spec).await?;
    ensure_eq!(driver.drain().await?, ["b"], "what is left");
    Ok(())
}

/// Stops while an event is not answered within the grace period: the relay ends all the same, and the event comes again.
pub async fn a_stop_ends_after_its_grace_period(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let target = Scripted::new().script("mute", [Say::Nothing]);
    bench.publish(&["mute", "a"]).await?;
    let store: std::sync::Arc<dyn posthaste_core::store::Store> =
        std::sync::Arc::<dyn posthaste_core::schema::Backend>::clone(line_bench.store());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let relay = posthaste_core::relay::Relay::new(store)
        .lane(line("main", &target)?.timeout(SOON))
        .grace(Duration::from_millis(100));
    let word = async {
        eventually(SOON, "both are sent", async || target.tried().len() == 2).await?;
        drop(stop);
        Ok(())
    };
    let run = async {
        let ended = relay.run(async { drop(stopped.await) });
        let ended = tokio::time::timeout(SOON, ended).await;
        ensure!(matches!(ended, Ok(Ok(()))), "the relay ended with {ended:?}");
        Ok(())
    };
    let (told, ended): (LawResult, LawResult) = tokio::join!(word, run);
    told.and(ended)?;
    let spec = line_bench.spec("main")?;
    ensure!(
        bench.drive(&spec).await?.drain().await?.contains(&"mute".to_owned()),
        "the unanswered event is lost"
    );
    ensure_eq!(bench.stats(&spec.name).await?.delivered, 2, "delivered in the end");
    Ok(())
}

/// Drops a running relay again and again, as a crash would: nothing is lost, and what comes twice was in flight.
pub async fn a_relay_dropped_at_any_moment_loses_nothing(line_bench: LineBench) -> LawResult {
    let target = Scripted::new();
    let mut accepted = Vec::new();
    for round in 0..5 {
        let events: Vec<_> = (0..20).map(|n| event(&format!("{round}-{n}"))).collect();
        accepted.extend(events.iter().map(|event| (event.id.clone(), event.key.clone())));
        line_bench.bench.publish_all(events).await?;
        let lane = line("main", &target)?.window(10).lease(Duration::from_secs(1));
        let running = Running::start(line_bench.store(), vec![lane]);
        line_bench.until_acknowledged(&target, (round * 20) + 7).await?;
        drop(running);
    }
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    line_bench.until_settled("main").await?;
    running.stop().await?;
    // Each drop may repeat at most what was published so far.
    judge(&accepted, &target.acknowledged(), 20 + 40 + 60 + 80 + 100)
}
