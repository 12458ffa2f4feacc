//! diesel-async on Postgres: publishing inside of diesel's own transaction, and in one that is owned.
//!
//! Run it: `DATABASE_URL=postgres://… cargo run -p posthaste --example diesel_async --features postgres,diesel-async`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "it is told in the environment which database it may use")]

use diesel::sql_types::BigInt;
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use posthaste::outbox::Outbox;
use posthaste::sql::SqlError;
use posthaste::{Error, Event};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "order.placed", topic = "orders", key = order_id)]
struct OrderPlaced {
    order_id: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a Postgres database")?;
    let store = posthaste::store::open(&url).await?;
    store.migrate().await?;
    let pool = Pool::builder(AsyncDieselConnectionManager::<AsyncPgConnection>::new(&url)).build()?;
    let mut shop = pool.get().await?;
    shop.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").await?;
    let outbox = Outbox::new("/shop/orders");

    for order_id in [1, 2, 1] {
        let outbox = outbox.clone();
        let placed = shop.transaction(async move |shop| {
            outbox.publish(shop, &OrderPlaced { order_id }).await.map_err(Failed::of)?;
            insert(&mut *shop, order_id).await?;
            Ok::<_, Failed>(())
        });
        println!("order {order_id}: {}", if placed.await.is_ok() { "placed" } else { "is there already" });
    }

    let done: posthaste::Result<()> = outbox
        .transaction(&pool, async |tx, out| {
            insert(tx.connection(), 3).await.map_err(SqlError::new)?;
            out.publish(&OrderPlaced { order_id: 3 });
            Ok(())
        })
        .await;
    done?;

    let events = store.find(&Default::default(), posthaste::admin::Page::first(10)).await?;
    for record in events.records.iter().rev() {
        println!("{} {}", record.envelope.event_type, record.envelope.key.as_deref().unwrap_or_default());
    }
    Ok(())
}

async fn insert(shop: &mut AsyncPgConnection, order_id: i64) -> diesel::QueryResult<usize> {
    diesel::sql_query("INSERT INTO orders (id) VALUES ($1)").bind::<BigInt, _>(order_id).execute(shop).await
}

/// diesel rolls back for an error that it can be turned into, whatever it is.
#[derive(Debug)]
struct Failed;

impl Failed {
    fn of(_: Error) -> Self {
        Self
    }
}

impl From<diesel::result::Error> for Failed {
    fn from(_: diesel::result::Error) -> Self {
        Self
    }
}
