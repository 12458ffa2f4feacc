//! What is said when the database cannot be used: what is wrong, and what to do. Once that is done everything goes on.

use std::sync::Arc;
use std::time::Duration;

use posthaste::ErrorKind::{self, Config, Unavailable};
use posthaste::admin::all_lanes;
use posthaste::envelope::Envelope;
use posthaste::lane::LaneSpec;
use posthaste::schema::Backend;
use posthaste::store::{Owner, StoreOptions, open, open_with};
use posthaste::{Error, Result};

use crate::postgres_access::private::Private;
use crate::postgres_access::scope::{Scope, connect};

const SECRET: &str = "quite-secret";

async fn publish(store: &Arc<dyn Backend>) -> Result<()> {
    store.publish(vec![Envelope::new("x", "{}")]).await.map(drop)
}

async fn acquire(store: &Arc<dyn Backend>) -> Result<()> {
    store.acquire(&LaneSpec::new("main".parse()?), &Owner::new("test")).await.map(drop)
}

async fn look(store: &Arc<dyn Backend>) -> Result<()> {
    all_lanes(&**store).await.map(drop)
}

#[track_caller]
fn says(answer: Result<()>, kind: ErrorKind, words: &[&str]) {
    let error: Error = answer.expect_err(&format!("this must be refused with {words:?}"));
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} is not in {text}");
    assert!(!format!("{text}{error:?}").contains(SECRET), "{text}");
}

/// Every way to use the store must say it.
async fn all_say(store: &Arc<dyn Backend>, kind: ErrorKind, words: &[&str]) {
    says(publish(store).await, kind, words);
    says(acquire(store).await, kind, words);
    says(look(store).await, kind, words);
}

async fn all_work(store: &Arc<dyn Backend>) {
    publish(store).await.unwrap();
    acquire(store).await.unwrap();
    look(store).await.unwrap();
}

#[tokio::test]
async fn tables_that_are_missing_or_not_understood_are_named() {
    let trial = "refused::tables_that_are_missing_or_not_understood_are_named";
    let Some(scope) = Scope::new(trial).await else { return };
    let (store, admin) = (scope.store().await, scope.session().await);
    all_say(&store, Config, &["tables are missing", "posthaste migrate up"]).await;
    store.migrate().await.unwrap();
    all_work(&store).await;

    let mut elsewhere = StoreOptions::default();
    elsewhere.prefix = "shop_".parse().unwrap();
    let wrong = open_with(&scope.url, elsewhere).await.unwrap();
    all_say(&wrong, Config, &["tables are missing", "store.prefix"]).await;

    admin.batch_execute("UPDATE posthaste_meta SET schema = 900, compatible_from = 900").await.unwrap();
    all_say(&scope.store().await, Config, &["newer release", "900", "use a newer binary"]).await;
    says(acquire(&store).await, Config, &["newer release"]);
    says(scope.store().await.migrate().await.map(drop), Config, &["newer release"]);
    admin.batch_execute("UPDATE posthaste_meta SET schema = 1, compatible_from = 1").await.unwrap();

    admin.batch_execute("ALTER TABLE posthaste_events RENAME TO away").await.unwrap();
    says(publish(&store).await, Config, &["posthaste_events", "posthaste migrate up"]);
    admin.batch_execute("ALTER TABLE away RENAME TO posthaste_events").await.unwrap();
    all_work(&store).await;
    let count = admin.query_one("SELECT count(*) FROM posthaste_events", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2, "what was published is there, and nothing that was refused");
    scope.end().await;
}

#[tokio::test]
async fn users_that_may_not_are_named_with_what_to_do() {
    let Some(mut server) = Private::start("refused::users_that_may_not_are_named_with_what_to_do") else {
        return;
    };
    let admin = connect(&server.url()).await;
    admin
        .batch_execute(&format!(
            "CREATE ROLE stranger LOGIN; CREATE ROLE crowded LOGIN CONNECTION LIMIT 0; CREATE ROLE slow LOGIN SUPERUSER;
             CREATE ROLE locked LOGIN PASSWORD '{SECRET}'"
        ))
        .await
        .unwrap();
    drop(admin);
    server.put("pg_hba.conf", "host all locked all scram-sha-256\nhost all all all trust\n");
    server.restart();
    let scope = Scope::on(&server.url()).await.migrated().await;
    let as_user = async |user: &str| open(&scope.url_of(user)).await.unwrap();

    all_say(
        &as_user("stranger").await,
        Config,
        &["lacks a right", "posthaste_meta", "migrate print --roles"],
    )
    .await;
    all_say(&as_user("crowded").await, Unavailable, &["no connection left", "max_connections"]).await;
    all_say(&as_user(&format!("nobody:{SECRET}")).await, Config, &["refuses the login", "nobody"]).await;
    all_say(&as_user("locked").await, Config, &["wants a password", "store.url_file"]).await;
    all_say(&as_user(&format!("locked:{SECRET}-not")).await, Config, &["refuses the login", "password"])
        .await;
    says(look(&as_user(&format!("locked:{SECRET}")).await).await, Config, &["lacks a right"]);
    let no_database = open(&scope.url.replace(&scope.name, "no_such")).await.unwrap();
    all_say(&no_database, Config, &["\"no_such\" does not exist", "CREATE DATABASE"]).await;

    let mut impatient = StoreOptions::default();
    impatient.statement_timeout = Duration::from_secs(2);
    let slow = open_with(&scope.url_of("slow"), impatient).await.unwrap();
    let holder = scope.session().await;
    look(&slow).await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE posthaste_lanes").await.unwrap();
    says(look(&slow).await, Unavailable, &["statement_timeout", "raise it"]);
    holder.batch_execute("ROLLBACK").await.unwrap();
    all_work(&slow).await;
}

#[tokio::test]
async fn a_server_that_takes_no_changes_or_is_away_is_named_and_comes_back() {
    let trial = "refused::a_server_that_takes_no_changes_or_is_away_is_named_and_comes_back";
    let Some(mut server) = Private::start(trial) else { return };
    let scope = Scope::on(&server.url()).await.migrated().await;
    let store = scope.store().await;
    all_work(&store).await;
    let signal = server.put("standby.signal", "");
    server.restart();
    posthaste_testkit::wait::eventually(Duration::from_secs(20), "connections are made anew", async || {
        look(&store).await.is_ok()
    })
    .await
    .unwrap();
    says(publish(&store).await, Unavailable, &["standby", "name the primary"]);
    says(acquire(&store).await, Unavailable, &["standby", "name the primary"]);
    std::fs::remove_file(signal).unwrap();
    server.stop();
    all_say(&scope.store().await, Unavailable, &["cannot be reached"]).await;
    server.start_again();
    all_work(&scope.store().await).await;
    let admin = scope.session().await;
    let count = admin.query_one("SELECT count(*) FROM posthaste_events", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
}
