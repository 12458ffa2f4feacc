//! sqlx on Postgres.

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use crate::script::{SCRIPTS, play};
use crate::{database, postgres};

async fn open(url: &str, connections: u32) -> PgPool {
    // A pooler may refuse start-up parameters that it does not know.
    let options = url.parse::<PgConnectOptions>().unwrap().extra_float_digits(None);
    PgPoolOptions::new().max_connections(connections).connect_with(options).await.unwrap()
}

async fn run(pool: &PgPool, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

#[tokio::test]
async fn the_database_keeps_its_promises() {
    for url in postgres::urls("sqlx_postgres::the_database_keeps_its_promises") {
        let pool = open(&url, 2).await;
        let table = postgres::table("sqlx");
        run(&pool, table.create()).await;
        database::every_script_holds(&pool, &table).await;
        database::a_swallowed_error_is_never_committed_silently(&pool, &table).await;
        database::a_commit_keeps_and_a_drop_undoes(&pool, &table).await;
        run(&pool, table.drop()).await;
    }
}

#[tokio::test]
async fn every_script_holds_on_a_bare_connection() {
    for url in postgres::urls("sqlx_postgres::every_script_holds_on_a_bare_connection") {
        let pool = open(&url, 1).await;
        let table = postgres::table("sqlx_bare");
        run(&pool, table.create()).await;
        let mut connection = pool.acquire().await.unwrap();
        for script in SCRIPTS {
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await.unwrap();
            play(&mut *connection, script(&table)).await;
            sqlx::raw_sql("ROLLBACK").execute(&mut *connection).await.unwrap();
        }
        drop(connection);
        run(&pool, table.drop()).await;
    }
}

#[tokio::test]
async fn a_dropped_begin_leaves_no_open_transaction() {
    for url in postgres::urls("sqlx_postgres::a_dropped_begin_leaves_no_open_transaction") {
        let (one, others) = (open(&url, 1).await, open(&url, 1).await);
        let table = postgres::table("sqlx_dropped");
        run(&others, table.create()).await;
        database::a_dropped_begin_leaves_no_open_transaction(&one, &others, &table, async |pool, sql| {
            run(pool, sql).await
        })
        .await;
        run(&others, table.drop()).await;
    }
}
