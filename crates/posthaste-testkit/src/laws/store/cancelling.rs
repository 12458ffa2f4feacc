//! Futures that are dropped half-way: a timeout, a select, a client that went away.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use posthaste_core::store::{Claimed, Outcome, Room, Then};

use crate::drive::{Driver, StoreBench, dead, event, ids, lane, retry, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);
/// More polls than any store needs for one call.
pub(super) const POLLS_MAX: u32 = 8;

/// A future that is dropped instead of being polled once more than so often: answers `None` then.
pub(super) struct DropAtPoll<F> {
    inner: Option<Pin<Box<F>>>,
    polls_left: u32,
}

impl<F: Future> Future for DropAtPoll<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            self.inner = None;
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        let polled = self.inner.as_mut().map(|inner| inner.as_mut().poll(cx));
        match polled {
            Some(Poll::Ready(output)) => Poll::Ready(Some(output)),
            // Wakes itself, so that the drop does not wait for the store to do its part first.
            Some(Poll::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}

pub(super) fn drop_at_poll<F: Future>(polls: u32, inner: F) -> DropAtPoll<F> {
    DropAtPoll { inner: Some(Box::pin(inner)), polls_left: polls }
}

/// Drops a claim at each of its polls: the next lease has everything, and nothing is counted.
pub async fn a_dropped_claim_loses_nothing(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    for polls in 0..POLLS_MAX {
        let driver = bench.drive(&main).await?;
        drop_at_poll(polls, bench.store.claim(&driver.lease, Room { events: 2, bytes: 1 << 20 })).await;
        bench.pass(main.lease + SECOND);
        let driver = bench.drive(&main).await?;
        ensure_eq!(
            ids(&driver.claim_all().await?),
            ["a", "b", "c"],
            "what comes after a drop at poll {polls}"
        );
        ensure_eq!(bench.stats(&main.name).await?.accepted, 0, "accepted after a drop at poll {polls}");
        driver.give_up().await?;
    }
    Ok(())
}

/// Begins to settle three events, one of each kind, and drops that.
pub(super) async fn drop_settle_at_poll(
    polls: u32,
    bench: &StoreBench,
    driver: &Driver,
    claimed: &[Claimed],
) {
    let outcomes = vec![
        settled(&claimed[0], Outcome::Delivered),
        settled(&claimed[1], retry(SECOND)),
        settled(&claimed[2], dead()),
    ];
    drop_at_poll(polls, bench.store.settle(&driver.lease, outcomes, Then::Hold)).await;
}

/// Drops a settle at each of its polls: afterwards either all of its outcomes are recorded or none.
pub async fn a_dropped_settle_leaves_nothing_half_done(bench: StoreBench) -> LawResult {
    for polls in 0..POLLS_MAX {
        let main = lane(&format!("main-{polls}"));
        if polls == 0 {
            bench.publish(&["a", "b", "c", "d"]).await?;
        }
        let driver = bench.drive(&main).await?;
        let claimed = driver.claim_all().await?;
        drop_settle_at_poll(polls, &bench, &driver, &claimed).await;
        // A second settle of the same lease comes after the dropped one, whatever became of it. Without it, a store that is
        // still at work on the dropped one would do it after time has passed, and so renew the lease that is to end.
        driver.settle_then(Vec::new(), Then::Hold).await?;
        drop(driver);
        bench.pass(main.lease + SECOND);
        let driver = bench.drive(&main).await?;
        let stats = bench.stats(&main.name).await?;
        let recorded = [stats.accepted, stats.delivered, stats.waiting, stats.dead];
        ensure!(recorded == [0; 4] || recorded == [3, 1, 1, 1], "half done at poll {polls}: {recorded:?}");
        let mut seen = driver.drain().await?;
        seen.sort();
        let expected: &[&str] = if recorded == [0; 4] { &["a", "b", "c", "d"] } else { &["b", "d"] };
        ensure_eq!(seen, expected, "what comes after a drop at poll {polls}");
    }
    Ok(())
}

/// Drops a publish of a batch at each of its polls: afterwards either all of it is there or nothing, and publishing it
/// again makes it whole.
pub async fn a_dropped_publish_stores_all_or_nothing(bench: StoreBench) -> LawResult {
    for polls in 0..POLLS_MAX {
        let batch: Vec<_> = (0..5).map(|n| event(&format!("p{polls}-{n}"))).collect();
        drop_at_poll(polls, bench.store.publish(batch.clone())).await;
        // A publish of something else comes after the dropped one, whatever became of that.
        bench.publish(&[&format!("p{polls}-marker")]).await?;
        let mut filter = posthaste_core::admin::Filter::default();
        filter.ids = batch.iter().map(|event| event.id.clone()).collect();
        let found = bench.find(&filter).await?.len();
        ensure!(found == 0 || found == 5, "{found} of 5 after a drop at poll {polls}");
        bench.publish_all(batch).await?;
        ensure_eq!(bench.find(&filter).await?.len(), 5, "after publishing again");
    }
    Ok(())
}
