//! Effect once.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::admin::all_lanes;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::store::Store;
use posthaste_core::target::Target;

use super::watched::Watched;
use super::{ConsumeBench, LawConsumer, SOON, consume_all};
use crate::broker::{BrokerBench, BrokerRigMaker as _, LocalRigs};
use crate::law::LawResult;
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

/// Half of the acknowledgements never arrive: those events come again, at the latest to whoever comes next, and have their
/// effect once.
pub async fn a_consumer_that_dies_between_commit_and_ack_has_the_effect_once(
    bench: ConsumeBench,
) -> LawResult {
    half_of_the_acknowledgements_are_lost(bench, |consumer| consumer).await
}

/// In batches, with half of the acknowledgements lost.
pub async fn a_consumer_in_batches_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    half_of_the_acknowledgements_are_lost(bench, |consumer| consumer.batch(8).workers(2)).await
}

async fn half_of_the_acknowledgements_are_lost(
    bench: ConsumeBench,
    change: impl Fn(LawConsumer) -> LawConsumer,
) -> LawResult {
    // As much as all of it: what the broker has not heard of takes up room.
    let consumer = || change(bench.willing()).prefetch(40);
    let ids = bench.publish(40).await?;
    bench.watched.be_deaf(true);
    bench.consume_until_effects(consumer(), ids.len()).await?;
    bench.watched.be_deaf(false);
    bench.consume_all(consumer(), &ids).await?;
    ensure!(bench.watched.lost() > 0, "no acknowledgement was lost");
    bench.each_once(&ids).await
}

/// The whole consumer is dropped again and again in the middle of its work.
pub async fn a_consumer_dropped_at_any_moment_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    let ids = bench.publish(40).await?;
    for step in 1_u64..12 {
        let before = bench.watched.feeds();
        let run = bench.willing().run(bench.watched.clone(), std::future::pending());
        let moment = async {
            let open = eventually(SOON, "a feed is open", async || bench.watched.feeds() > before).await;
            // The moment is any: the law holds at each.
            tokio::time::sleep(Duration::from_micros(step * 400)).await;
            open
        };
        tokio::select! {
            ended = run => ensure!(false, "it ended by itself: {ended:?}"),
            reached = moment => reached?,
        }
    }
    bench.consume_all(bench.willing(), &ids).await?;
    bench.each_once(&ids).await
}

/// The same events come through two brokers at once, to two consumers of one name.
pub async fn two_consumers_that_get_the_same_events_have_each_effect_once(bench: ConsumeBench) -> LawResult {
    let other = BrokerBench { scope: bench.broker.scope.clone(), ..LocalRigs.rig().await? };
    bench.willing().declare(other.broker.as_ref()).await?;
    let ids = bench.publish(30).await?;
    // The identity of an event is its source and id, so these are the same events.
    other.all_taken(ids.iter().map(|id| other.event(id, Some("other"))).collect()).await?;
    let watched = Watched::over(&other);
    let (first, second) =
        tokio::join!(bench.consume_all(bench.willing(), &ids), consume_all(bench.willing(), &watched, &ids),);
    first?;
    second?;
    bench.each_once(&ids).await
}

/// Events go from the store straight into the handler, and the relay is dropped in between.
pub async fn a_lane_into_a_consumer_has_each_effect_once(bench: ConsumeBench) -> LawResult {
    let store = bench.rig.store();
    let mut ids = Vec::new();
    let mut events = Vec::new();
    for number in 0..30 {
        let mut event = posthaste_core::envelope::Envelope::new("work", format!("{number:03}"));
        event.id = format!("{number:03}");
        event.source = "/law".to_owned();
        event.key = Some(format!("key-{}", number % 5));
        ids.push(event.id.clone());
        events.push(event);
    }
    store.publish(events).await?;
    let stores: Arc<dyn Store> = Arc::<dyn posthaste_core::schema::Backend>::clone(&store);
    let lane = |consumer: Arc<dyn Target>| -> Result<Lane> {
        Ok(Lane::named("law")?.topics(["work"])?.lease(Duration::from_secs(1)).to(consumer))
    };
    for step in 1..4 {
        let relay = Relay::new(Arc::clone(&stores)).id("law").lane(lane(bench.willing().target()?)?);
        let dropped =
            tokio::time::timeout(Duration::from_millis(step * 3), relay.run(std::future::pending())).await;
        ensure!(dropped.is_err(), "it ended by itself: {dropped:?}");
    }
    let relay = Relay::new(stores).lane(lane(bench.willing().target()?)?);
    let name = "law".parse()?;
    let settled = crate::wait::eventually(Duration::from_secs(20), "all are delivered", async || {
        let lanes = all_lanes(&*store).await.unwrap_or_default();
        lanes.iter().any(|stats| stats.lane == name && stats.delivered == 30)
    });
    tokio::select! {
        ran = relay.run(std::future::pending()) => ran?,
        settled = settled => settled?,
    }
    ensure_eq!(bench.effects().await?.len(), 30, "effects");
    bench.each_once(&ids).await
}
