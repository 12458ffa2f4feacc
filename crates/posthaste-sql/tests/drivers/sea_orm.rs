//! sea-orm on Postgres and on a file of SQLite.

use posthaste_sql::Dialect;
use sea_orm::{ConnectOptions, ConnectionTrait as _, DatabaseConnection};

use crate::script::Table;
use crate::{database, postgres};

async fn open(url: &str, connections: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(url);
    options.max_connections(connections).sqlx_logging(false);
    sea_orm::Database::connect(options).await.unwrap()
}

async fn run(connection: &DatabaseConnection, sql: String) {
    connection.execute_unprepared(&sql).await.unwrap();
}

#[tokio::test]
async fn the_database_keeps_its_promises_on_postgres() {
    for url in postgres::direct_urls("sea_orm::the_database_keeps_its_promises_on_postgres") {
        let connection = open(&url, 2).await;
        let table = postgres::table("sea_orm");
        run(&connection, table.create()).await;
        database::every_script_holds(&connection, &table).await;
        database::a_swallowed_error_is_never_committed_silently(&connection, &table).await;
        database::a_commit_keeps_and_a_drop_undoes(&connection, &table).await;
        run(&connection, table.drop()).await;
    }
}

#[tokio::test]
async fn the_database_keeps_its_promises_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let connection = open(&format!("sqlite://{}?mode=rwc", file.display()), 1).await;
    let table = Table { name: "plain".into(), dialect: Dialect::Sqlite };
    run(&connection, table.create()).await;
    database::every_script_holds(&connection, &table).await;
    database::a_commit_keeps_and_a_drop_undoes(&connection, &table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_begin_leaves_no_open_transaction() {
    for url in postgres::direct_urls("sea_orm::a_dropped_begin_leaves_no_open_transaction") {
        let (one, others) = (open(&url, 1).await, open(&url, 1).await);
        let table = postgres::table("sea_orm_dropped");
        run(&others, table.create()).await;
        database::a_dropped_begin_leaves_no_open_transaction(&one, &others, &table, async |pool, sql| {
            run(pool, sql).await
        })
        .await;
        run(&others, table.drop()).await;
    }
}
