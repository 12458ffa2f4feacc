//! Retention in the background: what every lane has passed and is old enough goes; a lane that nobody drives holds back
//! what it has not read, but not for ever.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use posthaste::Result;
use posthaste::admin::{Actor, Admin, Applied, Command, Filter, LaneStats, Pace, all_lanes};
use posthaste::heartbeat::Heartbeat;
use posthaste::schema::Backend;
use posthaste::telemetry::metric;
use posthaste::time::{Clock, SystemClock, Timestamp};
use tokio::time::Instant;

use crate::config::Config;
use crate::config::store::StoreConfig;

/// A process that is restarted often must prune too, so the first round does not wait for a whole long interval.
const FIRST_AFTER_MAX: Duration = Duration::from_secs(60);
/// How often the loop says that it turns while it waits, and how long it may say nothing.
const BEAT_EVERY: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(600);

/// What goes, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    /// Of a log.
    Log {
        /// Events, after every lane has passed them.
        retain: Duration,
        /// What a lane holds back that nobody drives.
        retain_max: Duration,
        /// What consumers have handled, after that.
        retain_inbox: Duration,
    },
    /// Of an outbox table: delivered rows, after so long.
    Table(Duration),
    /// Nothing: the table's owner removes its rows.
    Nothing,
}

impl Retention {
    /// What this configuration wants. Rows of somebody else's table go only if somebody wrote for how long they are kept.
    pub(super) fn of(config: &Config) -> Self {
        let store = &config.store;
        let StoreConfig { retain, retain_max, retain_inbox, .. } = *store;
        match store.table {
            None => Self::Log { retain, retain_max, retain_inbox },
            Some(_) if store.is_retain_set => Self::Table(retain),
            Some(_) => Self::Nothing,
        }
    }
}

/// The heartbeat of this loop. One step may take long where much is to be removed from a slow store.
pub(super) fn heartbeat() -> Heartbeat {
    Heartbeat::new("retention", PATIENCE)
}

/// Prunes at this interval, for ever; `via` is what the record says about who it was.
pub(super) async fn run(
    store: Arc<dyn Backend>,
    retention: Retention,
    interval: Duration,
    via: &'static str,
    heartbeat: Heartbeat,
) {
    let mut pause = interval.min(FIRST_AFTER_MAX);
    loop {
        rest(pause, &heartbeat).await;
        let round = Round { store: &*store, by: Actor::new("posthaste", via), heartbeat: heartbeat.clone() };
        if let Err(error) = round.turn(retention, SystemClock.now()).await {
            tracing::warn!(%error, "failed to prune; trying again at the next interval");
        }
        pause = interval;
    }
}

/// Says that the loop turns also while there is nothing to do.
async fn rest(pause: Duration, heartbeat: &Heartbeat) {
    let end = Instant::now() + pause;
    while Instant::now() < end {
        heartbeat.beat();
        tokio::time::sleep_until(end.min(Instant::now() + BEAT_EVERY)).await;
    }
    heartbeat.beat();
}

/// One round.
struct Round<'a> {
    store: &'a dyn Admin,
    by: Actor,
    heartbeat: Heartbeat,
}

