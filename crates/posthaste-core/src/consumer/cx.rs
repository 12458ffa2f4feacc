//! What a handler works with: the transaction, the event's attributes, the application's state.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use posthaste_sql::{BoxFuture, Database, Tx};

use crate::Result;
use crate::envelope::{Envelope, fresh_id};
use crate::outbox::{Entries, Entry, Outbox};
use crate::publish::Publish;
use crate::trace::{CORRELATION_ID, TRACEPARENT, TRACESTATE};

/// Headers that name the request an event belongs to, in the order in which they are looked for, whatever their case.
const REQUEST_IDS: [&str; 3] = ["HeaderID", "x-request-id", "request-id"];

/// The database of a consumer that has none: its handlers have no transaction, and so no inbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDatabase;

/// What handlers stand on: a [`Database`], or [`NoDatabase`]. Nothing else can be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database pool that Posthaste knows",
    label = "neither a database pool nor `NoDatabase`",
    note = "sqlx's `PgPool` and `SqlitePool` and deadpool-postgres' `Pool` are, behind the features `sqlx-postgres`, `sqlx-sqlite` and `deadpool-postgres`",
    note = "a consumer without a database is `Consumer::named(\"…\")`"
)]
pub trait Ground: sealed::Sealed + Clone + Send + Sync + 'static {
    /// The transaction that handlers work in.
    type Tx: Send + 'static;
    /// Whether there is one.
    const TRANSACTIONAL: bool;
    /// Begins a transaction.
    fn begin(&self) -> BoxFuture<'_, posthaste_sql::Result<Self::Tx>>;
    /// Commits it.
    fn commit(tx: Self::Tx) -> BoxFuture<'static, posthaste_sql::Result<()>>;
    /// What Posthaste's own statements run in.
    fn as_tx(tx: &mut Self::Tx) -> Option<&mut dyn Tx>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::NoDatabase {}
    impl<D: posthaste_sql::Database> Sealed for D {}
}

impl Ground for NoDatabase {
    type Tx = ();
    const TRANSACTIONAL: bool = false;

    fn begin(&self) -> BoxFuture<'_, posthaste_sql::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn commit((): ()) -> BoxFuture<'static, posthaste_sql::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn as_tx((): &mut ()) -> Option<&mut dyn Tx> {
        None
    }
}

impl<D: Database> Ground for D {
    type Tx = <D as Database>::Tx;
    const TRANSACTIONAL: bool = true;

    fn begin(&self) -> BoxFuture<'_, posthaste_sql::Result<Self::Tx>> {
        Database::begin(self)
    }

    fn commit(tx: Self::Tx) -> BoxFuture<'static, posthaste_sql::Result<()>> {
        <D as Database>::commit(tx)
    }

    fn as_tx(tx: &mut Self::Tx) -> Option<&mut dyn Tx> {
        Some(tx)
    }
}

/// A consumer's database that has transactions: any [`Database`], and not [`NoDatabase`].
#[diagnostic::on_unimplemented(
    message = "this consumer has no database, so its handlers have no transaction to work or publish in",
    label = "`{Self}` has no transaction",
    note = "make the consumer with `Consumer::new(name, pool, state)`, and let its handlers take `&mut Cx<PgPool, State>`",
    note = "without a database, publish by an `Outbox` of your own, and keep duplicates away with `Idempotent::by(store)`"
)]
pub trait Transactional: Database {}

// Otherwise the compiler would say that `NoDatabase` is not a pool it knows, which is no help.
#[diagnostic::do_not_recommend]
impl<D: Database> Transactional for D {}

/// What a handler works with, besides the event: `Cx<PgPool, App>`, or just `Cx` without database and state.
pub struct Cx<D: Ground = NoDatabase, S = ()> {
    pub(super) tx: Option<D::Tx>,
    envelope: Arc<Envelope>,
    attempt: u32,
    request_id: OnceLock<String>,
    scope: Arc<Scope<S>>,
}

