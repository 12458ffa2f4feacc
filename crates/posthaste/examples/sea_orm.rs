//! sea-orm: the closure form begins, publishes and commits on its connection; a transaction of one's own works as well.
//!
//! Run it: `cargo run -p posthaste --example sea_orm --features sqlite,sea-orm`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use posthaste::Event;
use posthaste::outbox::Outbox;
use posthaste::sql::SqlError;
use sea_orm::{ConnectionTrait as _, Database, DbBackend, Statement, TransactionTrait as _};
use serde::{Deserialize, Serialize};

#[derive(Event, Serialize, Deserialize)]
#[event(type = "user.joined", topic = "users", key = name)]
struct UserJoined {
    name: String,
}

fn insert(name: &str) -> Statement {
    let sql = "INSERT INTO users (name) VALUES (?)";
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, [name.into()])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}", folder.path().join("users.db").display());
    let store = posthaste::store::open(&url).await?;
    let database = Database::connect(&url).await?;
    database.execute_unprepared("CREATE TABLE users (name TEXT PRIMARY KEY)").await?;
    let outbox = Outbox::new("/users");

    for name in ["ada", "ada"] {
        let joined = UserJoined { name: name.to_owned() };
        let done: posthaste::Result<()> = outbox
            .transaction(&database, async |tx, out| {
                tx.execute_raw(insert(name)).await.map_err(SqlError::new)?;
                out.publish(&joined);
                Ok(())
            })
            .await;
        println!("{name}: {}", if done.is_ok() { "joined" } else { "is a member already" });
    }

    let mut tx = database.begin().await?;
    tx.execute_raw(insert("grace")).await?;
    outbox.publish(&mut tx, &UserJoined { name: "grace".to_owned() }).await?;
    tx.commit().await?;

    let events = store.find(&Default::default(), posthaste::admin::Page::first(10)).await?;
    for record in events.records.iter().rev() {
        println!("{} {}", record.envelope.event_type, record.envelope.key.as_deref().unwrap_or_default());
    }
    Ok(())
}
