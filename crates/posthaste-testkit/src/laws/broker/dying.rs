//! Events that nobody can handle.

use posthaste_core::admin::{Actor, Command, EventState, Filter, Pace, Page};
use posthaste_core::broker::Reason;

use super::{BrokerBench, next, quiet, take};
use crate::ensure_eq;
use crate::law::{LawResult, Verdict};

/// A buried event comes no more, is listed with its reason and its attempt, and comes again when it is redriven.
pub async fn a_poison_event_ends_dead_and_can_be_listed_and_redriven(bench: BrokerBench) -> LawResult {
    let Some(admin) = bench.admin.clone() else {
        return Err(Verdict::skipped("its dead letters cannot be listed here"));
    };
    let mut feed = bench.join("a").await?;
    bench.publish(&["poison", "fine"]).await?;
    for _ in 0..2 {
        let delivery = next(feed.as_mut()).await?;
        if delivery.envelope.id == "poison" {
            delivery.receipt.bury(Reason::new("smell", "it smells")).await?;
        } else {
            delivery.receipt.ack().await?;
        }
    }
    quiet(feed.as_mut(), "after one was buried").await?;
    let mut filter = Filter::default();
    filter.lane = Some(bench.group("a").parse()?);
    filter.state = Some(EventState::Dead);
    let found = admin.find(&filter, Page::first(10)).await?;
    let seen: Vec<_> = found
        .records
        .iter()
        .map(|record| (record.envelope.id.as_str(), record.lanes[0].code.as_deref()))
        .collect();
    ensure_eq!(seen, [("poison", Some("smell"))], "what is dead");
    let redriven = admin
        .apply(&filter, Command::Redrive { dry_run: false }, &Actor::new("law", "test"), &Pace::full())
        .await?;
    ensure_eq!(redriven.changed, 1, "redriven");
    ensure_eq!(take(feed.as_mut(), 1).await?, ["poison"], "what came again");
    ensure_eq!(admin.find(&filter, Page::first(10)).await?.records.len(), 0, "dead in the end");
    Ok(())
}
