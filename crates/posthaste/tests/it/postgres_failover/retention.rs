//! Retention beside those who come to need what it removes.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Actor, Command, Filter, Pace};
use posthaste::schema::Backend;
use posthaste::store::Owner;
use posthaste_testkit::wait::eventually;

use crate::postgres_failover::stand::{SOON, Stand, ask, connect, drain, insert, lane, open, publish, sql};

fn operator() -> Actor {
    Actor::new("test", "cli")
}

async fn prune(store: &Arc<dyn Backend>) -> u64 {
    let prune = Command::Prune { delivered_age: Some(Duration::ZERO), dead_age: None, dry_run: false };
    store.apply(&Filter::default(), prune, &operator(), &Pace::full()).await.unwrap().changed
}

/// Replays and prunes at once, again and again: whatever a replay has parked still has its event, and is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_beside_a_prune_never_parks_what_is_going() {
    let trial = "a_replay_beside_a_prune_never_parks_what_is_going";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, other, main, owner) = (open(&url).await, open(&url).await, lane("main"), Owner::new("relay"));
    let mut of_main = Filter::default();
    of_main.lane = Some(main.name.clone());
    let (mut replayed, mut pruned) = (0, 0);
    for round in 0..30 {
        let all: Vec<String> = (0..300).map(|n| format!("{round}-{n}")).collect();
        sql(&url, &insert(&all.iter().map(String::as_str).collect::<Vec<_>>())).await;
        drain(&store, &main, &owner).await;
        let replay = Command::Replay { dry_run: false };
        let actor = operator();
        // One that has to connect first begins later than the prune, which else comes last in every round.
        let fresh = open(&url).await;
        let replayer = if round % 2 == 0 { &fresh } else { &other };
        let pace = Pace::full();
        let replaying = replayer.apply(&of_main, replay, &actor, &pace);
        let (gone, again) = futures_util::future::join(prune(&store), replaying).await;
        let again = again.unwrap().changed;
        (replayed, pruned) = (replayed + again, pruned + gone);
        let orphans = "SELECT count(*)::text FROM posthaste_parked p WHERE NOT EXISTS (SELECT 1 FROM posthaste_events e WHERE e.seq = p.seq)";
        assert_eq!(ask(&url, orphans).await, "0", "round {round}");
        assert_eq!(drain(&store, &main, &owner).await.len() as u64, again);
        prune(&store).await;
    }
    assert!(replayed > 0 && pruned > 0, "{replayed} replayed, {pruned} pruned: they did not race");
}

/// The order of locks, without chance: a replay that has parked and not committed holds retention up.
#[tokio::test(flavor = "multi_thread")]
async fn retention_waits_for_a_transaction_that_comes_to_need_events() {
    let trial = "retention_waits_for_a_transaction_that_comes_to_need_events";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    publish(&url, &["a", "b"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a", "b"]);
    // What `park.sql` does for a replay, held open.
    let replay = connect(&url).await;
    let park = "BEGIN; SELECT pg_advisory_xact_lock_shared(hashtextextended('posthaste_retention', 0)); \
                INSERT INTO posthaste_parked (lane, seq, state, available_at, replay) \
                SELECT 'main', seq, 'retrying', now(), true FROM posthaste_events WHERE event_id = 'a'; \
                UPDATE posthaste_lanes SET accepted = accepted + 1, waiting = waiting + 1";
    replay.batch_execute(park).await.unwrap();
    let pruning = async {
        assert_eq!(prune(&store).await, 1, "only b goes");
    };
    let committing = async {
        let waits = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        let waited = eventually(SOON, "retention waits", async || ask(&url, waits).await == "1").await;
        replay.batch_execute("COMMIT").await.unwrap();
        assert!(waited.is_ok(), "retention did not wait");
    };
    futures_util::future::join(pruning, committing).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
}

/// Ticks of hours, of which one lane stands at an old one: that stays, with one a minute above it; below all lanes
/// only young ones (1) and the beginning (0) do.
#[tokio::test(flavor = "multi_thread")]
async fn old_ticks_are_thinned_to_one_a_minute_and_go_below_all_lanes() {
    let trial = "old_ticks_are_thinned_to_one_a_minute_and_go_below_all_lanes";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    publish(&url, &["a"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
    // Every ten seconds, from three hours ago on, 120 of them: as old ticks of this server would be.
    sql(
        &url,
        "INSERT INTO posthaste_ticks (id, snap, last_seq, low, at) SELECT n + 100, pg_current_snapshot(), 1, 1, \
         date_trunc('minute', now()) - interval '3 hours' + n * interval '10 seconds' FROM generate_series(0, 119) n;\n\
         UPDATE posthaste_lanes SET tick_a = 163",
    )
    .await;
    prune(&store).await;
    let left = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM posthaste_ticks";
    assert_eq!(ask(&url, left).await, "0 1 163 165 171 177 183 189 195 201 207 213 219");
    publish(&url, &["b"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["b"]);
}
