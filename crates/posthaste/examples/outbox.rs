//! An order and its event in one transaction, then a relay that carries the event on.
//!
//! Run it: `cargo run -p posthaste --example outbox --features sqlite,rusqlite`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use posthaste::outbox::Outbox;
use posthaste::relay::{Lane, Relay};
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream, Event, Result};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", topic = "orders", key = order_id)]
struct OrderPlaced {
    order_id: u32,
    sku: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await?;

    // The shop's own connection, table and transactions; Posthaste only adds a row.
    let mut shop = rusqlite::Connection::open(&file)?;
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT NOT NULL)")?;
    place_order(&mut shop, 1, "tea", true)?;
    place_order(&mut shop, 2, "coffee", false)?;
    place_order(&mut shop, 3, "milk", true)?;

    let lane = Lane::named("main")?.topics(["orders"])?.to(Arc::new(Printer(Capabilities::sink())));
    let report = Relay::new(store).lane(lane).once().await?;
    println!("delivered {}, dead {}", report.delivered, report.dead);
    Ok(())
}

fn place_order(
    shop: &mut rusqlite::Connection,
    order_id: u32,
    sku: &str,
    paid: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let outbox = Outbox::new("/shop/orders");
    let mut tx = shop.transaction()?;
    tx.execute("INSERT INTO orders (id, sku) VALUES (?1, ?2)", (order_id, sku))?;
    outbox.publish_blocking(&mut tx, &OrderPlaced { order_id, sku: sku.to_owned() })?;
    if paid {
        tx.commit()?;
    } else {
        // The order and its event are gone together.
        tx.rollback()?;
    }
    Ok(())
}

/// A target is two functions and its capabilities.
struct Printer(Capabilities);

impl Target for Printer {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let print = |(index, parcel): (usize, Parcel)| {
            let event = &parcel.envelope;
            println!(
                "{} {} {}",
                event.event_type,
                event.key.as_deref().unwrap_or("-"),
                String::from_utf8_lossy(&event.payload)
            );
            Answer::delivered(index)
        };
        Box::pin(futures_util::stream::iter(burst.into_iter().enumerate().map(print)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
