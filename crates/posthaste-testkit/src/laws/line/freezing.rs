//! Standing still past the lease, and going on: a settle in its middle, and a whole process.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use posthaste_core::lane::LaneSpec;
use posthaste_core::store::{Owner, Then};
use rustix::process::{Pid, Signal, kill_process};

use super::crashing::{DUPLICATES_MAX, RemoveFile, judge_journal};
use super::{LEASE, LineBench, SOON};
use crate::child::{Job, Journal};
use crate::drive::{keyed, retry, settled};
use crate::law::{LawResult, Verdict};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

/// More polls than any store needs for one settle.
const POLLS_MAX: u32 = 10;

/// Polls a future so often, and no more; what it answered by then.
struct StandStill<'a, F> {
    inner: Pin<&'a mut F>,
    polls_left: u32,
}

impl<F: Future> Future for StandStill<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls_left == 0 {
            return Poll::Ready(None);
        }
        self.polls_left -= 1;
        match self.inner.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls_left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Stops polling settles that park, each a little later, and keeps them, as a process does that stands still: whatever they
/// hold in the store, somebody else can take their lanes soon after the lease.
pub async fn a_settle_that_stands_still_does_not_keep_its_lane(line_bench: LineBench) -> LawResult {
    let bench = &line_bench.bench;
    bench.publish_all(vec![keyed("a", "k"), keyed("b", "k")]).await?;
    let specs: Vec<LaneSpec> =
        (0..POLLS_MAX).map(|n| line_bench.spec(&format!("lane-{n}"))).collect::<Result<_, Verdict>>()?;
    let mut drivers = Vec::new();
    for spec in &specs {
        let driver = bench.drive(spec).await?;
        let claimed = driver.claim_all().await?;
        ensure_eq!(claimed.len(), 2, "claimed");
        drivers.push((driver, claimed));
    }
    let mut held = Vec::new();
    for (polls, (driver, claimed)) in (1..).zip(&drivers) {
        let outcomes = claimed.iter().map(|claimed| settled(claimed, retry(Duration::ZERO))).collect();
        let mut settle = bench.store.settle(&driver.lease, outcomes, Then::Hold);
        drop(StandStill { inner: Pin::new(&mut settle), polls_left: polls }.await);
        held.push(settle);
    }
    let (second, owner) = (bench.again().await?, Owner::new("second"));
    for spec in &specs {
        eventually(LEASE * 5, &format!("{} can be taken over", spec.name), async || {
            // As a relay does: an answer that comes later is of no use.
            let taken = tokio::time::timeout(LEASE, second.store.acquire(spec, &owner)).await;
            matches!(taken, Ok(Ok(Some(_))))
        })
        .await?;
    }
    drop(held);
    Ok(())
}

/// Stops a process that publishes and relays in the middle of its work (SIGSTOP), lets another one do all the work that is
/// there, and then lets the first go on (SIGCONT): both end well, nothing is lost, and order holds.
pub async fn a_process_stopped_past_its_lease_goes_on_and_loses_nothing(line_bench: LineBench) -> LawResult {
    let child = line_bench.child.clone().map_err(Verdict::skipped)?;
    // Such a store has one writer; if that stands still, everybody does.
    line_bench.bench.rig.can().overlap.map_err(Verdict::skipped)?;
    let journal =
        std::env::temp_dir().join(format!("posthaste-journal-{}", posthaste_core::envelope::fresh_id()));
    let _remove = RemoveFile(&journal);
    let job = |run: &str| Job {
        backend: child.backend.clone(),
        url: child.url.clone(),
        broker: Default::default(),
        journal: journal.clone(),
        run: run.to_owned(),
        point: None,
    };
    let mut first = job("first").spawn(&child.program).map_err(Verdict::broken)?;
    let pid = first.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let pid = pid.ok_or_else(|| Verdict::broken("the first child has no process id"))?;
    eventually(SOON, "the first child delivers", async || delivered(&journal) > 0).await?;
    kill_process(pid, Signal::STOP).map_err(Verdict::broken)?;

    let ended = job("second").start(&child.program).await.map_err(Verdict::broken)?;
    ensure!(ended.success(), "the second child ended with {ended}");
    let meanwhile = delivered(&journal);
    kill_process(pid, Signal::CONT).map_err(Verdict::broken)?;
    let ended = tokio::time::timeout(SOON, first.wait()).await;
    let ended =
        ended.map_err(|_| Verdict::broken("the first child does not end"))?.map_err(Verdict::broken)?;
    ensure!(ended.success(), "the first child ended with {ended}");
    ensure!(meanwhile >= crate::child::EVENTS_PER_RUN, "the second child delivered only {meanwhile}");
    let mut journal = Journal::read(&journal).map_err(Verdict::broken)?;
    for (id, key) in &mut journal.tried {
        // Both publish at the same time and lock nothing, so that only the order of what each published is known.
        *key = format!("{key} of {}", id.split('-').next().unwrap_or_default());
    }
    judge_journal(&journal, DUPLICATES_MAX)?;
    let stats = line_bench.bench.stats(&crate::child::LANE.parse()?).await?;
    ensure_eq!((stats.unread, stats.waiting, stats.dead), (0, 0, 0), "unread, waiting, dead");
    Ok(())
}

/// Lines of a journal that may be in the middle of being written.
fn delivered(journal: &Path) -> usize {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("got ")).count()
}
