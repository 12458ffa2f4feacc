//! tokio-postgres.

use posthaste_sql::{Dialect, Tx};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::postgres;
use crate::script::{SCRIPTS, play};

/// The connection runs in `tasks` until the client is dropped.
async fn connect(url: &str, tasks: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tasks.spawn(async { connection.await.unwrap() });
    client
}

#[tokio::test]
async fn every_script_holds_in_a_transaction_and_in_a_nested_one() {
    for url in postgres::urls("tokio_postgres::every_script_holds_in_a_transaction_and_in_a_nested_one") {
        let mut tasks = JoinSet::new();
        let mut client = connect(&url, &mut tasks).await;
        let table = postgres::table("tokio");
        client.batch_execute(&table.create()).await.unwrap();
        for script in SCRIPTS {
            let mut tx = client.transaction().await.unwrap();
            assert_eq!(tx.dialect(), Dialect::Postgres);
            let mut nested = tx.transaction().await.unwrap();
            play(&mut nested, script(&table)).await;
            nested.rollback().await.unwrap();
            play(&mut tx, script(&table)).await;
            drop(tx);
            play(&mut client.transaction().await.unwrap(), table.holds(0)).await;
        }
        client.batch_execute(&table.drop()).await.unwrap();
        drop(client);
        tasks.join_all().await;
    }
}

#[tokio::test]
async fn a_commit_keeps() {
    for url in postgres::urls("tokio_postgres::a_commit_keeps") {
        let mut tasks = JoinSet::new();
        let mut client = connect(&url, &mut tasks).await;
        let table = postgres::table("tokio_commit");
        client.batch_execute(&table.create()).await.unwrap();
        let mut tx = client.transaction().await.unwrap();
        Tx::execute(&mut tx, table.insert(1, None, None)).await.unwrap();
        tx.commit().await.unwrap();
        play(&mut client.transaction().await.unwrap(), table.holds(1)).await;
        client.batch_execute(&table.drop()).await.unwrap();
    }
}
