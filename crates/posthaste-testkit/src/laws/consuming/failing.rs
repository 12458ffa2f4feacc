//! Failures: undone, in order, and adding up.

use std::collections::HashMap;

use posthaste_core::admin::Admin;
use posthaste_core::consumer::Failure;

use super::{ConsumeBench, consume_all};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

/// Every third event fails twice after its effect: the effect is undone, and had once in the end.
pub async fn a_consumer_that_fails_leaves_no_effect_behind(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, attempt| {
        let third = event.id.parse::<u32>().is_ok_and(|number| number.is_multiple_of(3));
        if third && attempt < 3 { Err("not yet")? } else { Ok(()) }
    });
    consumer.declare(&bench.broker).await?;
    let ids = bench.publish(&bench.broker, 30).await?;
    consume_all(consumer, &bench.broker).await?;
    bench.each_once(&ids).await
}

/// The first event of each key fails a few times: its key waits for it.
pub async fn a_consumer_keeps_the_order_of_a_key_across_a_retry(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, attempt| {
        let first = event.id.parse::<u32>().is_ok_and(|number| number < 5);
        if first && attempt < 4 { Err("not yet")? } else { Ok(()) }
    });
    consumer.declare(&bench.broker).await?;
    let ids = bench.publish(&bench.broker, 30).await?;
    consume_all(consumer, &bench.broker).await?;
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
    consumer.declare(&bench.broker).await?;
    bench.publish(&bench.broker, 40).await?;
    consume_all(consumer, &bench.broker).await?;
    let stats = bench.broker.lanes().await?.remove(0);
    ensure!(stats.adds_up(), "{stats:?}");
    ensure_eq!((stats.accepted, stats.delivered, stats.dead, stats.waiting), (40, 32, 8, 0), "the totals");
    let dead = bench.broker.dead();
    let count = |code: &str| dead.iter().filter(|letter| letter.reason.code == code).count();
    ensure_eq!((count("never"), count("budget")), (4, 4), "dead letters by their code");
    let spent =
        dead.iter().filter(|letter| letter.reason.code == "budget").all(|letter| letter.attempts == 20);
    ensure!(spent, "a budget was not spent");
    ensure_eq!(bench.effects().await?.len(), 32, "effects");
    Ok(())
}

/// In batches, one in ten is rejected: it alone is dead.
pub async fn a_consumer_in_batches_isolates_a_failing_event(bench: ConsumeBench) -> LawResult {
    let consumer = bench.consumer(|event, _| match event.id.parse::<u32>().unwrap_or_default() % 10 {
        4 => Err(Failure::reject("never")),
        _ => Ok(()),
    });
    let consumer = consumer.batch(5).workers(2);
    consumer.declare(&bench.broker).await?;
    let ids = bench.publish(&bench.broker, 40).await?;
    consume_all(consumer, &bench.broker).await?;
    let fine: Vec<String> = ids.into_iter().filter(|id| !id.ends_with('4')).collect();
    ensure_eq!(bench.broker.dead().len(), 4, "dead");
    bench.each_once(&fine).await
}
