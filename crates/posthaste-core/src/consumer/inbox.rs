//! The inbox: one row per event and consumer, written in the transaction of the event's effect.
//!
//! The row is inserted first. If it is there already, the effect is too, because both were committed together; then nothing
//! is left to do but to acknowledge. While another transaction holds the same row uncommitted, the insert waits for it
//! (Postgres, MariaDB) or the whole transaction waits for its turn (SQLite).
//!
//! No store removes rows by itself, because it does not know how long a broker may deliver an event again. An
//! operator does ([`PruneInbox`](crate::admin::Command::PruneInbox)), and so does `posthaste serve`
//! (`store.retain_inbox`), in small steps and by age.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste_sql::{BlockingTx, Dialect, Statement, Tx, Value};

use crate::envelope::Envelope;
use crate::prefix::TablePrefix;
use crate::{Error, Result};

/// Rows per statement. Few sizes, so that few texts are ever prepared; what is left over in a statement repeats its last
/// row, which changes nothing.
const SIZES: [usize; 5] = [1, 8, 64, 256, 512];
const VALUES_PER_ROW: usize = 3;

/// One consumer's inbox.
///
/// [`Consumer`](super::Consumer) uses it for every event if it has a database. Use it directly where events come another
/// way:
///
/// ```no_run
/// # use posthaste_core::{consumer::Inbox, envelope::Envelope};
/// # async fn example(tx: &mut dyn posthaste_sql::Tx, envelope: &Envelope) -> posthaste_core::Result<()> {
/// let inbox = Inbox::of("stock");
/// if inbox.enter(tx, &[envelope]).await? == 0 {
///     return Ok(()); // its effect is committed already
/// }
/// // … the effect, in the same transaction …
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Inbox {
    consumer: String,
    texts: Arc<HashMap<(Dialect, usize), String>>,
}

impl Inbox {
    /// The inbox of this consumer in the tables with the default prefix.
    pub fn of(consumer: impl Into<String>) -> Self {
        Self { consumer: consumer.into(), texts: Arc::new(texts(&TablePrefix::default())) }
    }

    /// Uses tables with this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &TablePrefix) -> Self {
        self.texts = Arc::new(texts(prefix));
        self
    }

    /// Writes a row for each of these events, all different, and answers how many of them were not there before.
    ///
    /// # Errors
    /// What the database says; on most of them the transaction is then lost.
    pub async fn enter(&self, tx: &mut (impl Tx + ?Sized), events: &[&Envelope]) -> Result<u64> {
        let mut entered = 0;
        for statement in self.statements(tx.dialect(), events) {
            entered += tx.execute(statement).await.map_err(failed)?;
        }
        Ok(entered)
    }

    /// [`enter`](Inbox::enter) for blocking drivers.
    ///
    /// # Errors
    /// As [`enter`](Inbox::enter).
    pub fn enter_blocking(&self, tx: &mut (impl BlockingTx + ?Sized), events: &[&Envelope]) -> Result<u64> {
        let mut entered = 0;
        for statement in self.statements(tx.dialect(), events) {
            entered += tx.execute(statement).map_err(failed)?;
        }
        Ok(entered)
    }

    /// The statements that write the rows, for a driver that Posthaste does not know. The rows they change are the events
    /// that were not there before.
    pub fn statements(&self, dialect: Dialect, events: &[&Envelope]) -> Vec<Statement> {
        // In one order everywhere, so that two batches with common events wait for one another and never in a circle.
        let mut events = events.to_vec();
        events.sort_by(|a, b| (&a.id, &a.source).cmp(&(&b.id, &b.source)));
        let largest = SIZES[SIZES.len() - 1];
        events.chunks(largest).map(|rows| self.statement(dialect, rows)).collect()
    }

    fn statement(&self, dialect: Dialect, rows: &[&Envelope]) -> Statement {
        let size = SIZES.into_iter().find(|&size| size >= rows.len()).unwrap_or(rows.len());
        let padding = rows.last().into_iter().cycle().take(size - rows.len());
        let values = rows.iter().chain(padding).flat_map(|event| {
            [
                Value::Text(Some(self.consumer.clone())),
                Value::Text(Some(event.id.clone())),
                Value::Text(Some(event.source.clone())),
            ]
        });
        Statement::new(self.texts[&(dialect, size)].clone(), values.collect())
    }
}

fn texts(prefix: &TablePrefix) -> HashMap<(Dialect, usize), String> {
    let dialects = [Dialect::Sqlite, Dialect::Postgres, Dialect::Mysql];
    dialects
        .into_iter()
        .flat_map(|dialect| SIZES.map(|size| ((dialect, size), text(prefix, dialect, size))))
        .collect()
}

fn text(prefix: &TablePrefix, dialect: Dialect, rows: usize) -> String {
    let row = |index: usize| {
        let first = index * VALUES_PER_ROW;
        let value = |number: usize| match dialect {
            Dialect::Postgres => format!("${}::text", first + number),
            Dialect::Mysql => "?".to_owned(),
            _ => format!("?{}", first + number),
        };
        format!("({}, {}, {})", value(1), value(2), value(3))
    };
    let rows: Vec<_> = (0..rows).map(row).collect();
    let head = prefix.apply("INTO {prefix}inbox (consumer, event_id, source) VALUES ");
    let rows = rows.join(", ");
    if dialect == Dialect::Mysql {
        // It would also cut what is too long: the columns take all that an event and a consumer may be called.
        return format!("INSERT IGNORE {head}{rows}");
    }
    format!("INSERT {head}{rows} ON CONFLICT DO NOTHING")
}

fn failed(error: posthaste_sql::SqlError) -> Error {
    Error::from(error).during("write the inbox row")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_one_statement_whose_spare_rows_repeat_the_last() {
        let events: Vec<_> =
            (0..5).map(|n| Envelope { id: format!("{}", 9 - n), ..Envelope::new("t", "") }).collect();
        let refs: Vec<_> = events.iter().collect();
        let statements = Inbox::of("stock").statements(Dialect::Postgres, &refs);
        assert_eq!(statements.len(), 1);
        let ids: Vec<_> = statements[0].values.chunks(3).map(|row| row[1].clone()).collect();
        let expected = ["5", "6", "7", "8", "9", "9", "9", "9"].map(|id| Value::Text(Some(id.to_owned())));
        assert_eq!(ids, expected, "in the order of their ids");
        assert!(statements[0].sql.contains("$24::text") && statements[0].sql.ends_with("DO NOTHING"));
    }
}