/// What all handlers of a consumer share.
pub(super) struct Scope<S> {
    pub(super) consumer: String,
    pub(super) state: S,
    pub(super) outbox: Outbox,
}

impl<D: Ground, S> Cx<D, S> {
    pub(super) fn new(scope: Arc<Scope<S>>, envelope: Arc<Envelope>, attempt: u32) -> Self {
        Self { tx: None, envelope, attempt, request_id: OnceLock::new(), scope }
    }

    /// The application's state, as it was handed to the consumer.
    pub fn state(&self) -> &S {
        &self.scope.state
    }

    /// The event as it came: id, source, key, headers, payload.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Which delivery to this consumer this is, counted from 1, as far as the broker knows.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The consumer's name.
    pub fn consumer(&self) -> &str {
        &self.scope.consumer
    }

    /// What ties together everything that one request caused: the header `correlation-id`, else the event's id.
    pub fn correlation_id(&self) -> &str {
        self.envelope.headers.get(CORRELATION_ID).unwrap_or(&self.envelope.id)
    }

    /// The request that this event belongs to: the header `HeaderID`, `x-request-id` or `request-id`, else a fresh id.
    pub fn request_id(&self) -> &str {
        let header = |name: &str| {
            let mut headers = self.envelope.headers.iter();
            headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        };
        self.request_id
            .get_or_init(|| REQUEST_IDS.iter().find_map(|name| header(name)).unwrap_or_else(fresh_id))
    }

    pub(super) fn envelope_arc(&self) -> &Arc<Envelope> {
        &self.envelope
    }
}

impl<D: Ground, S> Cx<D, S> {
    /// The transaction of this event: what is done in it is committed together with the inbox row and with what
    /// [`publish`](Cx::publish) stored, or not at all.
    ///
    /// Do not commit it; answering `Ok` does.
    pub fn tx(&mut self) -> &mut <D as Ground>::Tx
    where
        D: Transactional,
    {
        self.tx.as_mut().expect("a handler is called with its transaction begun")
    }

    /// Publishes in the event's transaction: stored if and only if this event is handled.
    ///
    /// The new event has this event's correlation id and trace, unless it says otherwise.
    ///
    /// # Errors
    /// As [`Outbox::publish`].
    pub async fn publish(&mut self, what: impl Into<Publish>) -> Result<Entry>
    where
        D: Transactional,
    {
        let what = self.caused(what.into());
        let scope = Arc::clone(&self.scope);
        scope.outbox.publish(self.ours(), what).await
    }

    /// Publishes many in the event's transaction, in their order.
    ///
    /// # Errors
    /// As [`Outbox::publish_all`].
    pub async fn publish_all<P: Into<Publish>>(
        &mut self,
        events: impl IntoIterator<Item = P>,
    ) -> Result<Entries>
    where
        D: Transactional,
    {
        let events: Vec<Publish> = events.into_iter().map(|what| self.caused(what.into())).collect();
        let scope = Arc::clone(&self.scope);
        scope.outbox.publish_all(self.ours(), events).await
    }

    /// The transaction as Posthaste's own statements run in it.
    fn ours(&mut self) -> &mut dyn Tx
    where
        D: Transactional,
    {
        D::as_tx(self.tx()).expect("whoever is transactional has a transaction")
    }

    /// Adds what ties the new event to the one that is handled.
    fn caused(&self, what: Publish) -> Publish {
        let mut what = what.header_unless_set(CORRELATION_ID, || Cow::Borrowed(self.correlation_id()));
        for name in [TRACEPARENT, TRACESTATE] {
            let here = here(name).or_else(|| self.envelope.headers.get(name).cloned());
            if let Some(value) = here {
                what = what.header_unless_set(name, || Cow::Owned(value));
            }
        }
        what
    }
}

/// The current span's part of the trace, where there is a trace.
#[cfg(feature = "otel")]
fn here(name: &str) -> Option<String> {
    crate::trace::current().remove(name)
}

#[cfg(not(feature = "otel"))]
fn here(_: &str) -> Option<String> {
    None
}