impl Round<'_> {
    /// A store that fails is asked again at the next round.
    async fn turn(&self, retention: Retention, now: Timestamp) -> Result<()> {
        match retention {
            Retention::Log { retain, retain_max, retain_inbox } => {
                for lane in all_lanes(self.store).await? {
                    // What holds back one lane must not hold back all others, and the log grow with it.
                    if let Err(error) = self.bound(&lane, retain_max, now).await {
                        let lane = lane.lane.as_str();
                        tracing::error!(lane, %error, "failed to move a lane that nobody drives; trying again at the next interval");
                    }
                }
                let events = self.prune(retain).await?;
                let command = Command::PruneInbox { age: retain_inbox, dry_run: false };
                let forgotten = self.apply(&Filter::default(), command).await?;
                tracing::debug!(events, inbox_rows = forgotten.changed, "pruned");
            }
            Retention::Table(retain) => {
                let events = self.prune(retain).await?;
                tracing::debug!(events, "pruned");
            }
            Retention::Nothing => {}
        }
        Ok(())
    }

    /// Does it, and says after every step that the loop turns.
    async fn apply(&self, filter: &Filter, command: Command) -> Result<Applied> {
        let so_far = |_| {
            self.heartbeat.beat();
            ControlFlow::Continue(())
        };
        let applied = self.store.apply(filter, command, &self.by, &Pace::telling(&so_far)).await;
        self.heartbeat.beat();
        applied
    }

    /// Delivered events go that are older than this.
    async fn prune(&self, retain: Duration) -> Result<u64> {
        let command = Command::Prune { delivered_age: Some(retain), dead_age: None, dry_run: false };
        let applied = self.apply(&Filter::default(), command).await?;
        metrics::counter!(metric::PRUNED_TOTAL).increment(applied.changed);
        Ok(applied.changed)
    }

    /// Moves a lane that nobody drives past what it has held back for too long; warns from half that time on.
    async fn bound(&self, lane: &LaneStats, retain_max: Duration, now: Timestamp) -> Result<()> {
        let held = lane.oldest_unread_at.filter(|_| lane.owner.is_none()).map(|oldest| now.since(oldest));
        let Some(held) = held.filter(|held| *held > retain_max / 2) else { return Ok(()) };
        let name = lane.lane.as_str();
        if held <= retain_max {
            tracing::warn!(
                lane = name,
                ?held,
                ?retain_max,
                "nobody drives this lane, and it holds events back; run a relay for it, or remove it"
            );
            return Ok(());
        }
        let mut filter = Filter::default();
        filter.lane = Some(lane.lane.clone());
        let reason = "nobody drove it, and it was moved past events older than store.retain_max".to_owned();
        let skip = Command::Skip { age: retain_max, reason, dry_run: false };
        let applied = self.apply(&filter, skip).await?;
        tracing::error!(
            lane = name,
            events = applied.matched,
            ?retain_max,
            "nobody drives this lane; it was moved past events older than store.retain_max, without delivering them"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use posthaste::BoxFuture;
    use posthaste::admin::{Found, Lanes, Page};
    use posthaste::envelope::Envelope;
    use posthaste::lane::LaneSpec;
    use posthaste::memory::Memory;
    use posthaste::publisher::Publisher as _;
    use posthaste::store::{Outcome, Owner, Room, Settled, Store as _, Then};
    use posthaste::time::{ManualClock, Timestamp};

    use super::*;
    use crate::config::{Environment, Sources};

    async fn turn(store: &dyn Admin, retention: Retention, now: Timestamp) -> Result<()> {
        let (by, heartbeat) = (Actor::new("posthaste", "test"), heartbeat());
        Round { store, by, heartbeat }.turn(retention, now).await
    }

    #[test]
    fn rows_of_somebody_else_go_only_if_somebody_wrote_for_how_long() {
        let of = |variables: &[(&str, &str)]| {
            let environment = Environment::of(variables);
            let sources = Sources { file: None, environment, flags: Vec::new(), reference: false };
            Retention::of(&sources.load().unwrap().0)
        };
        let table = ("POSTHASTE__STORE__ENGINE", "table");
        assert_eq!(of(&[table]), Retention::Nothing);
        let day = Duration::from_secs(86_400);
        assert_eq!(of(&[table, ("POSTHASTE__STORE__RETAIN", "1d")]), Retention::Table(day));
        assert!(matches!(of(&[]), Retention::Log { .. }));
    }

    /// One event that the only lane has delivered: it goes when it is older than `retain`, and not before.
    #[tokio::test(start_paused = true)]
    async fn a_delivered_event_goes_when_it_is_old_enough() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = Memory::on(clock.clone());
        store.publish(vec![Envelope::new("x", "{}")]).await.unwrap();
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        let claimed = store.claim(&lease, Room { events: 1, bytes: 1 }).await.unwrap();
        let settled = Settled::new(claimed[0].ticket, Outcome::Delivered);
        store.settle(&lease, vec![settled], Then::GiveUp).await.unwrap();
        let left = async || store.find(&Filter::default(), Page::first(10)).await.unwrap().records.len();

        let retain = Duration::from_secs(3600);
        let retention = Retention::Log { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 1);
        clock.advance(2 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 0);
    }

    /// An event that a consumer has handled is remembered as long as that is asked for, and not longer.
    #[tokio::test(start_paused = true)]
    async fn what_consumers_have_handled_is_forgotten_when_it_is_old_enough() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = Memory::on(clock.clone());
        let inbox = posthaste::consumer::Inbox::of("stock");
        let mut event = Envelope::new("x", "{}");
        event.id = "e".to_owned();
        let enter = async || {
            let mut tx = store.begin();
            let entered = inbox.enter(&mut tx, &[&event]).await.unwrap();
            tx.commit().unwrap();
            entered
        };
        assert_eq!(enter().await, 1, "it is new");
        let retain = Duration::from_secs(3600);
        let retention = Retention::Log { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
        clock.advance(4 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(enter().await, 0, "it is remembered");
        clock.advance(2 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(enter().await, 1, "it is forgotten");
    }

    /// A lane that was driven once and never again: its unread events go only after `retain_max`, and the audit says so.
    #[tokio::test(start_paused = true)]
    async fn a_lane_that_nobody_drives_holds_events_back_only_so_long() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = Memory::on(clock.clone());
        let lane = LaneSpec::new("main".parse().unwrap());
        let lease = store.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
        store.settle(&lease, Vec::new(), Then::GiveUp).await.unwrap();
        store.publish(vec![Envelope::new("x", "{}")]).await.unwrap();
        let left = async || store.find(&Filter::default(), Page::first(10)).await.unwrap().records.len();

        let retain = Duration::from_secs(3600);
        let retention = Retention::Log { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
        clock.advance(9 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 1);
        clock.advance(2 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 0);
        assert!(store.audit().iter().any(|entry| format!("{entry:?}").contains("skip")));
        let lane = all_lanes(&store).await.unwrap().remove(0);
        assert_eq!((lane.accepted, lane.discarded), (1, 1), "what it never read is counted");
        assert!(lane.reason.is_some_and(|reason| reason.contains("retain_max")));
    }

    /// A store in which one lane cannot be moved.
    struct Stuck(Memory);

    impl Admin for Stuck {
        fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>> {
            self.0.lanes(page)
        }

        fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>> {
            self.0.find(filter, page)
        }

        fn apply<'a>(
            &'a self,
            filter: &'a Filter,
            command: Command,
            by: &'a Actor,
            pace: &'a Pace<'a>,
        ) -> BoxFuture<'a, Result<Applied>> {
            if filter.lane.as_ref().is_some_and(|lane| lane.as_str() == "a-stuck") {
                return Box::pin(async { Err(posthaste::Error::unavailable("it takes too long")) });
            }
            self.0.apply(filter, command, by, pace)
        }
    }

    /// Two lanes that nobody drives, the first of which cannot be moved: the second is, and the round goes on to its end.
    #[tokio::test(start_paused = true)]
    async fn a_lane_that_cannot_be_moved_holds_no_other_back() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = Stuck(Memory::on(clock.clone()));
        for name in ["a-stuck", "b-free"] {
            let lane = LaneSpec::new(name.parse().unwrap());
            let lease = store.0.acquire(&lane, &Owner::new("test")).await.unwrap().unwrap();
            store.0.settle(&lease, Vec::new(), Then::GiveUp).await.unwrap();
        }
        store.0.publish(vec![Envelope::new("x", "{}")]).await.unwrap();
        let retain = Duration::from_secs(3600);
        let retention = Retention::Log { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
        clock.advance(11 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        let unread: Vec<u64> = all_lanes(&store).await.unwrap().iter().map(|lane| lane.unread).collect();
        assert_eq!(unread, [1, 0], "what each has not read");
        let verbs: Vec<_> = store.0.audit().into_iter().map(|entry| entry.command).collect();
        assert_eq!(verbs, ["skip", "prune", "prune-inbox"]);
    }
}
