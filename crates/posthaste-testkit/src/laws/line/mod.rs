//! What the whole line promises: a store, a relay, a target.

pub mod crashing;
pub mod delivering;
pub mod failing;
pub mod freezing;
pub mod sharing;
pub mod stopping;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::lane::{LaneName, LaneSpec};
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::retry::Backoff;
use posthaste_core::schema::Backend;
use posthaste_core::store::Store;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::drive::StoreBench;
use crate::ensure;
use crate::history::{History, Known};
use crate::law::{LawResult, Verdict};
use crate::target::Scripted;
use crate::wait::eventually;

/// No fact of a line law takes nearly so long.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// The lease of most line laws: short, so that a take-over does not take long; and longer than a busy machine stands still, as a relay
/// that lost its lane by that would rightly repeat what laws count.
pub(crate) const LEASE: Duration = Duration::from_secs(4);

/// A store on the host's clock, for laws with a running relay.
pub struct LineBench {
    /// The store and its scope.
    pub bench: StoreBench,
    /// How a child process opens the same data, or why it cannot.
    pub child: Result<ChildCommand, String>,
}

/// Starts this program again as a child that works on the same data until a named point; see [`crashing`].
#[derive(Clone, Debug)]
pub struct ChildCommand {
    /// The program.
    pub program: std::path::PathBuf,
    /// The backend's name.
    pub backend: String,
    /// Where the data is, in the words of whoever opens it.
    pub url: String,
}

/// A lane with a short lease that retries at once, a few times.
pub(crate) fn line(name: &str, target: &Scripted) -> Result<Lane, Verdict> {
    let policy = Backoff::fixed(Duration::from_millis(5)).attempts(3);
    Ok(Lane::named(name)?.to(Arc::new(target.clone())).retry(policy).lease(LEASE))
}

/// A relay that runs until it is told to stop. Dropping it stops it at once, as a crash would.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    tasks: JoinSet<posthaste_core::Result<()>>,
}

impl Running {
    pub(crate) fn start(store: &Arc<dyn Backend>, lanes: Vec<Lane>) -> Self {
        let store: Arc<dyn Store> = Arc::<dyn Backend>::clone(store);
        let relay = Relay::new(store).poll_max(Duration::from_millis(20)).grace(Duration::from_secs(5));
        let relay = lanes.into_iter().fold(relay, Relay::lane);
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(relay.run(async {
            // A stop that is dropped is a stop too.
            let _ = stopped.await;
        }));
        Self { stop: Some(stop), tasks }
    }

    /// Tells it to stop and does not wait.
    pub(crate) fn tell_to_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that it has ended already, and `ended` will say how.
            let _ = stop.send(());
        }
    }

    /// Waits for a clean end.
    pub(crate) async fn ended(mut self) -> LawResult {
        match tokio::time::timeout(SOON, self.tasks.join_next()).await {
            Ok(Some(Ok(Ok(())))) => Ok(()),
            Ok(ended) => Err(Verdict::broken(format_args!("the relay ended with {ended:?}"))),
            Err(_) => Err(Verdict::broken("the relay did not stop")),
        }
    }

    pub(crate) async fn stop(mut self) -> LawResult {
        self.tell_to_stop();
        self.ended().await
    }
}

impl LineBench {
    pub(crate) fn store(&self) -> &Arc<dyn Backend> {
        &self.bench.store
    }

    /// Waits until the target has acknowledged so many deliveries.
    pub(crate) async fn until_acknowledged(&self, target: &Scripted, count: usize) -> LawResult {
        let what = format!("{count} acknowledged");
        let waited = eventually(SOON, &what, async || target.acknowledged().len() >= count).await;
        waited.map_err(|_| Verdict::broken(format_args!("{what}, only {}", target.acknowledged().len())))
    }

    /// Waits until the lane has nothing unread and nothing waiting, and its totals add up.
    pub(crate) async fn until_settled(&self, lane: &str) -> LawResult {
        let name: LaneName = lane.parse()?;
        let what = format!("lane {lane} has settled everything");
        eventually(SOON, &what, async || {
            let stats = self.bench.stats(&name).await;
            stats.is_ok_and(|stats| stats.unread == 0 && stats.waiting == 0)
        })
        .await?;
        self.bench.stats(&name).await?;
        Ok(())
    }

    /// The spec of a lane as [`line`] makes it.
    pub(crate) fn spec(&self, lane: &str) -> Result<LaneSpec, Verdict> {
        let mut spec = LaneSpec::new(lane.parse()?);
        spec.lease = LEASE;
        Ok(spec)
    }
}

/// Judges what was accepted and what the target acknowledged.
pub(crate) fn judge(
    accepted: &[(String, Option<String>)],
    acknowledged: &[String],
    duplicates_max: usize,
) -> LawResult {
    let mut history = History::new();
    for (id, key) in accepted {
        history.published(id, key.as_deref(), Known::Accepted);
    }
    acknowledged.iter().for_each(|id| history.delivered(id));
    let judgement = history.judge();
    ensure!(judgement.is_good(duplicates_max), "{}: {judgement:?}", judgement.summary(duplicates_max));
    Ok(())
}
