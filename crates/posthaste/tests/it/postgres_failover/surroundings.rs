//! What a relay finds at its start: each thing that could lose events is refused, with what to run.

use posthaste::ErrorKind;
use posthaste::store::Owner;

use crate::postgres_failover::stand::{Stand, database, drain, insert, lane, open, publish, sql};

const QUIET: &str =
    "CREATE FUNCTION quiet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$";

/// Each change is refused with its remedy; the remedy is run as it stands, and the lane can be driven again.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_lose_events_is_refused_with_what_to_run() {
    let trial = "what_could_lose_events_is_refused_with_what_to_run";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    sql(&url, QUIET).await;
    for (change, says, mend) in [
        (
            "CREATE TRIGGER hush BEFORE INSERT ON posthaste_events FOR EACH ROW EXECUTE FUNCTION quiet()",
            "row triggers that are not ours (hush)",
            "DROP TRIGGER hush ON posthaste_events",
        ),
        (
            "ALTER TABLE posthaste_events DISABLE TRIGGER posthaste_own_xid",
            "ALTER TABLE posthaste_events ENABLE REPLICA TRIGGER posthaste_own_xid",
            "ALTER TABLE posthaste_events ENABLE REPLICA TRIGGER posthaste_own_xid",
        ),
        (
            "ALTER TABLE posthaste_events ALTER xid SET DEFAULT '3'",
            "DEFAULT pg_current_xact_id()",
            "ALTER TABLE posthaste_events ALTER xid SET DEFAULT pg_current_xact_id()",
        ),
        (
            "ALTER SEQUENCE posthaste_events_seq INCREMENT BY 2",
            "ALTER SEQUENCE posthaste_events_seq INCREMENT BY 1 CACHE 1 NO CYCLE",
            "ALTER SEQUENCE posthaste_events_seq INCREMENT BY 1 CACHE 1 NO CYCLE",
        ),
    ] {
        assert!(store.acquire(&main, &owner).await.unwrap().is_some(), "before {change}");
        sql(&url, change).await;
        let refused = store.acquire(&main, &owner).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains(says), "{refused}");
        sql(&url, mend).await;
    }
    publish(&url, &["a"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
}

/// An encoding that cannot hold every event.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_hold_every_character_is_refused() {
    let trial = "a_database_that_cannot_hold_every_character_is_refused";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = database(&stand.primary.url(), "latin");
    sql(&stand.primary.url(), "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").await;
    let store = open(&url).await;
    store.migrate().await.unwrap();
    let refused = store.acquire(&lane("main"), &Owner::new("relay")).await.unwrap_err();
    assert!(refused.to_string().contains("ENCODING 'UTF8'"), "{refused}");
}

/// What an apply worker of logical replication brings carries the id of a transaction elsewhere; here it gets one of this
/// server, and is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn what_replication_brings_gets_an_id_of_this_server() {
    let trial = "what_replication_brings_gets_an_id_of_this_server";
    let Some(stand) = Stand::start(trial, &[]).await else { return };
    let url = stand.primary.url();
    let (store, main, owner) = (open(&url).await, lane("main"), Owner::new("relay"));
    publish(&url, &["a"]).await;
    assert_eq!(drain(&store, &main, &owner).await, ["a"]);
    let foreign = insert(&["b"]).replace("(event_id", "(xid, event_id").replace("VALUES (", "VALUES ('5', ");
    // The worker is one for which triggers of kind REPLICA fire.
    let client = crate::postgres_failover::stand::connect(&url).await;
    client.batch_execute("SET session_replication_role = replica").await.unwrap();
    client.batch_execute(&foreign).await.unwrap();
    assert_eq!(drain(&store, &main, &owner).await, ["b"]);
}
