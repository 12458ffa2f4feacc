//! Faults of a Postgres server and of the tables in it.

use tokio_postgres::Client;

use crate::doctor::seen::{Seen, doctor};
use crate::postgres::stand::{Stand, insert};

/// A database with a lane that has delivered something.
async fn used(trial: &str) -> Option<(Stand, Client)> {
    let stand = Stand::new(trial).await?;
    stand.folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\n");
    let admin = stand.session("postgres").await;
    admin.batch_execute(&insert("first")).await.unwrap();
    stand.folder.ok(&["relay", "--once", "--store", &stand.url("program_carrier")]);
    Some((stand, admin))
}

fn look(stand: &Stand) -> Seen {
    doctor(&stand.folder, &["--store", &stand.url("program_carrier")])
}

async fn run(admin: &Client, statements: &[String]) {
    for statement in statements {
        admin.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// Each fault with the check that finds it and its verdict. Each is mended by the SQL that the check prints.
#[tokio::test(flavor = "multi_thread")]
async fn each_fault_is_found_and_mended_by_the_sql_that_is_printed() {
    let trial = "postgres::each_fault_is_found_and_mended_by_the_sql_that_is_printed";
    let Some((stand, admin)) = used(trial).await else { return };
    look(&stand).ok("sequence");
    let database = admin.query_one("SELECT current_database()", &[]).await.unwrap().get::<_, String>(0);
    for (fault, check, verdict) in [
        ("ALTER SEQUENCE posthaste_events_seq CACHE 20".to_owned(), "sequence", "failure"),
        (
            "ALTER TABLE posthaste_events ALTER seq SET DEFAULT nextval('posthaste_events_seq')".to_owned(),
            "default of seq",
            "failure",
        ),
        ("ALTER TABLE posthaste_events ALTER xid SET DEFAULT '3'".to_owned(), "default of xid", "failure"),
        (
            "ALTER TABLE posthaste_events DISABLE TRIGGER posthaste_own_xid".to_owned(),
            "replication trigger",
            "failure",
        ),
        ("REVOKE INSERT, DELETE ON posthaste_parked FROM posthaste_relay".to_owned(), "rights", "failure"),
        (
            "ALTER TABLE posthaste_parked SET (autovacuum_enabled = off)".to_owned(),
            "autovacuum of the tables",
            "warning",
        ),
        (format!("ALTER DATABASE {database} SET synchronous_commit = off"), "synchronous_commit", "warning"),
        (format!("ALTER DATABASE {database} CONNECTION LIMIT 10"), "connections", "warning"),
    ] {
        admin.batch_execute(&fault).await.unwrap();
        let mend = look(&stand).bad(check, verdict).sql();
        run(&admin, &mend).await;
        look(&stand).ok(check);
    }
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_nobody_reads_is_found() {
    let trial = "postgres::a_slot_that_nobody_reads_is_found";
    let Some((stand, admin)) = used(trial).await else { return };
    let slot = format!("doctor_{}", std::process::id());
    admin
        .execute("SELECT pg_create_physical_replication_slot($1::text::name, true)", &[&slot])
        .await
        .unwrap();
    // Others may have slots of their own on this server.
    run(&admin, &look(&stand).about("replication slots", &slot).sql()).await;
    assert!(!look(&stand).text().contains(&slot));
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_database_is_found_and_mended_by_a_rebase() {
    let trial = "postgres::a_copied_database_is_found_and_mended_by_a_rebase";
    let Some((stand, admin)) = used(trial).await else { return };
    admin.batch_execute("UPDATE posthaste_meta SET database_oid = database_oid + 1").await.unwrap();
    let words = look(&stand).bad("origin", "failure").words();
    assert!(words.contains("posthaste lane rebase --yes"), "{words}");
    stand.folder.ok(&["lane", "rebase", "--yes", "--store", &stand.url("program_deployer")]);
    look(&stand).ok("origin");
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_missing_and_a_server_that_is_away_are_found() {
    let trial = "postgres::tables_that_are_missing_and_a_server_that_is_away_are_found";
    let Some((stand, _admin)) = used(trial).await else { return };
    let deployer = stand.url("program_deployer");
    let other = ["--store", &deployer];
    stand.folder.write("posthaste.toml", "[store]\nprefix = \"other_\"\n");
    doctor(&stand.folder, &other).bad("schema", "failure").run(&stand.folder, &other.join(" "));
    doctor(&stand.folder, &other).ok("schema");
    // Nobody listens here, and the password stays secret.
    let away = doctor(&stand.folder, &["--store", "postgres://me:hunter2@127.0.0.1:9/x"]);
    assert!(away.text().contains("cannot be reached") && !away.text().contains("hunter2"), "{}", away.text());
    away.ok("configuration");
    stand.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outbox_table_without_its_index_is_found() {
    let trial = "postgres::an_outbox_table_without_its_index_is_found";
    let Some((stand, admin)) = used(trial).await else { return };
    stand.folder.write("posthaste.toml", "[store]\nengine = \"table\"\n[lanes.main]\nto = \"null:\"\n");
    let owner = stand.url("postgres");
    let ddl = stand.folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", &owner]);
    admin.batch_execute(ddl.text()).await.unwrap();
    let look = || doctor(&stand.folder, &["--store", &owner]);
    look().ok("index of what is due");
    admin.batch_execute("DROP INDEX openoutbox_events_pickup").await.unwrap();
    run(&admin, &look().bad("index of what is due", "warning").sql()).await;
    look().ok("index of what is due");
    admin.batch_execute("ALTER TABLE openoutbox_events DROP COLUMN locked_at").await.unwrap();
    assert!(look().text().contains("no column locked_at"), "{}", look().text());
    stand.end().await;
}
