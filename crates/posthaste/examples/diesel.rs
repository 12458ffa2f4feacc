//! diesel, which blocks: an order and its event in one transaction of SQLite. Postgres is the same, with the feature
//! `diesel-postgres`.
//!
//! Run it: `cargo run -p posthaste --example diesel --features sqlite,diesel-sqlite`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use diesel::connection::SimpleConnection as _;
use diesel::sql_types::{Integer, Text};
use diesel::{Connection as _, RunQueryDsl as _, SqliteConnection};
use posthaste::Event;
use posthaste::outbox::Outbox;
use posthaste::sql::DieselTx;
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", topic = "orders", key = order_id)]
struct OrderPlaced {
    order_id: i32,
    sku: String,
}

type Anything = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await?;
    let mut shop = SqliteConnection::establish(file.to_str().ok_or("a path that is no text")?)?;
    shop.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT NOT NULL)")?;

    for (order_id, sku) in [(1, "tea"), (2, "coffee"), (1, "milk")] {
        let placed = place_order(&mut shop, OrderPlaced { order_id, sku: sku.to_owned() });
        println!("order {order_id}: {}", if placed.is_ok() { "placed" } else { "is there already" });
    }

    let events = store.find(&Default::default(), posthaste::admin::Page::first(10)).await?;
    for record in events.records.iter().rev() {
        println!("{} {}", record.envelope.event_type, record.envelope.key.as_deref().unwrap_or_default());
    }
    Ok(())
}

/// The order and its event are kept together or not at all.
fn place_order(shop: &mut SqliteConnection, placed: OrderPlaced) -> Result<(), Anything> {
    let outbox = Outbox::new("/shop/orders");
    shop.transaction(|shop| {
        outbox.publish_blocking(&mut DieselTx(shop), &placed)?;
        diesel::sql_query("INSERT INTO orders (id, sku) VALUES (?1, ?2)")
            .bind::<Integer, _>(placed.order_id)
            .bind::<Text, _>(&placed.sku)
            .execute(shop)?;
        Ok(())
    })
}
