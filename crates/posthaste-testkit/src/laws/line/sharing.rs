//! Several relays on one store, and one that was away too long.

use std::time::Duration;

use posthaste_core::admin::all_lanes;
use posthaste_core::store::Then;

use super::{LEASE, LineBench, Running, SOON, judge, line};
use crate::drive::{event, keyed};
use crate::law::{LawResult, Verdict};
use crate::target::{Freeze, Say, Scripted};
use crate::wait::{eventually, never};
use crate::{ensure, ensure_eq};

/// How long lanes are watched that must stay where they are.
const WHILE: Duration = Duration::from_millis(1_500);

/// Two relays, each with a store of its own and the same lanes; one stops in the middle. Nothing is lost, doubled or out of
/// order.
pub async fn two_relays_deliver_everything_once(line_bench: LineBench) -> LawResult {
    relays_deliver_everything_once(&line_bench, 2).await
}

/// The same with five, of which four stop one after the other.
pub async fn five_relays_deliver_everything_once(line_bench: LineBench) -> LawResult {
    relays_deliver_everything_once(&line_bench, 5).await
}

async fn relays_deliver_everything_once(line_bench: &LineBench, count: usize) -> LawResult {
    let targets = [Scripted::new(), Scripted::new(), Scripted::new()];
    let lanes = || -> Result<Vec<_>, Verdict> {
        targets.iter().enumerate().map(|(n, target)| line(&format!("lane-{n}"), target)).collect()
    };
    let mut relays = Vec::new();
    for _ in 0..count {
        relays.push(Running::start(&line_bench.bench.again().await?.store, lanes()?));
    }
    let mut accepted = Vec::new();
    for batch in 0..10 {
        let events: Vec<_> =
            (0..20).map(|n| keyed(&format!("{batch}-{n}"), &format!("k{}", n % 7))).collect();
        accepted.extend(events.iter().map(|event| (event.id.clone(), event.key.clone())));
        line_bench.bench.publish_all(events).await?;
        if batch >= 5 && relays.len() > 1 {
            relays.remove(0).stop().await?;
        }
    }
    for (n, target) in targets.iter().enumerate() {
        line_bench.until_acknowledged(target, accepted.len()).await?;
        line_bench.until_settled(&format!("lane-{n}")).await?;
        judge(&accepted, &target.acknowledged(), 0)?;
    }
    for relay in relays {
        relay.stop().await?;
    }
    Ok(())
}

/// Three relays on one lane, which some stores let them share and others give to one at a time; they stop one after another.
/// Nothing is lost, doubled or out of order.
pub async fn relays_that_come_and_go_deliver_one_lane_once(line_bench: LineBench) -> LawResult {
    let target = Scripted::new();
    let mut relays = Vec::new();
    for _ in 0..3 {
        let again = line_bench.bench.again().await?;
        relays.push(Running::start(&again.store, vec![line("main", &target)?]));
    }
    let mut accepted = Vec::new();
    for batch in 0..9 {
        let events: Vec<_> =
            (0..20).map(|n| keyed(&format!("{batch}-{n}"), &format!("k{}", n % 7))).collect();
        accepted.extend(events.iter().map(|event| (event.id.clone(), event.key.clone())));
        line_bench.bench.publish_all(events).await?;
        line_bench.until_acknowledged(&target, batch * 10).await?;
        if batch % 3 == 2 && relays.len() > 1 {
            relays.remove(0).stop().await?;
        }
    }
    line_bench.until_acknowledged(&target, accepted.len()).await?;
    line_bench.until_settled("main").await?;
    for relay in relays {
        relay.stop().await?;
    }
    judge(&accepted, &target.acknowledged(), 0)
}

