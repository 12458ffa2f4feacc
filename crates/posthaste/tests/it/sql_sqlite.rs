//! Publishing into a real SQLite file through the drivers that callers use: what is committed with the caller's own
//! rows is there, and nothing else.

use posthaste::outbox::Outbox;
use posthaste::prefix::TablePrefix;
use posthaste::publish::Publish;
use posthaste::publisher::Published;
use posthaste::sql::{Dialect, Value};
use posthaste::{ErrorKind, Event};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Acquire as _, SqlitePool};
use tempfile::TempDir;

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", version = 2, topic = "orders", key = order_id)]
struct OrderPlaced {
    order_id: i64,
    note: String,
}

fn placed(order_id: i64) -> OrderPlaced {
    OrderPlaced { order_id, note: "it's \"tea\" 🦀".into() }
}

/// A file with Posthaste's tables and one of the caller's own.
struct Shop {
    folder: TempDir,
    outbox: Outbox,
}

impl Shop {
    fn open() -> Self {
        let shop = Self { folder: tempfile::tempdir().unwrap(), outbox: Outbox::new("/shop") };
        let connection = shop.connection();
        connection.execute_batch(&posthaste_core::sql::sqlite_ddl(&TablePrefix::default())).unwrap();
        connection.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        shop
    }

    fn connection(&self) -> Connection {
        Connection::open(self.folder.path().join("shop.db")).unwrap()
    }

    async fn pool(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new().filename(self.folder.path().join("shop.db"));
        SqlitePoolOptions::new().connect_with(options).await.unwrap()
    }

    /// The ids of the caller's rows, and the keys of the events, both in order.
    fn holds(&self, orders: &[i64], events: &[&str]) {
        let connection = self.connection();
        let mut select = connection.prepare("SELECT id FROM orders ORDER BY id").unwrap();
        let found: Vec<i64> = select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, orders);
        let mut select = connection.prepare("SELECT key FROM posthaste_events ORDER BY seq").unwrap();
        let found: Vec<String> =
            select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(found, events);
    }
}

#[test]
fn a_row_is_what_the_event_says() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let tx = &mut connection.transaction().unwrap();
    let entry = shop.outbox.publish_blocking(tx, &placed(7)).unwrap();
    let sql = "SELECT event_id, source, event_type, topic, key, schema_version, content_type, payload FROM posthaste_events";
    let row: (String, String, String, String, String, u32, String, Vec<u8>) =
        tx.query_row(sql, [], |row| row.try_into()).unwrap();
    assert_eq!(
        (row.0, &*row.1, &*row.2, &*row.3, &*row.4),
        (entry.id, "/shop", "order.placed", "orders", "7")
    );
    assert_eq!((row.5, &*row.6), (2, "application/json"));
    let back: OrderPlaced = serde_json::from_slice(&row.7).unwrap();
    assert_eq!((back.order_id, back.note), (7, placed(7).note));
}

#[test]
fn rusqlite_commits_event_and_order_together() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    for (id, commit) in [(1, true), (2, false)] {
        let mut tx = connection.transaction().unwrap();
        tx.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        shop.outbox.publish_blocking(&mut tx, &placed(id)).unwrap();
        let mut part = tx.savepoint().unwrap();
        shop.outbox.publish_blocking(&mut part, &placed(100 + id)).unwrap();
        part.rollback().unwrap();
        drop(part);
        if commit {
            tx.commit().unwrap();
        }
    }
    shop.holds(&[1], &["1"]);
}

#[tokio::test]
async fn sqlx_commits_event_and_order_together() {
    let shop = Shop::open();
    let pool = shop.pool().await;
    for (id, commit) in [(1, true), (2, false)] {
        let mut tx = pool.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES (?1)").bind(id).execute(&mut *tx).await.unwrap();
        shop.outbox.publish(&mut tx, &placed(id)).await.unwrap();
        let mut part = tx.begin().await.unwrap();
        shop.outbox.publish(&mut part, &placed(100 + id)).await.unwrap();
        part.rollback().await.unwrap();
        shop.outbox.bind(&mut tx).publish(Publish::of(&placed(id)).key("bound")).await.unwrap();
        if commit {
            tx.commit().await.unwrap();
        }
    }
    pool.close().await;
    shop.holds(&[1], &["1", "bound"]);
}

#[tokio::test]
async fn a_transaction_of_the_outbox_keeps_all_or_nothing() {
    let shop = Shop::open();
    let pool = shop.pool().await;
    for (id, good) in [(1_i64, true), (2, false)] {
        let answer = shop
            .outbox
            .transaction(&pool, async |tx, out| {
                sqlx::query("INSERT INTO orders VALUES (?1)").bind(id).execute(&mut **tx).await.unwrap();
                out.publish(&placed(id));
                if good { Ok(id) } else { Err(posthaste::Error::rejected("take the order")) }
            })
            .await;
        assert_eq!(answer.is_ok(), good);
    }
    pool.close().await;
    shop.holds(&[1], &["1"]);
}

#[tokio::test]
async fn publishing_once_tells_what_was_there() {
    let shop = Shop::open();
    let pool = shop.pool().await;
    let mut tx = pool.begin().await.unwrap();
    let publish = || Publish::of(&placed(1)).id("one");
    assert_eq!(shop.outbox.publish(&mut tx, publish().once()).await.unwrap().published, Published::Now);
    assert_eq!(shop.outbox.publish(&mut tx, publish().once()).await.unwrap().published, Published::Before);
    let error = shop.outbox.publish(&mut tx, publish()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn many_events_keep_their_order() {
    let shop = Shop::open();
    let pool = shop.pool().await;
    let mut tx = pool.begin().await.unwrap();
    let events: Vec<_> = (0..1_234).map(placed).collect();
    let entries = shop.outbox.publish_all(&mut tx, &events).await.unwrap();
    assert_eq!((entries.ids.len(), entries.stored), (1_234, 1_234));
    tx.commit().await.unwrap();
    pool.close().await;
    let keys: Vec<_> = (0..1_234).map(|id| id.to_string()).collect();
    shop.holds(&[], &keys.iter().map(String::as_str).collect::<Vec<_>>());
}

/// A driver that Posthaste has never heard of takes the statement apart.
#[test]
fn a_statement_can_be_run_by_hand() {
    let shop = Shop::open();
    let statement = shop.outbox.statement(Dialect::Sqlite, &placed(5)).unwrap();
    let values = statement.values.into_iter().map(|value| -> rusqlite::types::Value {
        match value {
            Value::Int(int) => int.into(),
            Value::Text(text) => text.into(),
            Value::Bytes(bytes) => bytes.into(),
            other => panic!("{other:?} is of a new kind"),
        }
    });
    let changed = shop.connection().execute(&statement.sql, rusqlite::params_from_iter(values)).unwrap();
    assert_eq!(changed, 1);
    shop.holds(&[], &["5"]);
}
