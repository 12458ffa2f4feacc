//! Processes that end at a named point, as if the machine had lost its power there.
//!
//! The law starts this program again as a child, which publishes and relays on the law's data and ends at the armed point;
//! then once more, armed later; then unarmed, to the end. Children write what they know to a journal, and the journal is
//! judged.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitStatus;

use posthaste_core::admin::Filter;
use posthaste_core::lane::LaneName;

use super::{LineBench, Running, SOON, line};
use crate::child::{Job, Journal};
use crate::history::{History, Known};
use crate::law::{LawResult, Verdict};
use crate::target::{Say, Scripted};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

/// How often each run may repeat what it had delivered and not settled: no run has more in its hands than it published.
pub(super) const DUPLICATES_MAX: usize = 3 * crate::child::EVENTS_PER_RUN;

macro_rules! at_each_point {
    ($($law:ident at $point:literal, then at its $nth:literal),* $(,)?) => {
        $(
            #[doc = concat!("Ends the process at the point `", $point, "`, twice, and then lets it finish.")]
            pub async fn $law(line_bench: LineBench) -> LawResult {
                a_crash_loses_nothing(line_bench, $point, $nth).await
            }
        )*
    };
}

// A lane may be acquired at the first try, so that point cannot be waited for longer.
at_each_point! {
    a_crash_when_a_lane_was_acquired_loses_nothing at "relay: acquired", then at its 1,
    a_crash_after_reading_loses_nothing at "claim: read", then at its 3,
    a_crash_after_a_claim_loses_nothing at "relay: claimed", then at its 3,
    a_crash_before_delivering_loses_nothing at "relay: before deliver", then at its 3,
    a_crash_between_deliver_and_settle_loses_nothing at "relay: answered", then at its 3,
    a_crash_before_settling_loses_nothing at "relay: before settle", then at its 3,
    a_crash_before_a_settle_commits_loses_nothing at "settle: before commit", then at its 3,
    a_crash_after_a_settle_committed_loses_nothing at "settle: after commit", then at its 3,
    a_crash_when_a_settle_was_answered_loses_nothing at "relay: settled", then at its 3,
    a_crash_before_a_publish_commits_loses_nothing at "publish: before commit", then at its 3,
    a_crash_after_a_publish_committed_loses_nothing at "publish: after commit", then at its 3,
}

async fn a_crash_loses_nothing(line_bench: LineBench, point: &str, second_time: u32) -> LawResult {
    let child = line_bench.child.clone().map_err(Verdict::skipped)?;
    let journal =
        std::env::temp_dir().join(format!("posthaste-journal-{}", posthaste_core::envelope::fresh_id()));
    let _remove = RemoveFile(&journal);
    let job = |run: &str, armed: Option<(&str, u32)>| Job {
        backend: child.backend.clone(),
        url: child.url.clone(),
        broker: Default::default(),
        journal: journal.clone(),
        run: run.to_owned(),
        point: armed.map(|(point, nth)| (point.to_owned(), nth)),
    };
    for (run, nth) in [("first", 1), ("second", second_time)] {
        let ended = job(run, Some((point, nth))).start(&child.program).await.map_err(Verdict::broken)?;
        ensure!(was_killed(ended), "the child was not ended at {point:?} but by {ended}");
    }
    let ended = job("last", None).start(&child.program).await.map_err(Verdict::broken)?;
    ensure!(ended.success(), "the last child ended with {ended}");
    judge_journal(&Journal::read(&journal).map_err(Verdict::broken)?, DUPLICATES_MAX)?;
    let stats = line_bench.bench.stats(&crate::child::LANE.parse()?).await?;
    ensure_eq!((stats.unread, stats.waiting, stats.dead), (0, 0, 0), "unread, waiting, dead");
    let committed = line_bench.bench.find(&Filter::default()).await?.len() as u64;
    ensure_eq!(stats.accepted, committed, "accepted: what is delivered twice counts once");
    Ok(())
}

/// Drops a relay when an event was delivered at its second attempt and settled, while one before it is unanswered: the next
/// relay does not deliver it again, and it counts once.
pub async fn a_crash_before_the_place_passes_a_delivered_retry_does_not_repeat_it(
    line_bench: LineBench,
) -> LawResult {
    line_bench.bench.publish(&["gap", "retried"]).await?;
    let first = Scripted::new().script("gap", [Say::Nothing]).script("retried", [Say::Failed]);
    let relay = Running::start(line_bench.store(), vec![line("main", &first)?]);
    let name: LaneName = "main".parse()?;
    eventually(SOON, "the retry is delivered and settled", async || {
        line_bench.bench.stats(&name).await.is_ok_and(|stats| stats.delivered == 1)
    })
    .await?;
    drop(relay);
    let second = Scripted::new();
    let relay = Running::start(line_bench.store(), vec![line("main", &second)?]);
    line_bench.until_settled("main").await?;
    relay.stop().await?;
    ensure_eq!(second.acknowledged(), ["gap"], "what the second relay delivered");
    let stats = line_bench.bench.stats(&name).await?;
    ensure_eq!((stats.accepted, stats.delivered), (2, 2), "accepted, delivered");
    Ok(())
}

/// Whether a child ended by itself without an exit code, as `abort` does.
fn was_killed(ended: ExitStatus) -> bool {
    ended.code().is_none()
}

pub(super) fn judge_journal(journal: &Journal, duplicates_max: usize) -> LawResult {
    let answered: HashSet<&String> = journal.accepted.iter().collect();
    let mut history = History::new();
    for (id, key) in &journal.tried {
        let known = if answered.contains(id) { Known::Accepted } else { Known::Unknown };
        history.published(id, Some(key), known);
    }
    journal.delivered.iter().for_each(|id| history.delivered(id));
    let judgement = history.judge();
    ensure!(judgement.accepted > 0, "nothing was accepted");
    ensure!(judgement.is_good(duplicates_max), "{}: {judgement:?}", judgement.summary(duplicates_max));
    Ok(())
}

/// Removes the journal when the law ends, however it ends.
pub(super) struct RemoveFile<'a>(pub(super) &'a Path);

impl Drop for RemoveFile<'_> {
    fn drop(&mut self) {
        // If it was never written there is nothing to remove.
        let _ = std::fs::remove_file(self.0);
    }
}
