//! Groups and their members.

use super::{BrokerBench, next, quiet, take};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

/// Two groups: both get everything.
pub async fn two_groups_both_get_everything(bench: BrokerBench) -> LawResult {
    let (mut first, mut second) = (bench.join("a").await?, bench.join("b").await?);
    bench.publish(&["1", "2", "3"]).await?;
    for feed in [&mut first, &mut second] {
        let mut seen = take(feed.as_mut(), 3).await?;
        seen.sort();
        ensure_eq!(seen, ["1", "2", "3"], "what a group got");
    }
    Ok(())
}

/// A group that fails holds up no other.
pub async fn groups_are_isolated(bench: BrokerBench) -> LawResult {
    let (mut first, mut second) = (bench.join("a").await?, bench.join("b").await?);
    bench.publish(&["1", "2"]).await?;
    let _held = next(first.as_mut()).await?;
    let mut seen = take(second.as_mut(), 2).await?;
    seen.sort();
    ensure_eq!(seen, ["1", "2"], "what the other group got");
    Ok(())
}

/// Two members of a group: each event goes to one of them, and both get some. Every event has a key of its own, so that brokers that
/// share by key have something to share.
pub async fn two_members_share(bench: BrokerBench) -> LawResult {
    let mut first = bench.join_with("a", |spec| spec.prefetch(1)).await?;
    let mut second = bench.join_with("a", |spec| spec.prefetch(1)).await?;
    let ids: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
    bench.all_taken(ids.iter().map(|id| bench.event(id, Some(id))).collect()).await?;
    // Each holds one while the other takes one, so that both have their turn.
    let (one, other) = (next(first.as_mut()).await?, next(second.as_mut()).await?);
    let mut seen = Vec::new();
    for delivery in [one, other] {
        seen.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await?;
    }
    while seen.len() < ids.len() {
        let delivery = tokio::select! {
            one = next(first.as_mut()) => one?,
            other = next(second.as_mut()) => other?,
        };
        seen.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await?;
    }
    seen.sort();
    ensure_eq!(seen, ids, "what both got together");
    quiet(first.as_mut(), "after all were shared").await?;
    quiet(second.as_mut(), "after all were shared").await
}

/// A feed of three: the fourth comes when one of them is settled, and not before.
pub async fn a_feed_never_holds_more_than_its_prefetch(bench: BrokerBench) -> LawResult {
    let mut feed = bench.join_with("a", |spec| spec.prefetch(3)).await?;
    bench.publish(&["1", "2", "3", "4", "5"]).await?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(next(feed.as_mut()).await?);
    }
    quiet(feed.as_mut(), "beyond the prefetch").await?;
    if let Some(one) = held.pop() {
        one.receipt.ack().await?;
    }
    let fourth = next(feed.as_mut()).await?;
    ensure!(!held.iter().any(|one| one.envelope.id == fourth.envelope.id), "the same came twice");
    quiet(feed.as_mut(), "beyond the prefetch again").await
}
