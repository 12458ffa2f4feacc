//! sqlx on a SQLite file.

use posthaste_sql::Dialect;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::database;
use crate::script::{SCRIPTS, Table, play};

async fn open(folder: &tempfile::TempDir, connections: u32) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(folder.path().join("test.db")).create_if_missing(true);
    SqlitePoolOptions::new().max_connections(connections).connect_with(options).await.unwrap()
}

async fn create(pool: &SqlitePool) -> Table {
    let table = Table { name: "plain".into(), dialect: Dialect::Sqlite };
    run(pool, table.create()).await;
    table
}

async fn run(pool: &SqlitePool, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

#[tokio::test]
async fn the_database_keeps_its_promises() {
    let folder = tempfile::tempdir().unwrap();
    let pool = open(&folder, 2).await;
    let table = create(&pool).await;
    database::every_script_holds(&pool, &table).await;
    database::a_commit_keeps_and_a_drop_undoes(&pool, &table).await;
}

#[tokio::test]
async fn every_script_holds_on_a_bare_connection() {
    let folder = tempfile::tempdir().unwrap();
    let pool = open(&folder, 1).await;
    let table = create(&pool).await;
    let mut connection = pool.acquire().await.unwrap();
    for script in SCRIPTS {
        sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
        play(&mut *connection, script(&table)).await;
        sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_begin_leaves_no_open_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let (one, others) = (open(&folder, 1).await, open(&folder, 1).await);
    let table = create(&one).await;
    database::a_dropped_begin_leaves_no_open_transaction(&one, &others, &table, async |pool, sql| {
        run(pool, sql).await
    })
    .await;
}
