//! Retention in the background: what every lane has passed and is old enough goes.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Actor, Command, Filter};
use posthaste::schema::Backend;
use posthaste::telemetry::metric;

/// A process that is restarted often must prune too, so the first round does not wait for a whole long interval.
const FIRST_AFTER_MAX: Duration = Duration::from_secs(60);

/// Prunes at this interval, for ever.
pub(super) async fn run(store: Arc<dyn Backend>, retain: Duration, interval: Duration) {
    let mut pause = interval.min(FIRST_AFTER_MAX);
    loop {
        tokio::time::sleep(pause).await;
        turn(&*store, retain).await;
        pause = interval;
    }
}

/// One round. A store that fails is asked again at the next.
async fn turn(store: &dyn Backend, retain: Duration) {
    let command = Command::Prune { delivered_age: Some(retain), dead_age: None, dry_run: false };
    match store.apply(&Filter::default(), command, &Actor::new("posthaste", "serve")).await {
        Ok(applied) => {
            metrics::counter!(metric::PRUNED_TOTAL).increment(applied.changed);
            tracing::debug!(events = applied.changed, "pruned");
        }
        Err(error) => tracing::warn!(%error, "failed to prune; trying again at the next interval"),
    }
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
        turn(&store, retain).await;
        assert_eq!(left().await, 1);
        clock.advance(2 * retain);
        turn(&store, retain).await;
        assert_eq!(left().await, 0);
    }
}