/// One relay drives four lanes when a second one comes: each has two soon, and no event comes twice on the way. One ends
/// without a word, and the other has all of them within a lease; it stops cleanly, and all are free.
pub async fn two_relays_end_up_with_half_of_the_lanes_each(line_bench: LineBench) -> LawResult {
    let names = ["lane-0", "lane-1", "lane-2", "lane-3"];
    let targets = [Scripted::new(), Scripted::new(), Scripted::new(), Scripted::new()];
    let lanes = || -> Result<Vec<_>, Verdict> {
        names.iter().zip(&targets).map(|(name, target)| line(name, target)).collect()
    };
    let shares = async || {
        let mut shares = std::collections::BTreeMap::<String, usize>::new();
        let lanes = all_lanes(&*line_bench.bench.store).await.ok()?;
        for stats in lanes {
            *shares.entry(stats.owner.unwrap_or_default()).or_default() += 1;
        }
        shares.remove("");
        Some(shares.into_values().collect::<Vec<_>>())
    };
    let are = async |expected: &[usize]| shares().await.is_some_and(|shares| shares == expected);
    let first = Running::start(line_bench.store(), lanes()?);
    eventually(SOON, "one relay drives all lanes", async || are(&[4]).await).await?;
    line_bench.bench.publish_all((0..20).map(|n| keyed(&format!("a{n}"), "k")).collect()).await?;
    let again = line_bench.bench.again().await?;
    let second = Running::start(&again.store, lanes()?);
    eventually(SOON, "each relay drives two lanes", async || are(&[2, 2]).await).await?;
    line_bench.bench.publish_all((0..20).map(|n| keyed(&format!("b{n}"), "k")).collect()).await?;
    let accepted: Vec<_> = ["a", "b"]
        .iter()
        .flat_map(|part| (0..20).map(move |n| (format!("{part}{n}"), Some("k".to_owned()))))
        .collect();
    for (name, target) in names.iter().zip(&targets) {
        line_bench.until_acknowledged(target, accepted.len()).await?;
        line_bench.until_settled(name).await?;
        judge(&accepted, &target.acknowledged(), 0)?;
    }
    let changed = async || shares().await.is_some_and(|shares| shares != [2, 2]);
    never(WHILE, "lanes change hands without need", changed).await?;
    drop(second);
    eventually(SOON, "the other relay has taken over", async || are(&[4]).await).await?;
    first.stop().await?;
    ensure!(are(&[]).await, "a lane is still held after a clean stop");
    Ok(())
}

/// A relay stands still past its lease, in the middle of a delivery, and somebody else takes the lane. When it wakes up, what
/// it has to say is not recorded, and nothing is lost.
pub async fn a_relay_stopped_past_its_lease_records_nothing(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    let freeze = Freeze::new();
    let target = Scripted::new().script("b", [Say::YesFrozen(freeze.clone())]);
    bench.publish_all(vec![event("a"), event("b"), event("c")]).await?;
    let frozen = frozen_relay(line_bench.bench.again().await?.store, target.clone());
    let thaw = Thaw(freeze);
    eventually(SOON, "the relay is in the middle of a delivery", async || target.tried().len() == 3).await?;
    let spec = line_bench.spec("main")?;
    let owner = posthaste_core::store::Owner::new("second");
    let mut lease = None;
    eventually(LEASE * 8, "the lane can be taken over", async || {
        lease = bench.store.acquire(&spec, &owner).await.ok().flatten();
        lease.is_some()
    })
    .await?;
    let lease = lease.ok_or_else(|| Verdict::broken("the lane was not taken over"))?;
    let before = bench.stats(&spec.name).await?;
    drop(thaw);
    let mut frozen = std::pin::pin!(frozen);
    // It keeps what it has taken, however long the other one takes to wake up.
    let woken = loop {
        match tokio::time::timeout(LEASE / 8, &mut frozen).await {
            Ok(woken) => break woken,
            Err(_) => drop(bench.store.settle(&lease, Vec::new(), Then::Hold).await?),
        }
    };
    woken.map_err(Verdict::broken)??;
    ensure_eq!(target.acknowledged().len(), 3, "what the frozen relay's target acknowledged");
    let after = bench.stats(&spec.name).await?;
    ensure_eq!(after.accepted, before.accepted, "accepted after the frozen relay woke up");
    ensure_eq!(after.epoch, lease.epoch(), "the epoch after the frozen relay woke up");
    let room = posthaste_core::store::Room { events: 10, bytes: 1 << 20 };
    let left = bench.store.claim(&lease, room).await?;
    ensure!(
        left.len() as u64 + before.accepted == 3,
        "{} left, {} accepted before",
        left.len(),
        before.accepted
    );
    Ok(())
}

/// Ends a freeze also when a law ends early, so that its thread can end.
struct Thaw(Freeze);

impl Drop for Thaw {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A relay on a thread and runtime of its own, so that it can stand still; it runs until it has lost its lane.
fn frozen_relay(
    store: std::sync::Arc<dyn posthaste_core::schema::Backend>,
    target: Scripted,
) -> impl Future<Output = Result<LawResult, tokio::sync::oneshot::error::RecvError>> {
    let (done, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let work = async {
            let running = Running::start(&store, vec![line("main", &target)?]);
            eventually(SOON, "everything is acknowledged", async || target.acknowledged().len() == 3).await?;
            running.stop().await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let verdict = match runtime {
            Ok(runtime) => runtime.block_on(work),
            Err(error) => Err(Verdict::broken(error)),
        };
        // Nobody listens any more when the law has ended early.
        let _ = done.send(verdict);
    });
    ended
}
