//! Two relays that define one lane differently.

use posthaste::ErrorKind;
use posthaste::lane::{LaneSpec, Order};
use posthaste::store::{Owner, Standing, Then};
use posthaste_testkit::wait::eventually;

use crate::postgres_failover::stand::{LEASE, Stand, ask, drain, insert, lane, open, sql, take};

fn of_topic(topic: &str) -> LaneSpec {
    let mut spec = lane("main");
    spec.topics = vec![topic.parse().unwrap()];
    spec
}

/// The relay that started later has the lane: the older one hands it over, says why it cannot have it, and does not take
/// it back while the other lives. Both definitions hold from the place on, and nothing is skipped in silence.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_definitions_of_a_lane_that_of_the_later_relay_holds() {
    let trial = "of_two_definitions_of_a_lane_that_of_the_later_relay_holds";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, old, new) = (open(&url).await, Owner::new("old"), Owner::new("new"));
    let (narrow, wide) = (of_topic("order.placed"), of_topic("#"));
    let lease = take(&store, &narrow, &old).await;

    assert!(store.acquire(&wide, &new).await.unwrap().is_none(), "a lease holds until it is given up");
    assert_eq!(store.settle(&lease, Vec::new(), Then::Hold).await.unwrap(), Standing::Wanted);
    store.settle(&lease, Vec::new(), Then::GiveUp).await.unwrap();
    assert!(store.acquire(&narrow, &old).await.unwrap().is_none(), "it is promised to the later one");
    let newer = store.acquire(&wide, &new).await.unwrap().unwrap();
    assert!(newer.epoch() > lease.epoch());
    let audit = "SELECT command || ' by ' || actor FROM posthaste_audit";
    assert_eq!(ask(&url, audit).await, "redefine by new");

    for _ in 0..3 {
        let refused = store.acquire(&narrow, &old).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("the relay new, which started later"), "{refused}");
        assert_eq!(
            store.settle(&newer, Vec::new(), Then::Hold).await.unwrap(),
            Standing::Held,
            "no tug of war"
        );
    }
    sql(&url, &insert(&["a"])).await;
    sql(&url, &insert(&["b"]).replace("order.placed", "order.paid")).await;
    // A moment ago: what came before may have taken long.
    let newer = store.acquire(&wide, &new).await.unwrap().unwrap();
    store.settle(&newer, Vec::new(), Then::GiveUp).await.unwrap();
    assert!(
        store.acquire(&narrow, &old).await.is_err(),
        "the lane is free, but the later relay was there a moment ago"
    );
    assert_eq!(drain(&store, &wide, &new).await, ["a", "b"]);

    // The later one is gone without a word: after two leases the older one may have the lane, by its own definition.
    let waited = eventually(LEASE * 6, "the older relay has the lane", async || {
        matches!(store.acquire(&narrow, &old).await, Ok(Some(_)))
    });
    assert!(waited.await.is_ok());
    assert_eq!(ask(&url, "SELECT count(*)::text FROM posthaste_audit").await, "2");
}

/// A change of the order alone is a change too; the same definition is none.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_definition_is_shared_and_a_changed_order_is_recorded() {
    let trial = "the_same_definition_is_shared_and_a_changed_order_is_recorded";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let store = open(&url).await;
    let count = "SELECT count(*)::text FROM posthaste_audit";
    for name in ["first", "second"] {
        drain(&store, &lane("main"), &Owner::new(name)).await;
    }
    assert_eq!(ask(&url, count).await, "0");
    let mut unordered = lane("main");
    unordered.order = Order::None;
    drain(&store, &unordered, &Owner::new("third")).await;
    assert_eq!(ask(&url, count).await, "1");
    assert_eq!(
        ask(&url, "SELECT string_agg(name, ',' ORDER BY started_at) FROM posthaste_relays").await,
        "first,second,third"
    );
}
