//! One transaction, from its beginning to what is known about its end.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Cursor;
use std::time::Duration;

use futures_util::SinkExt as _;
use posthaste::outbox::Outbox;
use posthaste::publish::Publish;
use posthaste::sql::{BoxFuture, Dialect, SqlError, Statement, Tx, Value};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::shape::{End, How, Key, Part, Shape};
use crate::base::{Base, LOCK_TIMEOUT, Wire};
use crate::engine::Engine;
use crate::lanes::POISON;
use crate::{Failure, Result};

/// The numbers of a key's events go up by at least one with each event, and by this with each transaction.
const NUMBERS_PER_TRANSACTION: i64 = 1_000;

/// What the producer knows about the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    RolledBack,
    Unknown,
}

pub(super) struct Ended {
    pub(super) fate: Fate,
    /// How many events it left, if it was committed.
    pub(super) events: u32,
    /// Why the connection cannot be used any more.
    pub(super) broken: Option<Failure>,
}

/// A transaction on a connection that nobody else uses.
pub(super) struct Session<'a> {
    pub(super) wire: &'a Wire,
    pub(super) name: &'a str,
    pub(super) within: Duration,
    pub(super) engine: Engine,
}

impl Session<'_> {
    pub(super) async fn perform(&self, shape: &Shape) -> Ended {
        match self.publish(shape).await {
            Ok(events) => self.end(shape, events).await,
            // The word to commit was never sent.
            Err(error) => {
                let broken = self.say("ROLLBACK").await.err();
                if broken.is_none() {
                    eprintln!("{}: rolled back: {error}", self.name);
                }
                Ended { fate: Fate::RolledBack, events: 0, broken }
            }
        }
    }

    /// Everything but the end; answers how many events are left.
    async fn publish(&self, shape: &Shape) -> Result<u32> {
        self.say(&self.beginning(shape)).await?;
        let mut first = HashMap::new();
        for key in &shape.keys {
            first.insert(*key, self.lock(*key).await? * NUMBERS_PER_TRANSACTION);
        }
        let (mut index, mut left) = (0, 0);
        for part in &shape.parts {
            self.say("SAVEPOINT part").await?;
            let number = part.key.map_or(0, |key| first[&key]) + i64::from(index);
            self.insert(part, index, number).await?;
            index += part.how.events();
            if part.is_undone {
                self.say("ROLLBACK TO SAVEPOINT part").await?;
            } else {
                left += part.how.events();
            }
        }
        for key in shape.keys.iter().filter(|key| self.is_advisory(**key)) {
            self.say(&raise(*key)).await?;
        }
        tokio::time::sleep(shape.pause).await;
        Ok(left)
    }

    fn beginning(&self, shape: &Shape) -> String {
        match self.wire.base() {
            Base::Postgres => format!(
                "BEGIN ISOLATION LEVEL {}; SET LOCAL lock_timeout = '{}ms'; {}",
                shape.isolation,
                LOCK_TIMEOUT.as_millis(),
                if shape.early { "SELECT pg_current_xact_id()" } else { "" }
            ),
            Base::Mariadb => {
                format!("SET TRANSACTION ISOLATION LEVEL {}; START TRANSACTION", shape.isolation)
            }
        }
    }

    /// Whether a key is locked by an advisory lock. Those of MariaDB do not end with a transaction.
    fn is_advisory(&self, key: Key) -> bool {
        key.is_advisory() && self.wire.base() == Base::Postgres
    }

    /// Locks a key to the end of the transaction; answers a number that is higher than all before.
    async fn lock(&self, key: Key) -> Result<i64> {
        let now = format!("SELECT n FROM nemesis_aggregates WHERE \"key\" = '{}'", key.name());
        if self.is_advisory(key) {
            // A statement of its own: the next one must see what was committed while this one waited.
            self.say(&format!("SELECT pg_advisory_xact_lock({})", key.0)).await?;
            return Ok(self.answer(self.wire.number(&now)).await? + 1);
        }
        self.say(&raise(key)).await?;
        self.answer(self.wire.number(&now)).await
    }

    async fn insert(&self, part: &Part, index: u32, number: i64) -> Result<()> {
        let event_type = match part.how {
            How::Outbox { is_poison: true } => POISON,
            _ => "order.placed",
        };
        let topic = match part.key {
            Some(key) if key.0.is_multiple_of(2) => format!("orders.{}", key.0),
            Some(key) => format!("stock.{}", key.0),
            None => "orders.none".to_owned(),
        };
        let key = part.key.map(Key::name);
        let quoted = key.as_ref().map_or_else(|| "NULL".to_owned(), |key| format!("'{key}'"));
        let (name, events) = (self.name, part.how.events());
        let series = self.wire.base().series(events);
        let columns = format!("{} (event_id, event_type, topic, \"key\", payload)", self.engine.events());
        match part.how {
            How::Outbox { .. } if self.engine == Engine::Log => {
                let event =
                    Publish::raw(event_type, number.to_string()).topic(&topic).id(format!("{name}-{index}"));
                let event = match key {
                    Some(key) => event.key(key),
                    None => event.no_key(),
                };
                let mut tx = OpenTx(self.wire.postgres()?);
                self.answer(Outbox::new("").publish(&mut tx, event)).await?;
            }
            How::Copy(_) if self.wire.base() == Base::Postgres => {
                let mut text = String::new();
                for n in 0..events {
                    let (id, number) = (index + n, number + i64::from(n));
                    let key = key.as_deref().unwrap_or("\\N");
                    writeln!(text, "{name}-{id}\t{event_type}\t{topic}\t{key}\t{number}")?;
                }
                self.answer(self.copy(&format!("COPY {columns} FROM STDIN"), text)).await?;
            }
            // Producers of a table know nothing of the library.
            How::Values(_) | How::Copy(_) | How::Outbox { .. } => {
                let rows = (0..events).map(|n| {
                    let (id, number) = (index + n, number + i64::from(n));
                    format!("('{name}-{id}', '{event_type}', '{topic}', {quoted}, '{number}')")
                });
                self.say(&format!("INSERT INTO {columns} VALUES {}", rows.collect::<Vec<_>>().join(", ")))
                    .await?;
            }
            How::Select(_) => {
                let payload = self.wire.base().payload(&format!("{number} + g"));
                self.say(&format!(
                    "INSERT INTO {columns} SELECT '{name}-' || ({index} + g), '{event_type}', '{topic}', {quoted}, {payload} \
                     FROM {series}"
                ))
                .await?;
            }
        }
        self.say(&format!(
            "INSERT INTO nemesis_truth (id, tx, event_type, topic, \"key\", n) \
             SELECT '{name}-' || ({index} + g), '{name}', '{event_type}', '{topic}', {quoted}, {number} + g FROM {series}"
        ))
        .await
    }

    async fn copy(&self, statement: &str, text: String) -> Result<()> {
        let sink = self.wire.postgres()?.copy_in::<_, Cursor<Vec<u8>>>(statement).await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Cursor::new(text.into_bytes())).await?;
        sink.finish().await?;
        Ok(())
    }

    async fn end(&self, shape: &Shape, events: u32) -> Ended {
        let name = self.name;
        match shape.end {
            End::Commit => self.last_word("COMMIT", Fate::Committed, events).await,
            End::Rollback => self.last_word("ROLLBACK", Fate::RolledBack, events).await,
            // A transaction in two phases would be begun in another way there; the pause is what others notice.
            End::TwoPhase { pause, then } if self.wire.base() == Base::Mariadb => {
                tokio::time::sleep(pause).await;
                match then {
                    Some(false) => self.last_word("ROLLBACK", Fate::RolledBack, events).await,
                    _ => self.last_word("COMMIT", Fate::Committed, events).await,
                }
            }
            End::TwoPhase { pause, then } => {
                let prepare = format!("PREPARE TRANSACTION '{name}'");
                let prepared = self.last_word(&prepare, Fate::Unknown, events).await;
                if prepared.fate != Fate::Unknown || prepared.broken.is_some() {
                    return prepared;
                }
                tokio::time::sleep(pause).await;
                match then {
                    Some(true) => {
                        self.last_word(&format!("COMMIT PREPARED '{name}'"), Fate::Committed, events).await
                    }
                    Some(false) => {
                        self.last_word(&format!("ROLLBACK PREPARED '{name}'"), Fate::RolledBack, events).await
                    }
                    None => prepared,
                }
            }
        }
    }

    /// Says how it ends. Refused for a conflict it is rolled back; without an answer nobody knows.
    async fn last_word(&self, word: &str, meant: Fate, events: u32) -> Ended {
        let is_final = word == "COMMIT" || word.starts_with("PREPARE");
        match tokio::time::timeout(self.within, self.wire.say(word)).await {
            Ok(Ok(())) => Ended { fate: meant, events, broken: None },
            Ok(Err(error)) if is_final && is_conflict(&error) => {
                let broken = self.say("ROLLBACK").await.err();
                Ended { fate: Fate::RolledBack, events: 0, broken }
            }
            // Whether it was heard or not, it is not committed.
            Ok(Err(error)) if word == "ROLLBACK" => Ended { fate: meant, events, broken: Some(error) },
            Err(late) if word == "ROLLBACK" => Ended { fate: meant, events, broken: Some(late.into()) },
            Ok(Err(error)) => Ended { fate: Fate::Unknown, events, broken: Some(error) },
            Err(late) => Ended { fate: Fate::Unknown, events, broken: Some(late.into()) },
        }
    }

    async fn say(&self, sql: &str) -> Result<()> {
        self.answer(self.wire.say(sql)).await
    }

    async fn answer<T, E: Into<Failure>>(
        &self,
        asked: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<T> {
        tokio::time::timeout(self.within, asked).await?.map_err(Into::into)
    }
}

/// Moves the number of a key, which locks its row.
fn raise(key: Key) -> String {
    format!("UPDATE nemesis_aggregates SET n = n + 1 WHERE \"key\" = '{}'", key.name())
}

fn is_conflict(error: &Failure) -> bool {
    let code = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| {
        [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::IN_FAILED_SQL_TRANSACTION,
        ]
        .contains(code)
    })
}

/// The transaction that is open on this connection, for the library's outbox.
struct OpenTx<'a>(&'a Client);

impl Tx for OpenTx<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, posthaste::sql::Result<u64>> {
        Box::pin(async move {
            let values: Vec<(&(dyn ToSql + Sync), Type)> = statement
                .values
                .iter()
                .map(|value| -> (&(dyn ToSql + Sync), Type) {
                    match value {
                        Value::Int(int) => (int, Type::INT8),
                        Value::Text(text) => (text, Type::TEXT),
                        Value::Bytes(bytes) => (bytes, Type::BYTEA),
                        _ => (&None::<i64>, Type::INT8),
                    }
                })
                .collect();
            self.0.execute_typed(&statement.sql, &values).await.map_err(SqlError::new)
        })
    }
}
