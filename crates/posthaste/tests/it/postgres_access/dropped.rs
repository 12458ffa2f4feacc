//! Futures that are dropped at each of their polls: by a timeout, a select, a client that went away. No transaction stays
//! open, no connection is lost, and the store goes on.

#![expect(clippy::async_yields_async, reason = "each preparation answers the future that is dropped")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::BoxFuture;
use posthaste::admin::{Actor, Command, Filter, Pace, Page, Seek, all_lanes};
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::publisher::Published;
use posthaste::schema::Backend;
use posthaste::store::{Lease, Outcome, Owner, Room, Settled, StoreOptions, Then, open_with};
use posthaste::target::{DeliverError, DeliverKind};
use posthaste_testkit::wait::eventually;
use tokio_postgres::Client;

use crate::postgres_access::scope::Scope;

/// As many connections as a store has.
const CONNECTIONS: usize = 16;
const SOON: Duration = Duration::from_secs(30);

/// Drops a future right after so many polls that did not end it: answers `None` then.
struct DropAfter<F> {
    inner: Option<Pin<Box<F>>>,
    polls_left: u32,
}

impl<F: Future> Future for DropAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polls_left -= 1;
        let inner = self.inner.as_mut().expect("it is polled until it answers");
        match inner.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls_left > 0 => Poll::Pending,
            Poll::Pending => {
                self.inner = None;
                Poll::Ready(None)
            }
        }
    }
}

/// Begins this anew and drops it after one poll, after two, and so on until it comes to its end; answers how often it was
/// dropped. After each drop nothing of it may be left in the database.
async fn drop_at_every_poll<F: Future>(what: &str, admin: &Client, mut begin: impl AsyncFnMut() -> F) -> u32 {
    for polls in 1.. {
        let future = begin().await;
        let ended = DropAfter { inner: Some(Box::pin(future)), polls_left: polls }.await.is_some();
        nothing_is_open(&format!("{what}, dropped after {polls} polls"), admin).await;
        if ended {
            return polls - 1;
        }
        assert!(polls < 500, "{what} never ends");
    }
    unreachable!("the loop ends by itself")
}

