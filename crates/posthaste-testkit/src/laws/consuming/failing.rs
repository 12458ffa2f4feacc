//! Failures: undone, in order, and adding up.

use std::collections::HashMap;

use posthaste_core::admin::{EventState, Filter, LaneView, Page, all_lanes};
use posthaste_core::consumer::Failure;

use super::ConsumeBench;
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

/// Every third event fails twice after its effect: the effect is undone, and had once in the end.
pub async fn a_consumer_that_fails_leaves_no_effect_behind(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, attempt| {
        let third = event.id.parse::<u32>().is_ok_and(|number| number.is_multiple_of(3));
        if third && attempt < 3 { Err("not yet")? } else { Ok(()) }
    });
    let ids = bench.publish(30).await?;
    bench.consume_all(consumer, &ids).await?;
    bench.each_once(&ids).await
}

/// The first event of each key fails a few times: its key waits for it.
pub async fn a_consumer_keeps_the_order_of_a_key_across_a_retry(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, attempt| {
        let first = event.id.parse::<u32>().is_ok_and(|number| number < 5);
        if first && attempt < 4 { Err("not yet")? } else { Ok(()) }
    });
    let ids = bench.publish(30).await?;
    bench.consume_all(consumer, &ids).await?;
    let mut last: HashMap<u32, String> = HashMap::new();
    for id in bench.effects().await? {
        let key = id.parse::<u32>().unwrap_or_default() % 5;
        let before = last.insert(key, id.clone());
        ensure!(before.as_ref().is_none_or(|before| *before < id), "{id} had its effect after {before:?}");
    }
    bench.each_once(&ids).await
}

/// Some are rejected, some fail until their budget is spent, the rest is handled: the numbers add up, and what is dead had no
/// effect.
pub async fn a_consumer_s_dead_letters_add_up(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, _| match event.id.parse::<u32>().unwrap_or_default() % 10 {
        1 => Err(Failure::reject("never").code("never")),
        2 => Err(Failure::retry("never again").code("budget")),
        _ => Ok(()),
    });
    let ids = bench.publish(40).await?;
    bench.consume_all(consumer, &ids).await?;
    let dead = dead(&bench).await?;
    let with = |code: &str| dead.iter().filter(|view| view.code.as_deref() == Some(code)).collect::<Vec<_>>();
    ensure_eq!(
        (with("never").len(), with("budget").len(), dead.len()),
        (4, 4, 8),
        "dead letters by their code"
    );
    ensure!(with("budget").iter().all(|view| view.attempts == 20), "a budget was not spent: {dead:?}");
    ensure_eq!(bench.effects().await?.len(), 32, "effects");
    let Some(admin) = &bench.broker.admin else { return Ok(()) };
    let stats = all_lanes(&**admin).await?.remove(0);
    ensure!(stats.adds_up(), "{stats:?}");
    ensure_eq!((stats.dead, stats.waiting), (8, 0), "the totals");
    Ok(())
}

/// How the group sees each of its dead letters.
pub(super) async fn dead(bench: &ConsumeBench) -> Result<Vec<LaneView>, Verdict> {
    let admin = bench.broker.admin.as_ref();
    let admin = admin.ok_or_else(|| Verdict::skipped("its dead letters cannot be listed here"))?;
    let mut filter = Filter::default();
    filter.lane = Some(bench.broker.group("law").parse()?);
    filter.state = Some(EventState::Dead);
    let found = admin.find(&filter, Page::first(100)).await?;
    Ok(found.records.into_iter().flat_map(|record| record.lanes).collect())
}

/// In batches, one in ten is rejected: it alone is dead.
pub async fn a_consumer_in_batches_isolates_a_failing_event(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, _| match event.id.parse::<u32>().unwrap_or_default() % 10 {
        4 => Err(Failure::reject("never")),
        _ => Ok(()),
    });
    let consumer = consumer.batch(5).workers(2);
    let ids = bench.publish(40).await?;
    bench.consume_all(consumer, &ids).await?;
    let fine: Vec<String> = ids.into_iter().filter(|id| !id.ends_with('4')).collect();
    ensure_eq!(dead(&bench).await?.len(), 4, "dead");
    bench.each_once(&fine).await
}
