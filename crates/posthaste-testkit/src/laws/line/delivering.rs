//! Everything arrives, in order, once where nothing fails.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::admin::EventState;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::schema::Backend;
use posthaste_core::store::Store;

use super::{LineBench, Running, SOON, judge, line};
use crate::drive::{event, keyed};
use crate::law::{LawResult, Verdict};
use crate::target::{Gate, Say, Scripted};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

/// Publishes before and while a relay runs, with keys and without: each event comes once, each key in order.
pub async fn everything_published_is_delivered_once_and_in_order(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let target = Scripted::new();
    let mut accepted = Vec::new();
    let mut running = None;
    for batch in 0..20 {
        let events: Vec<_> = (0..25)
            .map(|n| match n % 5 {
                0 => event(&format!("{batch}-{n}")),
                key => keyed(&format!("{batch}-{n}"), &format!("key-{key}")),
            })
            .collect();
        accepted.extend(events.iter().map(|event| (event.id.clone(), event.key.clone())));
        bench.publish_all(events).await?;
        if batch == 5 {
            running = Some(Running::start(line_bench.store(), vec![line("main", &target)?]));
        }
    }
    line_bench.until_acknowledged(&target, accepted.len()).await?;
    line_bench.until_settled("main").await?;
    if let Some(running) = running {
        running.stop().await?;
    }
    judge(&accepted, &target.acknowledged(), 0)?;
    let stats = bench.stats(&"main".parse()?).await?;
    ensure_eq!(stats.delivered, accepted.len() as u64, "delivered");
    ensure_eq!(stats.owner, None, "the owner after a stop");
    Ok(())
}

/// Fails some heads of keys once or twice: their keys keep their order, and everything arrives.
pub async fn order_per_key_holds_across_retries(line_bench: LineBench) -> LawResult {
    let target = Scripted::new()
        .script("a-0", [Say::Failed])
        .script("b-3", [Say::Failed, Say::Failed])
        .script("c-1", [Say::Failed])
        .script("c-2", [Say::Failed]);
    let events: Vec<_> =
        (0..10).flat_map(|n| ["a", "b", "c", "d"].map(|key| keyed(&format!("{key}-{n}"), key))).collect();
    let accepted: Vec<_> = events.iter().map(|event| (event.id.clone(), event.key.clone())).collect();
    line_bench.bench.publish_all(events).await?;
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    line_bench.until_acknowledged(&target, accepted.len()).await?;
    line_bench.until_settled("main").await?;
    running.stop().await?;
    judge(&accepted, &target.acknowledged(), 0)?;
    let attempts: Vec<u32> =
        target.tried().iter().filter(|tried| tried.id == "b-3").map(|tried| tried.attempt).collect();
    ensure_eq!(attempts, [1, 2, 3], "the attempts of b-3");
    Ok(())
}

/// One event is not answered for long: the others, also after it in the log, are delivered and settled meanwhile, and the
/// place moves past it. Its key waits for it.
pub async fn a_slow_event_does_not_hold_others(line_bench: LineBench) -> LawResult {
    let gate = Gate::closed();
    let target = Scripted::new().script("slow", [Say::YesBehind(gate.clone())]);
    let bench = &line_bench.bench;
    bench.publish_keyed(&[("slow", "k"), ("k2", "k"), ("a", "a"), ("b", "b")]).await?;
    let lane = line("main", &target)?.slow_after(Duration::from_millis(50)).timeout(SOON);
    let running = Running::start(line_bench.store(), vec![lane]);
    let name = "main".parse()?;
    eventually(SOON, "the place moves past the slow event", async || {
        bench.stats(&name).await.is_ok_and(|stats| stats.unread == 0 && stats.delivered == 2)
    })
    .await?;
    ensure_eq!(bench.state(&name, "slow").await?, EventState::Delivering, "the state of the slow event");
    bench.publish_keyed(&[("k3", "k"), ("c", "c")]).await?;
    line_bench.until_acknowledged(&target, 3).await?;
    ensure!(!target.acknowledged().iter().any(|id| id.starts_with('k')), "its key overtook it");
    gate.open();
    line_bench.until_settled("main").await?;
    running.stop().await?;
    let key: Vec<String> =
        target.acknowledged().into_iter().filter(|id| id.starts_with('k') || id == "slow").collect();
    ensure_eq!(key, ["slow", "k2", "k3"], "the order of the key");
    ensure_eq!(target.tried().len(), 6, "deliveries tried");
    Ok(())
}

/// Publishes an event for a little later: it comes, not before its time, and holds nobody.
pub async fn a_scheduled_event_is_delivered_when_it_is_due(line_bench: LineBench) -> LawResult {
    let target = Scripted::new();
    let running = Running::start(line_bench.store(), vec![line("main", &target)?]);
    // When this has come the relay is at work, and what is for now comes at once.
    line_bench.bench.publish_keyed(&[("first", "k")]).await?;
    line_bench.until_acknowledged(&target, 1).await?;
    let rig = &line_bench.bench.rig;
    let mut later = keyed("later", "k");
    let due = rig.now().after(Duration::from_secs(2));
    later.available = Some(posthaste_core::time::Moment::At(due));
    line_bench.bench.publish_all(vec![later, keyed("now", "k")]).await?;
    line_bench.until_acknowledged(&target, 2).await?;
    let came = target.acknowledged();
    // What was seen before its time came is as it must be; a machine that stands still for so long shows nothing.
    ensure!(rig.now() >= due || came == ["first", "now"], "before its time came {came:?}");
    line_bench.until_acknowledged(&target, 3).await?;
    ensure!(rig.now() >= due, "it came before its time");
    let mut came = target.acknowledged();
    came.sort_unstable();
    ensure_eq!(came, ["first", "later", "now"], "what came");
    line_bench.until_settled("main").await?;
    running.stop().await
}

/// One pass delivers everything that its lane wants, also behind events that only another lane wants and has
/// read already.
pub async fn one_pass_delivers_what_comes_after_events_of_other_lanes(line_bench: LineBench) -> LawResult {
    let (target, other) = (Scripted::new(), Scripted::new());
    let pass = async |lane: Lane| {
        let store: Arc<dyn Store> = Arc::<dyn Backend>::clone(line_bench.store());
        Relay::new(store).lane(lane).once().await
    };
    let wanted = || line("wanted", &target)?.topics(["wanted"]).map_err(Verdict::from);
    pass(wanted()?).await?;
    for round in 0..3 {
        line_bench.bench.publish(&[&format!("other-{round}")]).await?;
        pass(line("others", &other)?).await?;
        let mut event = event(&format!("wanted-{round}"));
        event.topic = "wanted".to_owned();
        line_bench.bench.publish_all(vec![event]).await?;
        ensure_eq!(pass(wanted()?).await?.delivered, 1, "delivered by one pass");
    }
    ensure_eq!(target.acknowledged(), ["wanted-0", "wanted-1", "wanted-2"], "what was acknowledged");
    Ok(())
}
