//! A database that was moved: its rows carry ids of transactions of another server.

use posthaste::ErrorKind;
use posthaste::admin::{Actor, Command, Filter, LaneState, Pace, Seek, all_lanes};
use posthaste::store::Owner;

use crate::postgres_failover::stand::{
    Stand, ask, blocking, database, drain, insert, lane, open, publish, settle, sql, stored, take,
};

fn operator() -> Actor {
    Actor::new("test", "cli")
}

fn rebase(upgraded: bool, dry_run: bool) -> Command {
    Command::Rebase { upgraded, dry_run }
}

/// Moves the contents of one database to another by pg_dump and psql.
pub(crate) fn restore(from: &str, to: &str) {
    blocking(|| {
        let script =
            format!("pg_dump --dbname '{from}' | psql --quiet --set ON_ERROR_STOP=1 --dbname '{to}'");
        let output =
            std::process::Command::new("bash").args(["-o", "pipefail", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}

/// Two lanes at different places, one in the middle of a window, an open transaction, events behind. The dump goes to a
/// server whose ids are lower, so that all that is published there seems to be delivered already. Every command that goes
/// by ids is refused, then everything comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_dump_is_refused_until_it_is_rebased_and_then_everything_arrives() {
    let trial = "a_restored_dump_is_refused_until_it_is_rebased_and_then_everything_arrives";
    let Some(home) = Stand::start(trial, &[]).await else { return };
    let Some(elsewhere) = Stand::start(trial, &[]).await else { return };
    let (from, to) = (home.primary.url(), database(&elsewhere.primary.url(), "moved"));
    sql(&from, &"SELECT pg_current_xact_id();\n".repeat(500)).await;
    let (fast, slow, owner) = (lane("fast"), lane("slow"), Owner::new("relay"));
    let store = open(&from).await;
    publish(&from, &["a", "b"]).await;
    assert_eq!(drain(&store, &fast, &owner).await, ["a", "b"]);
    assert_eq!(drain(&store, &slow, &owner).await, ["a", "b"]);
    publish(&from, &["c", "d", "e"]).await;
    assert_eq!(drain(&store, &fast, &owner).await, ["c", "d", "e"]);
    let lease = take(&store, &slow, &owner).await;
    let claimed = crate::postgres_failover::stand::claim(&store, &lease).await.unwrap();
    settle(&store, &lease, &claimed[..1]).await.unwrap();
    publish(&from, &["f"]).await;

    sql(&elsewhere.primary.url(), "CREATE DATABASE moved TEMPLATE template0").await;
    restore(&from, &to);
    publish(&to, &["g"]).await;
    let store = open(&to).await;
    let refused = store.acquire(&slow, &owner).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("posthaste lane rebase --yes"), "{refused}");
    for lane in all_lanes(&*store).await.unwrap() {
        assert_eq!(lane.state, LaneState::Error);
        assert!(lane.reason.as_deref().is_some_and(|reason| reason.starts_with("restored")), "{lane:?}");
    }
    let mut of_slow = Filter::default();
    of_slow.lane = Some(slow.name.clone());
    let prune =
        Command::Prune { delivered_age: Some(std::time::Duration::ZERO), dead_age: None, dry_run: false };
    for (filter, command) in [
        (Filter::default(), prune),
        (of_slow.clone(), Command::Replay { dry_run: false }),
        (of_slow, Command::Seek { to: Seek::End, dry_run: false }),
        (Filter::default(), rebase(true, false)),
    ] {
        let name = command.name();
        assert!(
            store.apply(&filter, command, &operator(), &Pace::full()).await.is_err(),
            "{name} works on a moved database"
        );
    }
    assert_eq!(stored(&to).await, ["a", "b", "c", "d", "e", "f", "g"]);

    let would =
        store.apply(&Filter::default(), rebase(false, true), &operator(), &Pace::full()).await.unwrap();
    assert_eq!((would.matched, would.changed), (4, 0), "d and e for the slow lane, f and g for both");
    let done =
        store.apply(&Filter::default(), rebase(false, false), &operator(), &Pace::full()).await.unwrap();
    assert_eq!((done.matched, done.changed), (4, 4));
    let audit = "SELECT command || ' by ' || actor || ': ' || changed FROM posthaste_audit";
    assert_eq!(ask(&to, audit).await, "rebase by test: 4");
    publish(&to, &["h"]).await;
    assert_eq!(drain(&store, &slow, &owner).await, ["d", "e", "f", "g", "h"]);
    assert_eq!(
        drain(&store, &fast, &owner).await,
        ["d", "e", "f", "g", "h"],
        "d and e twice, nothing skipped"
    );
    assert!(
        all_lanes(&*store)
            .await
            .unwrap()
            .iter()
            .all(|lane| lane.adds_up() && lane.state == LaneState::Active)
    );
    let again =
        store.apply(&Filter::default(), rebase(false, false), &operator(), &Pace::full()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Rejected, "{again}");
}

/// A copy by TEMPLATE has the ids of its own server, and would publish everything a second time.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_made_by_template_is_refused_and_what_was_parked_stays_after_a_rebase() {
    let trial = "a_copy_made_by_template_is_refused_and_what_was_parked_stays_after_a_rebase";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let server = stand.primary.url();
    let (origin, copy) = (database(&server, "origin"), database(&server, "copy"));
    sql(&server, "CREATE DATABASE origin").await;
    open(&origin).await.migrate().await.unwrap();
    let (main, owner) = (lane("main"), Owner::new("relay"));
    sql(&origin, &insert(&["a"])).await;
    sql(
        &origin,
        &insert(&["later"])
            .replace("payload)", "payload, available_at)")
            .replace("'{}')", "'{}', now() + interval '1 hour')"),
    )
    .await;
    {
        let store = open(&origin).await;
        assert_eq!(drain(&store, &main, &owner).await, ["a"]);
    }
    let parked = "SELECT string_agg(state || attempts, ',') FROM posthaste_parked";
    assert_eq!(ask(&origin, parked).await, "scheduled0");
    let force = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'origin'";
    sql(&server, &format!("{force};\nCREATE DATABASE copy TEMPLATE origin")).await;
    let store = open(&copy).await;
    let refused = store.acquire(&main, &owner).await.unwrap_err();
    assert!(refused.to_string().contains("a copy of another one"), "{refused}");
    store.apply(&Filter::default(), rebase(false, false), &operator(), &Pace::full()).await.unwrap();
    assert_eq!(ask(&copy, parked).await, "scheduled0");
    publish(&copy, &["b"]).await;
    assert_eq!(
        drain(&store, &main, &owner).await,
        ["b"],
        "what was delivered before the copy does not come again"
    );
    assert!(
        open(&origin).await.acquire(&main, &owner).await.unwrap().is_some(),
        "the origin is where it was"
    );
}

/// What pg_upgrade leaves: the same ids under another identifier. Nothing comes again.
#[tokio::test(flavor = "multi_thread")]
async fn after_an_upgrade_only_the_new_identifier_is_recorded() {
    let trial = "after_an_upgrade_only_the_new_identifier_is_recorded";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    publish(&url, &["a"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
    publish(&url, &["b"]).await;
    sql(&url, "UPDATE posthaste_meta SET system_id = 'that of the old server'").await;
    let refused = store.acquire(&main, &owner).await.unwrap_err();
    assert!(refused.to_string().contains("--upgraded"), "{refused}");
    store.apply(&Filter::default(), rebase(true, false), &operator(), &Pace::full()).await.unwrap();
    assert_eq!(drain(&store, &main, &owner).await, ["b"]);
}

/// The role of a relay can read where the database is, and is told which role a rebase needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_rights_sees_that_the_database_was_moved_but_cannot_rebase_it() {
    let trial = "a_role_without_rights_sees_that_the_database_was_moved_but_cannot_rebase_it";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let store = open(&url.replace("postgres@", "small@")).await;
    let (main, owner) = (lane("main"), Owner::new("relay"));
    sql(&url, "CREATE ROLE small LOGIN;\nGRANT SELECT ON posthaste_events, posthaste_ticks, posthaste_meta, posthaste_lanes TO small").await;
    let refused = store.acquire(&main, &owner).await.unwrap_err().to_string();
    assert!(refused.contains("GRANT SELECT,INSERT,UPDATE ON posthaste_lanes TO small"), "{refused}");
    sql(&url, "GRANT SELECT, INSERT, UPDATE, DELETE ON posthaste_parked, posthaste_lanes, posthaste_ticks, posthaste_relays TO small;\nGRANT INSERT ON posthaste_audit TO small;\nGRANT SELECT ON posthaste_events_seq TO small").await;
    publish(&url, &["a"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
    sql(&url, "UPDATE posthaste_meta SET system_id = 'of another server'").await;
    let refused = store.acquire(&main, &owner).await.unwrap_err().to_string();
    assert!(refused.contains("as a user who may change posthaste_events"), "{refused}");
    let refused =
        store.apply(&Filter::default(), rebase(false, false), &operator(), &Pace::full()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("lacks a right"), "{refused}");
}
