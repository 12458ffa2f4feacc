//! Administrators at work while lanes are driven: tables that are locked, and a sequence that is changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::admin::all_lanes;
use posthaste::relay::{Lane, Relay, Tenure, Trouble};
use posthaste::schema::Backend;
use posthaste_testkit::drive::keyed;
use posthaste_testkit::rig::Rig;
use posthaste_testkit::target::Scripted;
use posthaste_testkit::wait::eventually;
use tokio_postgres::Client;

use crate::postgres_faults::{connect, scope};

const SOON: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(1);
/// As many server processes as a store may have.
const CONNECTIONS_MAX: i64 = 16;

/// A store of a relay of its own, whose connections have this name on the server.
async fn store(rig: &dyn Rig, name: &str) -> Arc<dyn Backend> {
    let url = rig.url().unwrap();
    let separator = if url.contains('?') { '&' } else { '?' };
    posthaste::store::open(&format!("{url}{separator}application_name={name}")).await.unwrap()
}

/// A relay that drives lanes of these names.
async fn relay(rig: &dyn Rig, name: &str, lanes: &[&str], target: &Scripted) -> Relay {
    let relay = Relay::new(store(rig, name).await).id(name).poll_max(Duration::from_millis(20));
    let lane = |name: &&str| Lane::named(name).unwrap().to(Arc::new(target.clone())).lease(LEASE);
    lanes.iter().map(lane).fold(relay, Relay::lane)
}

/// A session of the server's administrator in the same database.
async fn administrator(rig: &dyn Rig) -> Client {
    let url = rig.url().unwrap();
    let (_, rest) = url.split_once('@').unwrap();
    connect(&format!("postgres://postgres@{rest}")).await
}

async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    eventually(SOON, what, holds).await.unwrap();
}

/// `LOCK TABLE … ACCESS EXCLUSIVE`, as VACUUM FULL, ALTER TABLE or a stuck migration hold it.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_table_does_not_make_a_relay_use_up_the_connections_of_the_server() {
    let trial = "a_locked_table_does_not_make_a_relay_use_up_the_connections_of_the_server";
    let Some(rig) = scope(trial).await else { return };
    let (target, producer) = (Scripted::new(), rig.open().await.unwrap());
    let relay = relay(rig.as_ref(), "locked-out", &["one", "two", "three"], &target).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let locking = async {
        producer.publish(vec![keyed("before", "k")]).await.unwrap();
        until("all lanes are driven", async || target.acknowledged().len() == 3).await;
        let (admin, watch) = (administrator(rig.as_ref()).await, administrator(rig.as_ref()).await);
        admin.batch_execute("BEGIN; LOCK TABLE posthaste_events IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let begun = Instant::now();
        // Long enough for many leases to end. One that left its claim behind would leave a process that
        // waits.
        while begun.elapsed() < LEASE * 12 {
            let count = "SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock')
                         FROM pg_stat_activity WHERE application_name = 'locked-out'";
            let counted = watch.query_one(count, &[]).await.unwrap();
            let (all, waiting): (i64, i64) = (counted.get(0), counted.get(1));
            assert!(all <= CONNECTIONS_MAX, "the relay has {all} server processes");
            // The claim of each lane, and one that is just being cancelled.
            assert!(waiting <= 2 * 3, "{waiting} server processes of three lanes wait for the lock");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        admin.batch_execute("COMMIT").await.unwrap();
        producer.publish(vec![keyed("after", "k")]).await.unwrap();
        until("every lane goes on", async || {
            target.acknowledged().iter().filter(|id| *id == "after").count() == 3
        })
        .await;
        drop(stop);
    };
    let (ended, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), locking);
    ended.unwrap();
}

/// An administrator's ALTER SEQUENCE keeps a list of lanes waiting only for `store.lock_timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_lanes_waits_for_a_locked_sequence_only_so_long() {
    let Some(rig) = scope("a_list_of_lanes_waits_for_a_locked_sequence_only_so_long").await else { return };
    let url = rig.url().unwrap();
    let mut options = posthaste::store::StoreOptions::default();
    options.lock_timeout = Duration::from_millis(200);
    let store = posthaste::store::open_with(&url, options).await.unwrap();
    let lane = posthaste::lane::LaneSpec::new("main".parse().unwrap());
    store.acquire(&lane, &posthaste::store::Owner::new("relay")).await.unwrap().unwrap();
    let admin = administrator(rig.as_ref()).await;
    admin.batch_execute("BEGIN; ALTER SEQUENCE posthaste_events_seq CACHE 1").await.unwrap();
    // Far below the limit of a statement, which would end it too.
    let listed = tokio::time::timeout(Duration::from_secs(20), all_lanes(&*store)).await;
    let error = listed.expect("the store ends the wait").expect_err("the sequence is locked");
    assert!(error.retryable(), "{error}");
    admin.batch_execute("ROLLBACK").await.unwrap();
    all_lanes(&*store).await.unwrap();
}

fn is_refused(tenure: &Tenure) -> bool {
    tenure.trouble() == Some(Trouble::Refused)
}

/// With `CACHE 20` every session takes numbers in advance, and the events of a key are no longer in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_is_changed_while_it_is_driven_stops_owner_and_spare_until_it_is_repaired() {
    let trial = "a_sequence_that_is_changed_while_it_is_driven_stops_owner_and_spare_until_it_is_repaired";
    let Some(rig) = scope(trial).await else { return };
    let (target, producer) = (Scripted::new(), rig.open().await.unwrap());
    let owner = relay(rig.as_ref(), "owner", &["main"], &target).await;
    let spare = relay(rig.as_ref(), "spare", &["main"], &target).await;
    let tenures = [&owner, &spare].map(|relay| relay.tenures().remove(0));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let changing = async {
        producer.publish(vec![keyed("before", "k")]).await.unwrap();
        until("the lane is driven", async || target.acknowledged() == ["before"]).await;
        let admin = administrator(rig.as_ref()).await;
        admin.batch_execute("ALTER SEQUENCE posthaste_events_seq CACHE 20").await.unwrap();
        // The owner's next connections are new ones. Without that it notices within a minute.
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name IN ('owner', 'spare')";
        admin.batch_execute(cut).await.unwrap();
        until("both give the lane up", async || tenures.iter().all(is_refused)).await;
        producer.publish(vec![keyed("meanwhile", "k")]).await.unwrap();
        admin.batch_execute("ALTER SEQUENCE posthaste_events_seq CACHE 1").await.unwrap();
        until("one of them goes on", async || target.acknowledged() == ["before", "meanwhile"]).await;
        until("both are well", async || tenures.iter().all(|tenure| tenure.trouble().is_none())).await;
        drop(stop);
    };
    // The sender is dropped at the end, which is an answer too.
    let [one, other] =
        [stopped.clone(), stopped].map(|mut stopped| async move { drop(stopped.changed().await) });
    let (owner, spare, ()) = tokio::join!(owner.run(one), spare.run(other), changing);
    owner.unwrap();
    spare.unwrap();
}
