//! sqlx: the closure form begins, publishes, commits, and wakes a relay in the same process.
//!
//! Run it: `cargo run -p posthaste --example transaction --features sqlite,sqlx-sqlite`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use posthaste::Event;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::registry::Registry;
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "user.joined", key = name)]
struct UserJoined {
    name: String,
}

/// A type of the domain that knows nothing about topics; a registry routes it.
#[derive(Serialize, Deserialize)]
struct Invoice {
    number: u32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("users.db");
    let store = posthaste::store::open(&format!("sqlite://{}", file.display())).await?;
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file)).await?;
    sqlx::query("CREATE TABLE users (name TEXT PRIMARY KEY)").execute(&pool).await?;

    let mut registry = Registry::new();
    registry.register::<Invoice>("invoice.sent", "billing")?.key_by(|invoice| invoice.number.to_string());
    let outbox = Outbox::new("/users");

    for name in ["ada", "grace", "ada"] {
        let joined = UserJoined { name: name.to_owned() };
        let invoice = registry.of(&Invoice { number: 7 })?;
        let done: posthaste::Result<()> = outbox
            .transaction(&pool, async |tx, out| {
                let insert = sqlx::query("INSERT INTO users (name) VALUES (?1)").bind(&joined.name);
                insert.execute(&mut **tx).await.map_err(posthaste::sql::SqlError::new)?;
                out.publish(&joined);
                out.publish(invoice);
                out.publish(Publish::raw("mail.wanted", format!("welcome {}", joined.name)).topic("mail"));
                Ok(())
            })
            .await;
        println!("{name}: {}", if done.is_ok() { "joined" } else { "is a member already" });
    }

    let filter = posthaste::admin::Filter::default();
    let mut page = posthaste::admin::Page::first(10);
    page.with_payload = true;
    for record in store.find(&filter, page).await?.records.iter().rev() {
        let event = &record.envelope;
        println!("{} → {}: {}", event.event_type, event.topic, String::from_utf8_lossy(&event.payload));
    }
    Ok(())
}
