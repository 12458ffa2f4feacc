//! Processes that end at a named point of handling, as if the machine had lost its power there.
//!
//! Two children end at the point, the last one finishes. Where the broker outlives them, they share it. Where it ends with its
//! process, each child gets the same events from a broker that knows nothing of the children before, as a broker that has heard
//! no acknowledgement would bring them.

use std::path::PathBuf;

use super::{ConsumeBench, ids};
use crate::child::Job;
use crate::ensure;
use crate::law::{LawResult, Verdict};

const EVENTS: u32 = 20;
const BATCH: usize = 4;

macro_rules! at_each_point {
    ($($law:ident at $point:literal, $batch:expr);* $(;)?) => {
        $(
            #[doc = concat!("Ends the process at the point `", $point, "`, twice, and then lets it finish.")]
            pub async fn $law(bench: ConsumeBench) -> LawResult {
                a_crash_has_each_effect_once(bench, $point, $batch).await
            }
        )*
    };
}

at_each_point! {
    a_consumer_that_crashes_with_its_inbox_row_written_has_each_effect_once at "consumer: entered", 1;
    a_consumer_that_crashes_before_its_commit_has_each_effect_once at "consumer: before commit", 1;
    a_consumer_that_crashes_when_it_has_committed_has_each_effect_once at "consumer: committed", 1;
    a_consumer_that_crashes_when_it_has_acknowledged_has_each_effect_once at "consumer: acked", 1;
    a_consumer_that_crashes_before_it_commits_a_batch_has_each_effect_once at "consumer: before commit", BATCH;
    a_consumer_that_crashes_when_it_has_committed_a_batch_has_each_effect_once at "consumer: committed", BATCH;
}

async fn a_crash_has_each_effect_once(bench: ConsumeBench, point: &str, batch: usize) -> LawResult {
    let child = bench.child.clone().map_err(Verdict::skipped)?;
    let broker = bench.broker.url.clone();
    if broker.is_some() {
        bench.publish(EVENTS).await?;
    }
    let job = |armed: Option<u32>| Job {
        backend: child.command.backend.clone(),
        url: child.command.url.clone(),
        broker: (child.broker.clone(), broker.clone().unwrap_or_default()),
        journal: PathBuf::new(),
        run: format!("{CONSUME}{batch}"),
        point: armed.map(|nth| (point.to_owned(), nth)),
    };
    for nth in [1, 3] {
        let ended = job(Some(nth)).start(&child.command.program).await.map_err(Verdict::broken)?;
        ensure!(ended.code().is_none(), "the child was not ended at {point:?} but by {ended}");
    }
    let ended = job(None).start(&child.command.program).await.map_err(Verdict::broken)?;
    ensure!(ended.success(), "the last child ended with {ended}");
    bench.each_once(&ids(EVENTS)).await
}

/// Begins the name of a run that consumes.
const CONSUME: &str = "consume ";

/// How many events a child handles in one transaction, if it is to consume.
pub(crate) fn events_per_transaction(run: &str) -> Option<usize> {
    run.strip_prefix(CONSUME)?.parse().ok()
}

/// What a child does.
pub(crate) async fn consume(bench: &ConsumeBench, batch: usize) -> LawResult {
    let consumer = bench.willing().workers(2).batch(batch);
    if bench.broker.url.is_none() {
        let ids = bench.publish(EVENTS).await?;
        return bench.consume_all(consumer, &ids).await;
    }
    // Some were settled by children before this one.
    bench.consume_until_effects(consumer, EVENTS as usize).await
}
