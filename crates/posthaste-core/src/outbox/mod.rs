//! The producer's side: an event becomes a row in the caller's own transaction.

mod bound;
mod insert;
mod order;

use std::sync::Arc;

use posthaste_sql::{BlockingTx, Database, Dialect, Statement, Tx};

pub use bound::{Bound, Pending};

use crate::envelope::{Envelope, Headers};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::prefix::TablePrefix;
use crate::publish::Publish;
use crate::publisher::Published;
use crate::signal::Signal;
use crate::table::{MysqlInsert, Profile};
use crate::{Error, Result};
use insert::Insert;

/// Publishes inside the caller's transaction.
///
/// ```no_run
/// # use posthaste_core::{outbox::Outbox, publish::Publish};
/// # async fn example(tx: &mut dyn posthaste_sql::Tx) -> posthaste_core::Result<()> {
/// let outbox = Outbox::new("/shop/orders");
/// outbox.publish(tx, Publish::raw("order.placed", r#"{"id":1}"#).key("order-1")).await?;
/// # Ok(()) }
/// ```
///
/// # Guarantees
/// A publish is one `INSERT`; nothing leaves before the caller's `COMMIT`, and a rollback (also of a savepoint) takes the
/// event back. For one key, delivery follows the order of commits if the producer changes or locks what the key names
/// before it publishes, or if all its producers are [`ordered`](Outbox::ordered).
#[derive(Clone)]
pub struct Outbox {
    source: String,
    payload_bytes_max: usize,
    prefix: TablePrefix,
    insert: Arc<Insert>,
    rows: Arc<MysqlInsert>,
    order: Option<Arc<str>>,
    context: Option<Arc<dyn Fn() -> Headers + Send + Sync>>,
    signal: Option<Signal>,
}

/// What a publish did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The event's id.
    pub id: String,
    /// Whether it was stored now, or was there before (only with [`Publish::once`]).
    pub published: Published,
}

/// What a publish of many did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entries {
    /// The events' ids, in the order they were handed in.
    pub ids: Vec<String>,
    /// How many were stored; fewer than ids only with [`Publish::once`].
    pub stored: u64,
}

