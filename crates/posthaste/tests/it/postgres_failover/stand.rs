//! A private server that may be killed, followed, promoted and copied, and a store on it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::schema::Backend;
use posthaste::store::{Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Then};
use posthaste_testkit::proxy::Proxy;
use posthaste_testservers::{Interrupt, Kind, Run, Server};
use tokio_postgres::{Client, NoTls};

/// No fact of these tests takes nearly so long.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Short, so that a take-over does not take long.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);

/// A server of a test's own, and whatever else the test starts.
pub(crate) struct Stand {
    pub(crate) run: Arc<Run>,
    pub(crate) primary: Server,
}

impl Stand {
    /// A fresh server with our tables; `None`, said on stderr, where it cannot be had.
    pub(crate) async fn start(trial: &str, needs: &[Kind]) -> Option<Self> {
        let missing = [&[Kind::Postgres], needs].concat().into_iter().find(|kind| !kind.is_installed());
        if let Some(kind) = missing {
            let is_ci = posthaste_testkit::harness::Settings::from_env().all_required;
            assert!(!is_ci, "{} is not installed", kind.name());
            eprintln!("skipped: {trial}: {} is not installed", kind.name());
            return None;
        }
        let stand = blocking(|| {
            let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
            let mut primary = Server::new(Kind::Postgres, &run, None).unwrap();
            primary.start().unwrap();
            Self { run, primary }
        });
        open(&stand.primary.url()).await.migrate().await.unwrap();
        Some(stand)
    }

    /// A standby of the primary, started.
    pub(crate) fn standby(&self) -> Server {
        blocking(|| {
            let mut standby = Server::standby_of(&self.primary, &self.run).unwrap();
            standby.start().unwrap();
            standby
        })
    }

    /// A pooler in front of this server, started.
    pub(crate) fn pooler(&self, of: &Server) -> Server {
        blocking(|| {
            let mut pooler = Server::new(Kind::Pgbouncer, &self.run, Some(&of.url())).unwrap();
            pooler.start().unwrap();
            pooler
        })
    }

    /// Ends the primary by SIGKILL and starts it again.
    pub(crate) fn crash(&mut self) {
        blocking(|| {
            self.primary.kill().unwrap();
            self.primary.start().unwrap();
        });
    }
}

/// Starting and ending servers blocks; the other tasks of the test go on meanwhile.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

/// Makes a standby take changes, and waits until it does.
pub(crate) async fn promote(standby: &Server) {
    sql(&standby.url(), "SELECT pg_promote(true, 60)").await;
}

/// A store at this URL.
pub(crate) async fn open(url: &str) -> Arc<dyn Backend> {
    posthaste::store::open(url).await.unwrap()
}

/// The same URL with another address.
pub(crate) fn through(url: &str, proxy: &Proxy) -> String {
    url.replace(&address(url).to_string(), &proxy.address().to_string())
}

/// The address in a URL of a private server.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.rsplit_once('@').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

/// The same server's other database.
pub(crate) fn database(url: &str, name: &str) -> String {
    format!("{}/{name}", url.rsplit_once('/').unwrap().0)
}

/// A connection of the test's own; it lives as long as its client.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// Runs these statements, each in a transaction of its own.
pub(crate) async fn sql(url: &str, statements: &str) {
    let client = connect(url).await;
    for statement in statements.split(";\n") {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// One text that a query answers.
pub(crate) async fn ask(url: &str, query: &str) -> String {
    let rows = connect(url).await.query(query, &[]).await.unwrap();
    rows[0].try_get::<_, Option<String>>(0).unwrap().unwrap_or_default()
}

/// What a producer of any language says to publish these events.
pub(crate) fn insert(ids: &[&str]) -> String {
    let rows: Vec<String> = ids.iter().map(|id| format!("('{id}', 'order.placed', '{{}}')")).collect();
    format!("INSERT INTO posthaste_events (event_id, event_type, payload) VALUES {}", rows.join(", "))
}

/// Publishes them, each in a transaction of its own, as many do.
pub(crate) async fn publish(url: &str, ids: &[&str]) {
    let client = connect(url).await;
    for id in ids {
        client.batch_execute(&insert(&[id])).await.unwrap();
    }
}

/// The ids of all events that the database has, sorted.
pub(crate) async fn stored(url: &str) -> Vec<String> {
    let rows =
        connect(url).await.query("SELECT event_id FROM posthaste_events ORDER BY 1", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// A lane of this name.
pub(crate) fn lane(name: &str) -> LaneSpec {
    let mut spec = LaneSpec::new(name.parse().unwrap());
    spec.lease = LEASE;
    spec
}

/// Takes the lane, waiting out what the owner before left and a server that is being started.
pub(crate) async fn take(store: &Arc<dyn Backend>, spec: &LaneSpec, owner: &Owner) -> Lease {
    let mut lease = None;
    let taken = posthaste_testkit::wait::eventually(SOON, "the lane can be taken", async || {
        lease = store.acquire(spec, owner).await.ok().flatten();
        lease.is_some()
    });
    taken.await.unwrap_or_else(|_| panic!("the lane {} cannot be taken", spec.name));
    lease.unwrap()
}

/// Claims what there is.
pub(crate) async fn claim(store: &Arc<dyn Backend>, lease: &Lease) -> posthaste::Result<Vec<Claimed>> {
    store.claim(lease, Room { events: 1_000, bytes: u64::MAX }).await
}

/// Their ids, in order.
pub(crate) fn ids(claimed: &[Claimed]) -> Vec<String> {
    claimed.iter().map(|claimed| claimed.parcel.envelope.id.clone()).collect()
}

/// Says that all of them were delivered.
pub(crate) async fn settle(
    store: &Arc<dyn Backend>,
    lease: &Lease,
    claimed: &[Claimed],
) -> posthaste::Result<Standing> {
    let outcomes = claimed.iter().map(|claimed| Settled::new(claimed.ticket, Outcome::Delivered)).collect();
    store.settle(lease, outcomes, Then::Hold).await
}

/// Takes the lane and delivers until nothing more comes; answers the ids, in order.
pub(crate) async fn drain(store: &Arc<dyn Backend>, spec: &LaneSpec, owner: &Owner) -> Vec<String> {
    let lease = take(store, spec, owner).await;
    let (mut delivered, mut empty) = (Vec::new(), 0);
    // A claim reads up to a tick, which somebody else may have made before the last event came.
    while empty < 2 {
        let claimed = claim(store, &lease).await.unwrap();
        empty = if claimed.is_empty() { empty + 1 } else { 0 };
        delivered.extend(ids(&claimed));
        assert_eq!(settle(store, &lease, &claimed).await.unwrap(), Standing::Held);
    }
    assert_eq!(store.settle(&lease, Vec::new(), Then::GiveUp).await.unwrap(), Standing::Held);
    delivered
}