async fn nothing_is_open(what: &str, admin: &Client) {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                AND application_name = 'posthaste' AND state <> 'idle'";
    eventually(SOON, &format!("no transaction is open: {what}"), async || {
        admin.query_one(open, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await
    .unwrap();
}

struct Stand {
    store: Arc<dyn Backend>,
    lane: LaneSpec,
    owner: Owner,
}

impl Stand {
    async fn lease(&self) -> Lease {
        self.store.acquire(&self.lane, &self.owner).await.unwrap().expect("the same owner")
    }

    async fn publish(&self, count: usize) {
        let mut event = Envelope::new("x", "{}");
        event.key = Some("k".to_owned());
        let events = (0..count).map(|_| {
            event.id = Envelope::new("x", "").id;
            event.clone()
        });
        self.store.publish(events.collect()).await.unwrap();
    }

    /// A lease, and outcomes of what it handed out: delivered, or failed and thus to be parked.
    async fn to_settle(&self, fails: bool) -> (Lease, Vec<Settled>) {
        self.publish(2).await;
        let lease = self.lease().await;
        let claimed = self.store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
        let outcome = || match fails {
            true => Outcome::Dead { error: DeliverError::new(DeliverKind::Failed, "no", "no") },
            false => Outcome::Delivered,
        };
        let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, outcome()));
        (lease, outcomes.collect())
    }
}

#[tokio::test]
async fn what_is_dropped_at_any_poll_leaves_nothing_open_and_loses_no_connection() {
    let trial = "dropped::what_is_dropped_at_any_poll_leaves_nothing_open_and_loses_no_connection";
    let Some(scope) = Scope::new(trial).await else { return };
    let mut options = StoreOptions::default();
    // The first of many that wait together must not give up before the last has connected.
    options.lock_timeout = 2 * SOON;
    let (store, admin) = (open_with(&scope.url, options).await.unwrap(), scope.session().await);

    let migrate = async || Arc::clone(&store);
    let drops = drop_at_every_poll("migrate", &admin, async || {
        let store = migrate().await;
        async move { store.migrate().await.unwrap() }
    })
    .await;
    assert!(drops >= 4, "migrate was dropped {drops} times");

    let lane = LaneSpec::new("main".parse().unwrap());
    let stand = Stand { store: Arc::clone(&store), lane, owner: Owner::new("test") };
    every_operation(&stand, &admin).await;
    no_connection_is_lost(&store, &scope, &admin).await;

    // Nothing of all that stands in the way of the next one.
    let lease = stand.lease().await;
    stand.publish(1).await;
    // The first stretch may hold nothing but what was settled before.
    let what = "what is unread is handed out";
    let claims = eventually(SOON, what, async || {
        !store.claim(&lease, Room { events: 100, bytes: 1 << 20 }).await.unwrap().is_empty()
    });
    claims.await.unwrap();
    scope.end().await;
}

async fn every_operation(stand: &Stand, admin: &Client) {
    let store = &stand.store;
    let mut seen = Vec::new();
    let mut note = |what: &str, drops: u32| seen.push((what.to_owned(), drops));
    let room = Room { events: 10, bytes: 1 << 20 };

    note(
        "acquire",
        drop_at_every_poll("acquire", admin, async || store.acquire(&stand.lane, &stand.owner)).await,
    );
    note(
        "publish",
        drop_at_every_poll("publish", admin, async || store.publish(vec![Envelope::new("x", "{}")])).await,
    );
    let claim = async || {
        stand.publish(1).await;
        let (store, lease) = (Arc::clone(store), stand.lease().await);
        async move { store.claim(&lease, room).await.unwrap() }
    };
    note("claim", drop_at_every_poll("claim", admin, claim).await);
    for (what, fails) in [("settle in one statement", false), ("settle that parks", true)] {
        let settle = async || {
            let (store, (lease, outcomes)) = (Arc::clone(store), stand.to_settle(fails).await);
            async move { store.settle(&lease, outcomes, Then::Hold).await.unwrap() }
        };
        note(what, drop_at_every_poll(what, admin, settle).await);
    }
    note("lanes", drop_at_every_poll("lanes", admin, async || all_lanes(&**store)).await);
    note("status", drop_at_every_poll("status", admin, async || store.status()).await);
    note("count", drop_at_every_poll("count", admin, async || store.count()).await);
    let mut filter = Filter::default();
    filter.lane = Some(stand.lane.name.clone());
    note("find", drop_at_every_poll("find", admin, async || store.find(&filter, Page::first(10))).await);
    let (by, pace) = (Actor::new("test", "test"), Pace::full());
    for (filter, command) in commands(&filter) {
        let what = command.name().to_owned();
        let apply = async || -> BoxFuture<'_, _> { store.apply(&filter, command.clone(), &by, &pace) };
        note(&what, drop_at_every_poll(&what, admin, apply).await);
    }
    // Each has more than one moment at which it waits for the server; a wait has only itself.
    assert!(seen.iter().all(|(_, drops)| *drops >= 1), "{seen:?}");
    drop_at_every_poll("wait", admin, async || store.wait(&stand.lane, Duration::from_millis(1))).await;
}

fn commands(of_lane: &Filter) -> Vec<(Filter, Command)> {
    let age = Some(Duration::from_secs(3600));
    vec![
        (of_lane.clone(), Command::Redrive { dry_run: false }),
        (of_lane.clone(), Command::Replay { dry_run: false }),
        (of_lane.clone(), Command::Discard { reason: "test".to_owned(), dry_run: false }),
        (of_lane.clone(), Command::Pause),
        (of_lane.clone(), Command::Resume),
        (of_lane.clone(), Command::Seek { to: Seek::Beginning, dry_run: false }),
        (Filter::default(), Command::Prune { delivered_age: age, dead_age: age, dry_run: false }),
    ]
}

/// As many publishes as there are connections wait at the same time for somebody who inserted the same id before.
async fn no_connection_is_lost(store: &Arc<dyn Backend>, scope: &Scope, admin: &Client) {
    let first = scope.session().await;
    first
        .batch_execute(
            "BEGIN; INSERT INTO posthaste_events (event_id, event_type, payload) VALUES ('one', 'x', '{}')",
        )
        .await
        .unwrap();
    let mut event = Envelope::new("x", "{}");
    event.id = "one".to_owned();
    let all_wait = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND \
                       application_name = 'posthaste' AND wait_event_type = 'Lock'";
        eventually(SOON, "every connection is in use", async || {
            admin.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == CONNECTIONS as i64
        })
        .await
        .unwrap();
        first.batch_execute("ROLLBACK").await.unwrap();
    };
    let publishes = join_all((0..CONNECTIONS).map(|_| store.publish(vec![event.clone()])));
    let (published, ()) = futures_util::join!(publishes, all_wait);
    let now = published.into_iter().filter(|published| matches!(published.as_deref(), Ok([Published::Now])));
    assert_eq!(now.count(), 1);
}