impl Outbox {
    /// An outbox whose events come from this source: CloudEvents' `source`, a path or URI that names the producer.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            prefix: TablePrefix::default(),
            insert: Arc::new(Insert::into_tables(&TablePrefix::default())),
            rows: Arc::new(MysqlInsert::new(&Profile::open_outbox())),
            order: None,
            context: None,
            signal: None,
        }
    }

    /// Writes to tables with this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: &TablePrefix) -> Self {
        self.insert = Arc::new(Insert::into_tables(prefix));
        self.order = self.order.map(|_| order::text(prefix).into());
        self.prefix = prefix.clone();
        self
    }

    /// On MariaDB and MySQL, which have no log, writes rows into the table of this profile; without it into that of the
    /// open-outbox specification, `openoutbox_events`. The table must have every column that the profile names.
    #[must_use]
    pub fn table(mut self, profile: &Profile) -> Self {
        self.rows = Arc::new(MysqlInsert::new(profile));
        self
    }

    /// Keeps the order of keys by a lock of its own: of two transactions that publish under one key, the second waits in
    /// its publish until the first has ended. For producers that publish before they lock or change what the key names,
    /// like an ORM that writes in an order of its own.
    ///
    /// # Guarantees
    /// Events of one key are delivered in the order of their commits if every producer of the key is ordered. Keys share
    /// 256 locks, which a batch takes in one order, so batches do not wait for each other in a circle; two publishes of
    /// different keys in one transaction may, and the database then ends one of the two. On SQLite this does nothing:
    /// there is one writer.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.order = Some(order::text(&self.prefix).into());
        self
    }

    /// Takes payloads up to this size, so that the producer fails rather than the relay at night.
    #[must_use]
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// Asks this for headers at every publish: trace context, correlation. What the event sets itself wins.
    #[must_use]
    pub fn context(mut self, context: impl Fn() -> Headers + Send + Sync + 'static) -> Self {
        self.context = Some(Arc::new(context));
        self
    }

    /// Rings this after a commit of [`transaction`](Outbox::transaction), so that a relay in this process need not poll.
    #[must_use]
    pub fn signal(mut self, signal: Signal) -> Self {
        self.signal = Some(signal);
        self
    }

    /// Stores one event in this transaction.
    ///
    /// # Errors
    /// `Rejected` or `TooLarge` before anything is sent; `Conflict` when the id exists (and on most databases the caller's
    /// transaction is then lost: use [`Publish::once`] where that may happen).
    pub async fn publish(&self, tx: &mut (impl Tx + ?Sized), what: impl Into<Publish>) -> Result<Entry> {
        let (lock, statement, id) = self.one(tx.dialect(), what.into())?;
        if let Some(lock) = lock {
            tx.execute(lock).await.map_err(failed)?;
        }
        entry(id, tx.execute(statement).await.map_err(failed)?)
    }

    /// Stores many events in this transaction, in their order, in few statements.
    ///
    /// # Errors
    /// As [`publish`](Outbox::publish). All events are checked before the first is sent.
    pub async fn publish_all<P: Into<Publish>>(
        &self,
        tx: &mut (impl Tx + ?Sized),
        events: impl IntoIterator<Item = P>,
    ) -> Result<Entries> {
        let (lock, statements, ids) = self.many(tx.dialect(), events)?;
        if let Some(lock) = lock {
            tx.execute(lock).await.map_err(failed)?;
        }
        let mut stored = 0;
        for statement in statements {
            stored += tx.execute(statement).await.map_err(failed)?;
        }
        Ok(Entries { ids, stored })
    }

    /// [`publish`](Outbox::publish) for blocking drivers.
    ///
    /// # Errors
    /// As [`publish`](Outbox::publish).
    pub fn publish_blocking(
        &self,
        tx: &mut (impl BlockingTx + ?Sized),
        what: impl Into<Publish>,
    ) -> Result<Entry> {
        let (lock, statement, id) = self.one(tx.dialect(), what.into())?;
        if let Some(lock) = lock {
            tx.execute(lock).map_err(failed)?;
        }
        entry(id, tx.execute(statement).map_err(failed)?)
    }

    /// [`publish_all`](Outbox::publish_all) for blocking drivers.
    ///
    /// # Errors
    /// As [`publish_all`](Outbox::publish_all).
    pub fn publish_all_blocking<P: Into<Publish>>(
        &self,
        tx: &mut (impl BlockingTx + ?Sized),
        events: impl IntoIterator<Item = P>,
    ) -> Result<Entries> {
        let (lock, statements, ids) = self.many(tx.dialect(), events)?;
        if let Some(lock) = lock {
            tx.execute(lock).map_err(failed)?;
        }
        let mut stored = 0;
        for statement in statements {
            stored += tx.execute(statement).map_err(failed)?;
        }
        Ok(Entries { ids, stored })
    }

    /// Runs `work` in a transaction of its own: begins, hands out the transaction and a publisher, stores what was handed
    /// to the publisher, commits, and wakes the relay. An error (also of the commit) rolls everything back.
    ///
    /// # Errors
    /// Whatever `work` answers; the database's errors as [`Error`].
    pub async fn transaction<D, T, E>(
        &self,
        database: &D,
        work: impl AsyncFnOnce(&mut D::Tx, &mut Pending) -> Result<T, E>,
    ) -> Result<T, E>
    where
        D: Database,
        E: From<Error>,
    {
        let mut tx =
            database.begin().await.map_err(|error| Error::from(error).during("begin a transaction"))?;
        let mut pending = Pending::default();
        let answer = work(&mut tx, &mut pending).await?;
        self.publish_all(&mut tx, pending.into_events()).await?;
        D::commit(tx).await.map_err(|error| Error::from(error).during("commit"))?;
        if let Some(signal) = &self.signal {
            signal.ring();
        }
        Ok(answer)
    }

    /// A publisher that carries the transaction, for domain code that must not see it.
    pub fn bind<'a, T: Tx + ?Sized>(&'a self, tx: &'a mut T) -> Bound<'a, T> {
        Bound::new(self, tx)
    }

    /// The statement that publishes this event, for a driver that Posthaste does not know.
    ///
    /// # Errors
    /// `Rejected` or `TooLarge` when the event is wrong.
    pub fn statement(&self, dialect: Dialect, what: impl Into<Publish>) -> Result<Statement> {
        self.one(dialect, what.into()).map(|(_, statement, _)| statement)
    }

    /// The statement that an [`ordered`](Outbox::ordered) outbox sends before those that publish under these keys, for a
    /// driver that Posthaste does not know; `None`: nothing is needed.
    pub fn order_statement<'k>(
        &self,
        dialect: Dialect,
        keys: impl IntoIterator<Item = &'k str>,
    ) -> Option<Statement> {
        let text = self.order.as_ref().filter(|_| dialect == Dialect::Postgres)?;
        order::statement(text, keys.into_iter().collect())
    }

    fn one(&self, dialect: Dialect, what: Publish) -> Result<(Option<Statement>, Statement, String)> {
        let once = what.is_once();
        let envelope = self.seal(what)?;
        let id = envelope.id.clone();
        let lock = self.order_statement(dialect, envelope.key.as_deref());
        if dialect == Dialect::Mysql {
            self.rows.check(&envelope)?;
            let mut statements = self.rows.statements(vec![(once, envelope)]);
            let statement = statements.pop().ok_or_else(|| Error::config("an event makes no statement"))?;
            return Ok((lock, statement, id));
        }
        Ok((lock, self.insert.statement(dialect, once, vec![envelope]), id))
    }

    fn many<P: Into<Publish>>(
        &self,
        dialect: Dialect,
        events: impl IntoIterator<Item = P>,
    ) -> Result<(Option<Statement>, Vec<Statement>, Vec<String>)> {
        let mut sealed = Vec::new();
        for what in events {
            let what = what.into();
            sealed.push((what.is_once(), self.seal(what)?));
        }
        let ids = sealed.iter().map(|(_, envelope)| envelope.id.clone()).collect();
        let lock =
            self.order_statement(dialect, sealed.iter().filter_map(|(_, envelope)| envelope.key.as_deref()));
        if dialect == Dialect::Mysql {
            sealed.iter().try_for_each(|(_, envelope)| self.rows.check(envelope))?;
            return Ok((lock, self.rows.statements(sealed), ids));
        }
        Ok((lock, self.insert.statements(dialect, sealed), ids))
    }

    /// Fills in what the producer left open, then checks.
    fn seal(&self, what: Publish) -> Result<Envelope> {
        let mut envelope = what.into_envelope()?;
        if envelope.source.is_empty() {
            envelope.source.clone_from(&self.source);
        }
        if let Some(context) = &self.context {
            for (name, value) in context() {
                envelope.headers.entry(name).or_insert(value);
            }
        }
        let name = format!("publish {:?}", envelope.event_type);
        envelope.check(self.payload_bytes_max).map_err(|error| error.during(name))?;
        Ok(envelope)
    }
}

fn entry(id: String, rows: u64) -> Result<Entry> {
    let published = if rows == 0 { Published::Before } else { Published::Now };
    Ok(Entry { id, published })
}

fn failed(error: posthaste_sql::SqlError) -> Error {
    if error.is_duplicate() {
        return Error::conflict(
            "publish: an event of this source and id exists; use Publish::once() where that may happen",
        )
        .because(error);
    }
    Error::from(error).during("publish")
}
