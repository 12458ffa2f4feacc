//! Events that end the process of their consumer, and events that only happen to be there when it ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_core::consumer::Failure;
use posthaste_core::retry::Backoff;

use super::failing::dead;
use super::{ConsumeBench, LawConsumer, SOON};
use crate::child::Job;
use crate::law::{LawResult, Verdict};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

const EVENTS: u32 = 30;
/// Ends every process that handles it.
const KILLER: &str = "007";
const ATTEMPTS: u32 = 3;
/// So many processes may end before a broker suspects anybody.
const UNSUSPECTED_MAX: u32 = 3;

/// One event ends the process that handles it, whenever it is handled: after its budget it is dead, with the reason. All others
/// have their effect once, at their first attempt, although they were fetched by the same processes.
pub async fn a_consumer_s_killer_ends_dead_and_its_neighbours_live(bench: ConsumeBench) -> LawResult {
    let child = bench.child.clone().map_err(Verdict::skipped)?;
    let broker = bench.broker.url.clone();
    let broker = broker.ok_or_else(|| Verdict::skipped("the broker ends with the process"))?;
    let ids = bench.publish(EVENTS).await?;
    let job = Job {
        backend: child.command.backend,
        url: child.command.url,
        broker: (child.broker, broker),
        journal: PathBuf::new(),
        run: BE_KILLED.to_owned(),
        point: None,
    };
    let mut killed = 0;
    loop {
        let ended = job.start(&child.command.program).await.map_err(Verdict::broken)?;
        if ended.success() {
            break;
        }
        ensure!(ended.code().is_none(), "a child ended with {ended}");
        killed += 1;
        ensure!(killed <= ATTEMPTS + UNSUSPECTED_MAX, "{killed} processes were killed, and there is no end");
    }
    ensure!(killed >= ATTEMPTS, "it is dead after {killed} of {ATTEMPTS} attempts");
    let dead: Vec<_> = dead(&bench).await?.into_iter().map(|view| (view.code, view.attempts)).collect();
    ensure_eq!(dead, [(Some("crash".to_owned()), ATTEMPTS)], "what is dead");
    let others: Vec<String> = ids.into_iter().filter(|id| id != KILLER).collect();
    bench.each_once(&others).await
}

/// The name of a child's run.
pub(crate) const BE_KILLED: &str = "be killed";

/// What a child does: it takes everything at its first attempt, and nothing else, until it is killed or all is done.
pub(crate) async fn be_killed(bench: &ConsumeBench) -> LawResult {
    let consumer = first_attempts(bench, |id| {
        if id == KILLER {
            std::process::abort();
        }
    });
    let others = EVENTS as usize - 1;
    let over = async || {
        let effects = bench.effects().await.map_or(0, |effects| effects.len());
        effects >= others && dead(bench).await.is_ok_and(|dead| !dead.is_empty())
    };
    super::consume_until(consumer, &bench.watched, "all is over", over).await
}

fn first_attempts(bench: &ConsumeBench, begin: impl Fn(&str) + Send + Sync + 'static) -> LawConsumer {
    let consumer = bench.consumer(move |event, attempt| {
        begin(&event.id);
        if attempt == 1 { Ok(()) } else { Err(Failure::reject(format!("at attempt {attempt}"))) }
    });
    consumer.retry(Backoff::fixed(Duration::from_millis(20)).attempts(ATTEMPTS))
}

/// A consumer is dropped, and another one stopped, again and again while they have events in hand: that is no attempt of any of
/// these, and they are handled at last.
pub async fn a_consumer_that_only_ends_spends_no_attempt(bench: ConsumeBench) -> LawResult {
    let ids = bench.publish(10).await?;
    for round in 0..2 * (ATTEMPTS + 2) {
        let begun = Arc::new(AtomicU32::new(0));
        let stuck = bench.stuck(&begun).grace(Duration::ZERO);
        let in_hand = eventually(SOON, "one is at work", async || begun.load(Ordering::SeqCst) > 0);
        if round.is_multiple_of(2) {
            tokio::select! {
                ended = stuck.run(bench.watched.clone(), std::future::pending()) => ended?,
                reached = in_hand => reached?,
            }
        } else {
            stuck.run(bench.watched.clone(), async { drop(in_hand.await) }).await?;
        }
    }
    bench.consume_all(first_attempts(&bench, |_| ()), &ids).await?;
    bench.each_once(&ids).await
}
