//! A standby that missed the last moments takes over.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste::ErrorKind;
use posthaste::relay::{Lane, Relay};
use posthaste::store::{Owner, Standing};
use posthaste_testkit::proxy::Proxy;
use posthaste_testkit::target::Scripted;
use posthaste_testkit::wait::eventually;
use posthaste_testservers::Kind;

use crate::postgres_failover::stand::{
    LEASE, SOON, Stand, address, ask, blocking, claim, drain, ids, lane, open, promote, publish, settle, sql,
    stored, take, through,
};

/// The standby has the lease but not the tick that the relay reads by. Another lane makes a tick of the same number there,
/// which sees what the relay has never seen; what the relay settles by its own tick of that number must not count.
#[tokio::test(flavor = "multi_thread")]
async fn a_settle_after_a_failover_that_lost_the_tick_is_refused_and_nothing_is_lost() {
    let trial = "a_settle_after_a_failover_that_lost_the_tick_is_refused_and_nothing_is_lost";
    let Some(mut stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let proxy = Proxy::in_front_of(address(&url)).await.unwrap();
    let store = open(&through(&url, &proxy)).await;
    let (main, other, owner) = (lane("main"), lane("other"), Owner::new("relay"));
    let lease = take(&store, &main, &owner).await;
    let mut standby = stand.standby();
    caught_up(&url).await;
    blocking(|| standby.stop().unwrap());

    publish(&url, &["missed"]).await;
    let claimed = claim(&store, &lease).await.unwrap();
    assert_eq!(ids(&claimed), ["missed"]);
    let tick = "SELECT max(id)::text FROM posthaste_ticks";
    let before = ask(&url, tick).await;

    blocking(|| {
        stand.primary.kill().unwrap();
        standby.start().unwrap();
    });
    promote(&standby).await;
    let url = standby.url();
    proxy.redirect(address(&url));
    publish(&url, &["x", "y"]).await;
    assert_eq!(drain(&open(&url).await, &other, &owner).await, ["x", "y"]);
    let has_it = format!("SELECT count(*)::text FROM posthaste_ticks WHERE id = {before}");
    assert_eq!(ask(&url, &has_it).await, "1", "the test is about two ticks of one number");

    let standing = settle(&store, &lease, &claimed).await;
    assert!(!matches!(standing, Ok(Standing::Held)), "a settle by a tick that is not there: {standing:?}");
    assert_eq!(drain(&store, &main, &owner).await, stored(&url).await);
}

/// A relay that runs on through a failover: everything that the new primary has arrives, though what the relay knows is of
/// the old one, and the ids that the old one gave last are given again.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_runs_on_through_a_failover_delivers_all_that_the_new_primary_has() {
    let trial = "a_relay_that_runs_on_through_a_failover_delivers_all_that_the_new_primary_has";
    let Some(mut stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let proxy = Proxy::in_front_of(address(&url)).await.unwrap();
    let target = Scripted::new();
    let lanes =
        ["one", "two"].map(|name| Lane::named(name).unwrap().to(Arc::new(target.clone())).lease(LEASE));
    let relay = lanes.into_iter().fold(Relay::new(open(&through(&url, &proxy)).await), Relay::lane);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = relay.poll_max(Duration::from_millis(20)).run(async { drop(stopped.await) });
    let failing_over = async {
        publish_many(&url, "before", 100).await;
        until_all_are_there(&target, &url).await;
        let mut standby = stand.standby();
        caught_up(&url).await;
        blocking(|| standby.stop().unwrap());
        publish_many(&url, "missed", 100).await;
        until_all_are_there(&target, &url).await;
        blocking(|| {
            stand.primary.kill().unwrap();
            standby.start().unwrap();
        });
        promote(&standby).await;
        let url = standby.url();
        proxy.redirect(address(&url));
        publish_many(&url, "after", 200).await;
        until_all_are_there(&target, &url).await;
        stop.send(()).unwrap();
        standby
    };
    let (ended, _standby) = futures_util::future::join(running, failing_over).await;
    ended.unwrap();
}

async fn publish_many(url: &str, word: &str, count: usize) {
    let ids: Vec<String> = (0..count).map(|n| format!("{word}-{n}")).collect();
    publish(url, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// Waits until every event that the database has was acknowledged on both lanes.
async fn until_all_are_there(target: &Scripted, url: &str) {
    let stored = stored(url).await;
    let waited = eventually(SOON, "everything has arrived twice", async || {
        let mut counts = HashMap::<String, u32>::new();
        target.acknowledged().into_iter().for_each(|id| *counts.entry(id).or_default() += 1);
        stored.iter().all(|id| counts.get(id).is_some_and(|count| *count >= 2))
    });
    assert!(waited.await.is_ok(), "something that the database has did not arrive");
}

/// A pooler that sends a relay to a standby, at its start, in the middle of a window, and when it looks for more.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_behind_the_pooler_is_an_error_and_never_an_empty_window() {
    let trial = "a_standby_behind_the_pooler_is_an_error_and_never_an_empty_window";
    let Some(stand) = Stand::start(trial, &[Kind::Pgbouncer]).await else { return };
    let url = stand.primary.url();
    let standby = stand.standby();
    let pooler = stand.pooler(&standby);
    let (main, owner) = (lane("main"), Owner::new("relay"));
    let refused = open(&pooler.url()).await.acquire(&main, &owner).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.to_string().contains("standby"), "{refused}");

    let (store, behind) = (open(&url).await, open(&pooler.url()).await);
    let lease = take(&store, &main, &owner).await;
    caught_up(&url).await;
    sql(&standby.url(), "SELECT pg_wal_replay_pause()").await;
    let all: Vec<String> = (0..30).map(|n| format!("{n:02}")).collect();
    publish(&url, &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let room = posthaste::store::Room { events: 10, bytes: u64::MAX };
    assert_eq!(ids(&store.claim(&lease, room).await.unwrap()), all[..10]);
    let page = behind.claim(&lease, room).await;
    assert!(page.is_err(), "a page of a standby that lags: {:?}", page.map(|page| ids(&page)));

    let lease = take(&store, &main, &owner).await;
    assert_eq!(ids(&claim(&store, &lease).await.unwrap()), all, "nothing was settled");
    let nothing_new = behind.claim(&lease, room).await;
    assert!(
        nothing_new.is_err(),
        "a look for something new on a standby: {:?}",
        nothing_new.map(|page| ids(&page))
    );
}

/// Waits until the standby has everything.
async fn caught_up(primary: &str) {
    let behind =
        "SELECT coalesce(min((replay_lsn >= pg_current_wal_lsn())::int), 0)::text FROM pg_stat_replication";
    let waited = eventually(SOON, "the standby has everything", async || ask(primary, behind).await == "1");
    assert!(waited.await.is_ok(), "the standby does not catch up");
}
