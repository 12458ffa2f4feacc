//! A server that is killed and started again, and tables that were changed meanwhile.

use posthaste::ErrorKind;
use posthaste::store::{Owner, Standing};
use posthaste_testservers::Kind;

use crate::postgres_failover::stand::{
    Stand, ask, claim, connect, drain, ids, insert, lane, open, publish, settle, sql, stored, take,
};

/// Keeps what is committed without waiting in the server's memory until somebody flushes.
const LAZY: &str = "ALTER SYSTEM SET wal_writer_delay = '10s';\nALTER SYSTEM SET synchronous_commit = off;\nSELECT pg_reload_conf()";

/// A producer, and a server, that do not wait for the disk: what was delivered is still there after a crash, because the
/// tick's own commit waits.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_is_still_there_after_a_crash() {
    let trial = "what_was_delivered_is_still_there_after_a_crash";
    let Some(mut stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    sql(&url, LAZY).await;
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    let lease = take(&store, &main, &owner).await;
    publish(&url, &["a", "b", "c"]).await;
    assert_eq!(ids(&claim(&store, &lease).await.unwrap()), ["a", "b", "c"]);
    stand.crash();
    assert_eq!(stored(&url).await, ["a", "b", "c"]);
}

/// The server is killed between the tick and the settle, and gives ids again that it had given to transactions that left
/// no trace; the client's socket to the pooler stays. Nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_tick_and_settle_loses_nothing_though_ids_come_again_and_the_socket_stays() {
    let trial = "a_crash_between_tick_and_settle_loses_nothing_though_ids_come_again_and_the_socket_stays";
    let Some(mut stand) = Stand::start(trial, &[Kind::Pgbouncer]).await else { return };
    let url = stand.primary.url();
    sql(&url, LAZY).await;
    let pooler = stand.pooler(&stand.primary);
    let (store, main, owner) = (open(&pooler.url()).await, lane("main"), Owner::new("relay"));
    publish(&url, &["a"]).await;
    let lease = take(&store, &main, &owner).await;
    let claimed = claim(&store, &lease).await.unwrap();
    assert_eq!(ids(&claimed), ["a"]);
    let given = use_ids(&url, 50).await;
    stand.crash();
    let again = use_ids(&url, 1).await;
    assert!(again < given, "the test is about ids that come again: {given}, then {again}");
    publish(&url, &["b", "c"]).await;
    let standing = settle(&store, &lease, &claimed).await;
    assert!(matches!(standing, Ok(Standing::Held) | Err(_)), "{standing:?}");
    let mut delivered = ids(&claimed);
    delivered.extend(drain(&store, &main, &owner).await);
    delivered.dedup();
    assert_eq!(delivered, ["a", "b", "c"]);
}

/// Takes ids for transactions that are rolled back; answers the last.
async fn use_ids(url: &str, count: u32) -> u64 {
    let client = connect(url).await;
    let mut last = String::new();
    for _ in 0..count {
        client.batch_execute("BEGIN").await.unwrap();
        last = client.query_one("SELECT pg_current_xact_id()::text", &[]).await.unwrap().get(0);
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    last.parse().unwrap()
}

/// Each of these would be refused at the next acquisition; changed under a running relay, they lose nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_gives_numbers_another_way_is_refused_and_loses_nothing_while_running() {
    let trial = "what_gives_numbers_another_way_is_refused_and_loses_nothing_while_running";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    let seq_default = ask(
        &url,
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'posthaste_events'::regclass AND adnum = 1",
    )
    .await;
    let alter = "ALTER TABLE posthaste_events ALTER seq SET DEFAULT";
    for (n, (change, mend, says)) in [
        (
            "ALTER SEQUENCE posthaste_events_seq CACHE 20".to_owned(),
            "ALTER SEQUENCE posthaste_events_seq CACHE 1".to_owned(),
            "CACHE 1",
        ),
        (
            format!("{alter} nextval('posthaste_events_seq')"),
            format!("{alter} {seq_default}"),
            "default of posthaste_events.seq",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let lease = take(&store, &main, &owner).await;
        sql(&url, &change).await;
        let mut delivered = late_and_early(&store, &lease, &url, n).await;
        let refused = store.acquire(&main, &owner).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains(says), "{refused}");
        sql(&url, &mend).await;
        delivered.extend(drain(&store, &main, &owner).await);
        delivered.sort();
        assert_eq!(delivered, ["a", "b", "c", "d"].map(|id| format!("{id}{n}")));
    }
}

/// A number far ahead, given by hand, and one below it: neither hides others.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_given_by_hand_hide_nothing() {
    let trial = "numbers_given_by_hand_hide_nothing";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    let by_hand = |seq: i64, id: &str| {
        insert(&[id]).replace("(event_id", "(seq, event_id").replace("VALUES (", &format!("VALUES ({seq}, "))
    };
    sql(&url, &by_hand(1_000, "far")).await;
    assert_eq!(drain(&store, &main, &owner).await, ["far"]);
    publish(&url, &["a", "b"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a", "b"], "below a number that was delivered");
    let refused = connect(&url).await.batch_execute(&by_hand(0, "nowhere")).await.unwrap_err();
    assert!(refused.as_db_error().is_some_and(|error| error.code().code() == "23514"), "{refused}");
    sql(&url, &by_hand(500, "below")).await;
    publish(&url, &["c"]).await;
    let mut delivered = drain(&store, &main, &owner).await;
    delivered.sort();
    assert_eq!(delivered, ["below", "c"]);
}

/// Two sessions, of which the first takes its numbers early and commits last; answers what was delivered under this lease.
async fn late_and_early(
    store: &std::sync::Arc<dyn posthaste::schema::Backend>,
    lease: &posthaste::store::Lease,
    url: &str,
    n: usize,
) -> Vec<String> {
    let (first, second) = (connect(url).await, connect(url).await);
    let one = |id: &str| insert(&[&format!("{id}{n}")]);
    first.batch_execute(&format!("BEGIN; {}", one("a"))).await.unwrap();
    second.batch_execute(&one("b")).await.unwrap();
    let mut delivered = Vec::new();
    let deliver = async |delivered: &mut Vec<String>| {
        let claimed = claim(store, lease).await.unwrap();
        assert_eq!(settle(store, lease, &claimed).await.unwrap(), Standing::Held);
        delivered.extend(ids(&claimed));
    };
    deliver(&mut delivered).await;
    first.batch_execute("COMMIT").await.unwrap();
    // The first session may still have numbers below those that were delivered.
    first.batch_execute(&one("c")).await.unwrap();
    deliver(&mut delivered).await;
    second.batch_execute(&one("d")).await.unwrap();
    deliver(&mut delivered).await;
    delivered
}
