//! Retention in the background: what every lane has passed and is old enough goes; a lane that nobody drives holds back
//! what it has not read, but not for ever.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Result;
use posthaste::admin::{Actor, Command, Filter, LaneStats};
use posthaste::schema::Backend;
use posthaste::telemetry::metric;
use posthaste::time::{Clock, SystemClock, Timestamp};

/// A process that is restarted often must prune too, so the first round does not wait for a whole long interval.
const FIRST_AFTER_MAX: Duration = Duration::from_secs(60);

/// How long events are kept.
#[derive(Clone, Copy)]
pub(super) struct Retention {
    /// After every lane has passed them.
    pub(super) retain: Duration,
    /// For a lane that nobody drives.
    pub(super) retain_max: Duration,
    /// What consumers have handled, after that.
    pub(super) retain_inbox: Duration,
}

/// Prunes at this interval, for ever.
pub(super) async fn run(store: Arc<dyn Backend>, retention: Retention, interval: Duration) {
    let mut pause = interval.min(FIRST_AFTER_MAX);
    loop {
        tokio::time::sleep(pause).await;
        if let Err(error) = turn(&*store, retention, SystemClock.now()).await {
            tracing::warn!(%error, "failed to prune; trying again at the next interval");
        }
        pause = interval;
    }
}

/// One round. A store that fails is asked again at the next.
async fn turn(store: &dyn Backend, retention: Retention, now: Timestamp) -> Result<()> {
    for lane in store.lanes().await? {
        bound(store, &lane, retention.retain_max, now).await?;
    }
    let command = Command::Prune { delivered_age: Some(retention.retain), dead_age: None, dry_run: false };
    let applied = store.apply(&Filter::default(), command, &actor()).await?;
    metrics::counter!(metric::PRUNED_TOTAL).increment(applied.changed);
    let command = Command::PruneInbox { age: retention.retain_inbox, dry_run: false };
    let forgotten = store.apply(&Filter::default(), command, &actor()).await?;
    tracing::debug!(events = applied.changed, inbox_rows = forgotten.changed, "pruned");
    Ok(())
}

/// Moves a lane that nobody drives past what it has held back for too long; warns from half that time on.
async fn bound(store: &dyn Backend, lane: &LaneStats, retain_max: Duration, now: Timestamp) -> Result<()> {
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
    let applied = store.apply(&filter, skip, &actor()).await?;
    tracing::error!(
        lane = name,
        events = applied.matched,
        ?retain_max,
        "nobody drives this lane; it was moved past events older than store.retain_max, without delivering them"
    );
    Ok(())
}

fn actor() -> Actor {
    Actor::new("posthaste", "serve")
}

#[cfg(test)]
mod tests {
    use posthaste::admin::{Admin as _, Page};
    use posthaste::envelope::Envelope;
    use posthaste::lane::LaneSpec;
    use posthaste::memory::Memory;
    use posthaste::publisher::Publisher as _;
    use posthaste::store::{Outcome, Owner, Room, Settled, Store as _, Then};
    use posthaste::time::{ManualClock, Timestamp};

    use super::*;

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
        let retention = Retention { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
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
        let retention = Retention { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
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
        let retention = Retention { retain, retain_max: 10 * retain, retain_inbox: 5 * retain };
        clock.advance(9 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 1);
        clock.advance(2 * retain);
        turn(&store, retention, clock.now()).await.unwrap();
        assert_eq!(left().await, 0);
        assert!(store.audit().iter().any(|entry| format!("{entry:?}").contains("skip")));
        let lane = store.lanes().await.unwrap().remove(0);
        assert_eq!((lane.accepted, lane.discarded), (1, 1), "what it never read is counted");
        assert!(lane.reason.is_some_and(|reason| reason.contains("retain_max")));
    }
}
