//! The order of a key: what producers must do for it, and what is lost without that.

use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::store::{Owner, Room};
use posthaste_testkit::wait::eventually;
use tokio_postgres::{Client, Transaction};

use crate::postgres_access::scope::Scope;

const SOON: Duration = Duration::from_secs(10);

fn order_changed(id: &str) -> Publish {
    Publish::raw("order.changed", "{}").key("order-1").id(id)
}

/// Changes what the key names; answers which change of it this was.
async fn change(tx: &Transaction<'_>) -> i64 {
    let row = tx.query_one("UPDATE orders SET version = version + 1 RETURNING version", &[]).await.unwrap();
    row.get(0)
}

async fn delivered(scope: &Scope) -> Vec<String> {
    let store = scope.store().await;
    let lease =
        store.acquire(&LaneSpec::new("main".parse().unwrap()), &Owner::new("test")).await.unwrap().unwrap();
    let claimed = store.claim(&lease, Room { events: 10, bytes: 1 << 20 }).await.unwrap();
    claimed.iter().map(|claimed| claimed.parcel.envelope.id.clone()).collect()
}

async fn producers(trial: &str) -> Option<(Scope, Client, Client)> {
    let scope = Scope::new(trial).await?.migrated().await;
    let (first, second) = (scope.session().await, scope.session().await);
    let table = "CREATE TABLE orders (version bigint NOT NULL); INSERT INTO orders VALUES (0)";
    first.batch_execute(table).await.unwrap();
    Some((scope, first, second))
}

/// The documented failure: an event that is inserted before what its key names is locked can be overtaken.
#[tokio::test]
async fn an_event_that_is_published_before_its_aggregate_is_locked_can_be_overtaken() {
    let trial = "ordered::an_event_that_is_published_before_its_aggregate_is_locked_can_be_overtaken";
    let Some((scope, mut first, mut second)) = producers(trial).await else { return };
    let outbox = Outbox::new("");
    let mut early = first.transaction().await.unwrap();
    outbox.publish(&mut early, order_changed("early")).await.unwrap();
    let mut other = second.transaction().await.unwrap();
    outbox.publish(&mut other, order_changed("other")).await.unwrap();
    assert_eq!(change(&other).await, 1);
    other.commit().await.unwrap();
    assert_eq!(change(&early).await, 2);
    early.commit().await.unwrap();
    assert_eq!(delivered(&scope).await, ["early", "other"], "the second change comes before the first");
    scope.end().await;
}

#[tokio::test]
async fn an_ordered_outbox_keeps_the_order_of_changes_whenever_they_are_made() {
    let trial = "ordered::an_ordered_outbox_keeps_the_order_of_changes_whenever_they_are_made";
    let Some((scope, mut first, mut second)) = producers(trial).await else { return };
    let outbox = Outbox::new("").ordered();
    let mut early = first.transaction().await.unwrap();
    outbox.publish(&mut early, order_changed("early")).await.unwrap();
    let mut other = second.transaction().await.unwrap();
    let watcher = scope.session().await;
    let early_ends = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        eventually(SOON, "the other one waits", async || {
            watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 1
        })
        .await
        .unwrap();
        assert_eq!(change(&early).await, 1);
        early.commit().await.unwrap();
    };
    let (published, ()) = futures_util::join!(outbox.publish(&mut other, order_changed("other")), early_ends);
    published.unwrap();
    assert_eq!(change(&other).await, 2);
    other.commit().await.unwrap();
    assert_eq!(delivered(&scope).await, ["early", "other"]);
    scope.end().await;
}

#[tokio::test]
async fn ordered_batches_do_not_wait_for_each_other_in_a_circle() {
    let trial = "ordered::ordered_batches_do_not_wait_for_each_other_in_a_circle";
    let Some((scope, mut first, mut second)) = producers(trial).await else { return };
    let outbox = Outbox::new("").ordered();
    let publish = async |client: &mut Client, backwards: bool| {
        for _ in 0..30 {
            let keys = (0..50).map(|n| format!("key-{}", if backwards { 49 - n } else { n }));
            let mut tx = client.transaction().await.unwrap();
            outbox.publish_all(&mut tx, keys.map(|key| Publish::raw("x", "{}").key(key))).await.unwrap();
            tx.commit().await.unwrap();
        }
    };
    futures_util::join!(publish(&mut first, false), publish(&mut second, true));
    let count = first.query_one("SELECT count(*) FROM posthaste_events", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 3_000);
    scope.end().await;
}
