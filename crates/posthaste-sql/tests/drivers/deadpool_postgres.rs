//! deadpool-postgres.

use deadpool_postgres::{Manager, Pool};
use posthaste_sql::{Database, Tx};
use tokio_postgres::NoTls;

use crate::script::{SCRIPTS, play};
use crate::{database, postgres};

fn open(url: &str, connections: usize) -> Pool {
    Pool::builder(Manager::new(url.parse().unwrap(), NoTls)).max_size(connections).build().unwrap()
}

async fn run(pool: &Pool, sql: String) {
    pool.get().await.unwrap().batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn the_database_keeps_its_promises() {
    for url in postgres::urls("deadpool_postgres::the_database_keeps_its_promises") {
        let pool = open(&url, 2);
        let table = postgres::table("deadpool");
        run(&pool, table.create()).await;
        database::every_script_holds(&pool, &table).await;
        database::a_swallowed_error_is_never_committed_silently(&pool, &table).await;
        database::a_commit_keeps_and_a_drop_undoes(&pool, &table).await;
        run(&pool, table.drop()).await;
    }
}

#[tokio::test]
async fn every_script_holds_in_the_drivers_own_transaction() {
    for url in postgres::urls("deadpool_postgres::every_script_holds_in_the_drivers_own_transaction") {
        let pool = open(&url, 1);
        let table = postgres::table("deadpool_own");
        run(&pool, table.create()).await;
        for script in SCRIPTS {
            let mut object = pool.get().await.unwrap();
            let mut tx = object.transaction().await.unwrap();
            play(&mut tx, script(&table)).await;
            drop(tx);
            play(&mut object.transaction().await.unwrap(), table.holds(0)).await;
        }
        run(&pool, table.drop()).await;
    }
}

/// What the caller does on the lent connection is in the transaction, and the connection outlives a rollback.
#[tokio::test]
async fn the_lent_connection_is_in_the_transaction() {
    for url in postgres::urls("deadpool_postgres::the_lent_connection_is_in_the_transaction") {
        let pool = open(&url, 1);
        let table = postgres::table("deadpool_lent");
        run(&pool, table.create()).await;
        let tx = pool.begin().await.unwrap();
        let insert = format!("INSERT INTO {} (id) VALUES (1)", table.name);
        assert_eq!(tx.client().execute_typed(&insert, &[]).await.unwrap(), 1);
        drop(tx);
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(tx.execute(table.count()).await.unwrap(), 0);
        drop(tx);
        assert_eq!(pool.status().size, 1, "the connection went back into the pool");
        run(&pool, table.drop()).await;
    }
}

#[tokio::test]
async fn a_dropped_begin_leaves_no_open_transaction() {
    for url in postgres::urls("deadpool_postgres::a_dropped_begin_leaves_no_open_transaction") {
        let (one, others) = (open(&url, 1), open(&url, 1));
        let table = postgres::table("deadpool_dropped");
        run(&others, table.create()).await;
        database::a_dropped_begin_leaves_no_open_transaction(&one, &others, &table, async |pool, sql| {
            run(pool, sql).await
        })
        .await;
        run(&others, table.drop()).await;
    }
}

/// Nobody waits for the answer of what is sent, and yet a failure is not lost: nothing is committed then.
#[tokio::test]
async fn what_is_sent_is_committed_or_fails_the_commit() {
    for url in postgres::urls("deadpool_postgres::what_is_sent_is_committed_or_fails_the_commit") {
        let pool = open(&url, 1);
        let table = postgres::table("deadpool_sent");
        run(&pool, table.create()).await;
        let mut tx = pool.begin().await.unwrap();
        for id in 1..=100 {
            tx.send(&table.insert(id, None, None)).unwrap();
        }
        Pool::commit(tx).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        tx.send(&table.insert(101, None, None)).unwrap();
        tx.send(&table.insert(1, None, None)).unwrap();
        Pool::commit(tx).await.expect_err("a duplicate was committed");
        let mut tx = pool.begin().await.unwrap();
        tx.send(&table.insert(102, None, None)).unwrap();
        drop(tx);
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(tx.execute(table.count()).await.unwrap(), 100);
        drop(tx);
        run(&pool, table.drop()).await;
    }
}
