//! An address that leads to a restored copy from one moment to the next, without an error that anybody sees.
//!
//! The copy has the lanes and all ticks with their tokens, so that whatever a relay knows seems to hold
//! there. Its own transaction ids are lower than those in the ticks, or pass them later.

use std::sync::Arc;

use posthaste::ErrorKind;
use posthaste::admin::{Actor, Command, Filter, LaneState, Pace, all_lanes};
use posthaste::schema::Backend;
use posthaste::store::{Lease, Owner};
use posthaste_testkit::proxy::Proxy;
use posthaste_testkit::wait::eventually;
use posthaste_testservers::{Kind, Server};

use crate::postgres_failover::moved::restore;
use crate::postgres_failover::stand::{
    SOON, Stand, address, blocking, claim, database, drain, ids, lane, open, publish, settle, sql, take,
    through,
};

/// When the copy's transaction ids pass those of the server that it was copied from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IdsPass {
    Never,
    /// Between the events that are published on the copy before the switch.
    Before,
    /// Between a look of the relay on the copy and the next one.
    After,
}

/// Transactions enough for the copy's ids to be beyond those of the origin.
fn burn() -> String {
    "SELECT pg_current_xact_id();\n".repeat(600)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_switch_to_a_copy_with_lower_ids_loses_nothing() {
    switch("a_silent_switch_to_a_copy_with_lower_ids_loses_nothing", IdsPass::Never, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_switch_to_a_copy_whose_ids_have_passed_loses_nothing() {
    switch("a_silent_switch_to_a_copy_whose_ids_have_passed_loses_nothing", IdsPass::Before, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_switch_to_a_copy_whose_ids_pass_later_loses_nothing() {
    switch("a_silent_switch_to_a_copy_whose_ids_pass_later_loses_nothing", IdsPass::After, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_switch_behind_a_pooler_to_a_copy_with_lower_ids_loses_nothing() {
    let trial = "a_silent_switch_behind_a_pooler_to_a_copy_with_lower_ids_loses_nothing";
    switch(trial, IdsPass::Never, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_switch_behind_a_pooler_to_a_copy_whose_ids_have_passed_loses_nothing() {
    let trial = "a_silent_switch_behind_a_pooler_to_a_copy_whose_ids_have_passed_loses_nothing";
    switch(trial, IdsPass::Before, true).await;
}

async fn switch(trial: &str, ids_pass: IdsPass, with_pooler: bool) {
    let needs: &[Kind] = if with_pooler { &[Kind::Pgbouncer] } else { &[] };
    let Some(home) = Stand::start(trial, needs).await else { return };
    let Some(elsewhere) = Stand::start(trial, needs).await else { return };
    let [from, to] = [&home, &elsewhere].map(|stand| database(&stand.primary.url(), "shop"));
    for stand in [&home, &elsewhere] {
        sql(&stand.primary.url(), "CREATE DATABASE shop TEMPLATE template0").await;
    }
    open(&from).await.migrate().await.unwrap();
    sql(&from, &burn()).await;

    let proxy = Proxy::in_front_of(address(&from)).await.unwrap();
    let (_pooler, url) = way(&home, &through(&from, &proxy), with_pooler);
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    let lease = take(&store, &main, &owner).await;
    publish(&from, &["before"]).await;
    assert_eq!(read_all(&store, &lease).await, ["before"]);

    restore(&from, &to);
    publish(&to, &["a", "b", "c"]).await;
    if ids_pass == IdsPass::Before {
        sql(&to, &burn()).await;
        publish(&to, &["d", "e"]).await;
    }
    proxy.redirect(address(&to));
    if ids_pass == IdsPass::After {
        // The lane looks on the copy, and only then the ids pass.
        let _ = claim(&store, &lease).await;
        sql(&to, &burn()).await;
        publish(&to, &["d", "e"]).await;
    }
    is_noticed(&store, &lease).await;

    let refused = store.acquire(&main, &owner).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    assert!(all_lanes(&*store).await.unwrap().iter().all(|lane| lane.state == LaneState::Error));
    let rebase = Command::Rebase { upgraded: false, dry_run: false };
    let done =
        store.apply(&Filter::default(), rebase, &Actor::new("test", "cli"), &Pace::full()).await.unwrap();
    let expected: &[&str] =
        if ids_pass == IdsPass::Never { &["a", "b", "c"] } else { &["a", "b", "c", "d", "e"] };
    assert_eq!(done.changed, expected.len() as u64);
    assert_eq!(drain(&store, &main, &owner).await, expected);
}

/// The store's URL, by way of a pooler if it is asked for.
fn way(home: &Stand, through_proxy: &str, with_pooler: bool) -> (Option<Server>, String) {
    if !with_pooler {
        return (None, through_proxy.to_owned());
    }
    let pooler = blocking(|| {
        let mut pooler = Server::new(Kind::Pgbouncer, &home.run, Some(through_proxy)).unwrap();
        pooler.start().unwrap();
        pooler
    });
    let url = database(&pooler.url(), "shop");
    (Some(pooler), url)
}

/// Delivers until nothing more comes, and keeps the lane.
async fn read_all(store: &Arc<dyn Backend>, lease: &Lease) -> Vec<String> {
    let (mut delivered, mut empty) = (Vec::new(), 0);
    while empty < 3 {
        let claimed = claim(store, lease).await.unwrap();
        empty = if claimed.is_empty() { empty + 1 } else { 0 };
        delivered.extend(ids(&claimed));
        settle(store, lease, &claimed).await.unwrap();
    }
    delivered
}

/// Claims on, as a relay does whose connections heal by themselves, until the store says what happened.
async fn is_noticed(store: &Arc<dyn Backend>, lease: &Lease) {
    let noticed =
        eventually(SOON, "the store notices the other server", async || match claim(store, lease).await {
            Err(error) => {
                error.to_string().contains("rebase") || error.to_string().contains("another server")
            }
            Ok(claimed) => {
                assert!(claimed.is_empty(), "read on the copy: {:?}", ids(&claimed));
                false
            }
        });
    noticed.await.unwrap();
}
