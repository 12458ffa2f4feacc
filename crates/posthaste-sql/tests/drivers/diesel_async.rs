//! diesel-async.

use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use posthaste_sql::{Database, Tx};

use crate::script::{SCRIPTS, play};
use crate::{database, postgres};

fn open(url: &str, connections: usize) -> Pool<AsyncPgConnection> {
    let manager = AsyncDieselConnectionManager::<AsyncPgConnection>::new(url);
    Pool::builder(manager).max_size(connections).build().unwrap()
}

async fn run(pool: &Pool<AsyncPgConnection>, sql: String) {
    pool.get().await.unwrap().batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn the_database_keeps_its_promises() {
    for url in postgres::direct_urls("diesel_async::the_database_keeps_its_promises") {
        let pool = open(&url, 2);
        let table = postgres::table("diesel_async");
        run(&pool, table.create()).await;
        database::every_script_holds(&pool, &table).await;
        database::a_swallowed_error_is_never_committed_silently(&pool, &table).await;
        database::a_commit_keeps_and_a_drop_undoes(&pool, &table).await;
        run(&pool, table.drop()).await;
    }
}

#[tokio::test]
async fn every_script_holds_in_the_drivers_own_transaction() {
    for url in postgres::direct_urls("diesel_async::every_script_holds_in_the_drivers_own_transaction") {
        let pool = open(&url, 1);
        let table = postgres::table("diesel_own");
        run(&pool, table.create()).await;
        let mut connection = pool.get().await.unwrap();
        for script in SCRIPTS {
            let steps = script(&table);
            let undone = connection
                .transaction(async move |connection| {
                    play(connection, steps).await;
                    diesel::QueryResult::<()>::Err(diesel::result::Error::RollbackTransaction)
                })
                .await;
            undone.unwrap_err();
            play(&mut connection, table.holds(0)).await;
        }
        drop(connection);
        run(&pool, table.drop()).await;
    }
}

/// What the caller does on the lent connection is in the transaction, also a transaction inside of it, and the connection
/// outlives a rollback.
#[tokio::test]
async fn the_lent_connection_is_in_the_transaction() {
    for url in postgres::direct_urls("diesel_async::the_lent_connection_is_in_the_transaction") {
        let pool = open(&url, 1);
        let table = postgres::table("diesel_lent");
        run(&pool, table.create()).await;
        let mut tx = pool.begin().await.unwrap();
        let insert = format!("INSERT INTO {} (id) VALUES (1)", table.name);
        let inner = tx
            .connection()
            .transaction(async move |connection| diesel::sql_query(insert).execute(connection).await);
        assert_eq!(inner.await.unwrap(), 1);
        drop(tx);
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(
            Tx::execute(&mut tx, table.count()).await.unwrap(),
            0,
            "the inner transaction was committed alone"
        );
        drop(tx);
        run(&pool, table.drop()).await;
        assert_eq!(pool.status().size, 1, "the connection went back into the pool");
    }
}

#[tokio::test]
async fn a_dropped_begin_leaves_no_open_transaction() {
    for url in postgres::direct_urls("diesel_async::a_dropped_begin_leaves_no_open_transaction") {
        let (one, others) = (open(&url, 1), open(&url, 1));
        let table = postgres::table("diesel_dropped");
        run(&others, table.create()).await;
        database::a_dropped_begin_leaves_no_open_transaction(&one, &others, &table, async |pool, sql| {
            run(pool, sql).await
        })
        .await;
        run(&others, table.drop()).await;
    }
}
