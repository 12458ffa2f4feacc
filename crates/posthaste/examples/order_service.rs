//! An order service on SQLite: orders come in as events, each takes stock once however often it is delivered, and what
//! follows from it goes out in the same transaction.
//!
//! Run it: `cargo run -p posthaste --example order_service --features sqlite,sqlx-sqlite`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use posthaste::local::LocalBroker;
use posthaste::publish::Publish;
use posthaste::relay::{Lane, Relay};
use posthaste::{Consumer, Cx, Event, Failure, Result};
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

/// Takes the stock and says so, together or not at all.
async fn reserve_stock(cx: &mut Cx<SqlitePool>, order: OrderPlaced) -> Result<(), Failure> {
    let taken = sqlx::query("UPDATE stock SET quantity = quantity - ?2 WHERE sku = ?1 AND quantity >= ?2")
        .bind(&order.sku)
        .bind(order.quantity)
        .execute(&mut **cx.tx())
        .await?;
    if taken.rows_affected() == 0 {
        // Trying again would not help: it is dead now, and somebody can look at it.
        return Err(Failure::reject(format!("not enough {} for order {}", order.sku, order.order_id)));
    }
    cx.publish(&StockReserved { order_id: order.order_id }).await?;
    Ok(())
}

/// Hears of reserved stock. It has no database: it may be told twice after a crash.
async fn send_mail(cx: &mut Cx, event: StockReserved) -> Result<(), Failure> {
    println!("mail: order {} is on its way (caused by {})", event.order_id, cx.correlation_id());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    // Makes Posthaste's tables beside the shop's own: the log of outgoing events, and the inbox.
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await?;
    let shop = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await?;
    sqlx::raw_sql("CREATE TABLE stock (sku TEXT PRIMARY KEY, quantity INTEGER NOT NULL)")
        .execute(&shop)
        .await?;
    sqlx::raw_sql("INSERT INTO stock VALUES ('tea', 10)").execute(&shop).await?;

    // Orders come through a broker; here it is the one in this process.
    let broker = LocalBroker::new();
    let stock = Consumer::new("stock", shop.clone(), ())
        .on(reserve_stock)
        .on_dead(|letter| println!("dead: {}", letter.reason.message));
    stock.declare(&broker).await?;
    let order = |id: &str, order_id, quantity| {
        Publish::of(&OrderPlaced { order_id, sku: "tea".to_owned(), quantity }).id(id)
    };
    // The first one is delivered three times, as brokers do after a fault.
    for _ in 0..3 {
        broker.publish(order("web-1", 1, 4)).await?;
    }
    broker.publish(order("web-2", 2, 5)).await?;
    broker.publish(order("web-3", 3, 100)).await?;
    let (ran, _) = tokio::join!(stock.run(broker.clone(), std::future::pending()), broker.close());
    ran?;

    let left: i64 =
        sqlx::query_scalar("SELECT quantity FROM stock WHERE sku = 'tea'").fetch_one(&shop).await?;
    println!("tea left: {left}");

    // What went out waits in the log; a lane carries it straight into another consumer.
    let mail = Consumer::named("mail").on(send_mail).workers(1);
    let lane = Lane::named("mail")?.topics(["stock.reserved"])?.to(mail.target()?);
    let report = Relay::new(store).lane(lane).once().await?;
    println!("delivered {}, dead {}", report.delivered, report.dead);
    Ok(())
}
