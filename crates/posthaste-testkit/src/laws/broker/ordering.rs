//! Order per key, as far as a broker claims it.

use std::collections::HashMap;
use std::time::Duration;

use posthaste_core::broker::Count;
use posthaste_core::target::OrderKept;

use super::{BrokerBench, next, per_key, quiet};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

fn claimed(bench: &BrokerBench, order: OrderKept) -> LawResult {
    if bench.broker.capabilities().order < order {
        return Err(Verdict::skipped("it claims no such order"));
    }
    Ok(())
}

/// Many events of a few keys: within a key they come as they were sent.
pub async fn events_of_a_key_come_in_order(bench: BrokerBench) -> LawResult {
    claimed(&bench, OrderKept::PerProcess)?;
    let mut feed = bench.join_with("a", per_key).await?;
    let keys = ["x", "y", "z"];
    for round in 0..20 {
        bench
            .all_taken(keys.iter().map(|key| bench.event(&format!("{key}-{round:02}"), Some(key))).collect())
            .await?;
    }
    let mut last: HashMap<String, String> = HashMap::new();
    for _ in 0..60 {
        let delivery = next(feed.as_mut()).await?;
        let (id, key) = (delivery.envelope.id.clone(), delivery.envelope.key.clone().unwrap_or_default());
        let before = last.insert(key, id.clone());
        ensure!(before.as_ref().is_none_or(|before| *before < id), "{id} came after {before:?}");
        delivery.receipt.ack().await?;
    }
    Ok(())
}

/// While one member has an event of a key, no other member gets the next one.
pub async fn a_key_is_at_one_member_at_a_time(bench: BrokerBench) -> LawResult {
    claimed(&bench, OrderKept::PerKey)?;
    let mut first = bench.join_with("a", |spec| per_key(spec).prefetch(1)).await?;
    bench.all_taken(vec![bench.event("1", Some("k")), bench.event("2", Some("k"))]).await?;
    let held = next(first.as_mut()).await?;
    let mut second = bench.join_with("a", |spec| per_key(spec).prefetch(1)).await?;
    quiet(second.as_mut(), "while the key's head is at another member").await?;
    held.receipt.ack().await?;
    drop(first);
    ensure_eq!(next(second.as_mut()).await?.envelope.id, "2", "the next of the key");
    Ok(())
}

/// A released event holds its key, and no other.
pub async fn a_released_event_holds_its_key_and_no_other(bench: BrokerBench) -> LawResult {
    if !bench.broker.capabilities().release_in_order {
        return Err(Verdict::skipped("it lets later events of a key pass one that was released"));
    }
    let mut feed = bench.join_with("a", per_key).await?;
    let events = [("1", "k"), ("2", "k"), ("3", "l")];
    bench.all_taken(events.iter().map(|(id, key)| bench.event(id, Some(key))).collect()).await?;
    next(feed.as_mut()).await?.receipt.release(Duration::from_millis(200), Count::Attempt).await?;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let delivery = next(feed.as_mut()).await?;
        seen.push(delivery.envelope.id.clone());
        delivery.receipt.ack().await?;
    }
    ensure_eq!(seen, ["3", "1", "2"], "the order after a release");
    Ok(())
}
