//! Orders come in, stock is reserved once per order, and an event says so: inbox, effect and publish in one transaction
//! of the shop's own SQLite database.
//!
//! Run it: `cargo run -p posthaste --example order_service --features sqlite,sqlx-sqlite`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use posthaste::admin::{Filter, Page};
use posthaste::publish::Publish;
use posthaste::{Consumer, Event, Failure};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", key = order_id)]
struct OrderPlaced {
    order_id: u32,
    sku: String,
    quantity: i64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(type = "stock.reserved", key = order_id)]
struct StockReserved {
    order_id: u32,
}

/// What the handlers find in their context.
struct App {
    shelf: &'static str,
}

type Cx = posthaste::Cx<SqlitePool, App>;

async fn reserve_stock(cx: &mut Cx, event: OrderPlaced) -> Result<(), Failure> {
    let shelf = cx.state().shelf;
    let reserved = sqlx::query("UPDATE stock SET free = free - ?1 WHERE sku = ?2 AND shelf = ?3 AND free >= ?1")
        .bind(event.quantity)
        .bind(&event.sku)
        .bind(shelf)
        .execute(&mut **cx.tx())
        .await?;
    if reserved.rows_affected() == 0 {
        return Err(Failure::reject(format!("there is not enough {}", event.sku)).code("sold out"));
    }
    cx.publish(&StockReserved { order_id: event.order_id }).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await?;
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await?;
    sqlx::query("CREATE TABLE stock (sku TEXT PRIMARY KEY, shelf TEXT NOT NULL, free INTEGER NOT NULL)")
        .execute(&pool)
        .await?;
    sqlx::query("INSERT INTO stock VALUES ('tea', 'A', 10)").execute(&pool).await?;

    let broker = posthaste::broker::local();
    let consumer = Consumer::new("stock", pool.clone(), App { shelf: "A" }).on(reserve_stock);
    consumer.declare(&broker).await?;
    for (order_id, quantity) in [(1, 3), (1, 3), (2, 4), (3, 5)] {
        let order = OrderPlaced { order_id, sku: "tea".to_owned(), quantity };
        // Order 1 comes twice: the same event, delivered again.
        broker.publish(Publish::of(&order).id(format!("order-{order_id}"))).await?;
    }
    let (ran, _) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran?;

    let free: i64 = sqlx::query_scalar("SELECT free FROM stock").fetch_one(&pool).await?;
    println!("free: {free}");
    let mut filter = Filter::default();
    filter.event_type = Some("stock.reserved".to_owned());
    let mut reserved: Vec<_> =
        store.find(&filter, Page::first(10)).await?.records.into_iter().filter_map(|record| record.envelope.key).collect();
    reserved.sort();
    println!("reserved: {}", reserved.join(", "));
    for letter in broker.dead() {
        println!("dead: {} ({})", letter.envelope.id, letter.reason.code);
    }
    Ok(())
}
