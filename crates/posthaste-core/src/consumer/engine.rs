//! Handles one event: transaction, inbox row, middleware, handler, commit.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tracing::{Instrument, Span, info_span};

use super::cx::{Cx, Ground, Scope};
use super::failure::{Class, Failure};
use super::handler::Route;
use super::inbox::Inbox;
use super::meters::Meters;
use super::middleware::{Call, Middleware, Next};
use super::{Hook, Unhandled};
use crate::broker::Reason;
use crate::crash;
use crate::envelope::Envelope;
use crate::retry::RetryPolicy;
use crate::telemetry::{field, span};

pub(super) type Classify = Arc<dyn Fn(&Failure, &Envelope) -> Option<Class> + Send + Sync>;

/// Everything that handling needs and that does not change while a consumer runs.
pub(super) struct Engine<D: Ground, S> {
    pub(super) name: Arc<str>,
    pub(super) database: D,
    pub(super) scope: Arc<Scope<S>>,
    pub(super) routes: HashMap<String, Box<dyn Route<D, S>>>,
    pub(super) any: Option<Box<dyn Route<D, S>>>,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    pub(super) inbox: Inbox,
    pub(super) unhandled: Unhandled,
    pub(super) classify: Option<Classify>,
    pub(super) policy: Arc<dyn RetryPolicy>,
    pub(super) timeout: Duration,
    pub(super) meters: Meters,
    pub(super) on_dead: Option<Hook>,
    pub(super) on_failed: Option<Hook>,
}

/// What became of an event.
pub(super) enum Done {
    Handled,
    /// Its inbox row was there: the effect is committed already.
    Duplicate,
    /// Nobody handles its type, and that is no mistake.
    Ignored,
    Failed(Failure),
}

/// What is to be done about an event that was not handled.
pub(super) enum Then {
    /// Again after this time, counted as an attempt.
    Again(Duration),
    /// Again after this time, not counted.
    Later(Duration),
    Dead(Reason),
}

impl<D: Ground, S: Send + Sync + 'static> Engine<D, S> {
    /// Handles one event in a transaction of its own. Dropping the future undoes everything.
    pub(super) async fn handle(&self, cx: &mut Cx<D, S>) -> Done {
        let Some(route) = self.route(cx.envelope()) else { return self.nobody(cx.envelope()) };
        let span = self.span(cx);
        let handled = async {
            if !D::TRANSACTIONAL {
                return self.call(route, cx).await;
            }
            match self.in_transaction(route, cx).await {
                Ok(done) => done,
                Err(failure) => Done::Failed(failure),
            }
        };
        handled.instrument(span).await
    }

    async fn in_transaction(&self, route: &dyn Route<D, S>, cx: &mut Cx<D, S>) -> Result<Done, Failure> {
        let mut tx = self.begin().await?;
        if self.enter(&mut tx, &[cx.envelope()]).await? == 0 {
            return Ok(Done::Duplicate);
        }
        crash::point("consumer: entered");
        cx.tx = Some(tx);
        let done = self.call(route, cx).await;
        let tx = cx.tx.take().expect("the transaction was put there above");
        if matches!(done, Done::Handled) {
            crash::point("consumer: before commit");
            self.commit(tx).await?;
            crash::point("consumer: committed");
        }
        Ok(done)
    }

    pub(super) async fn begin(&self) -> Result<D::Tx, Failure> {
        self.database.begin().await.map_err(|error| Failure::database("begin a transaction", error))
    }

    pub(super) async fn commit(&self, tx: D::Tx) -> Result<(), Failure> {
        D::commit(tx).await.map_err(|error| Failure::database("commit", error))
    }

    /// Writes the inbox rows; answers how many were new.
    pub(super) async fn enter(&self, tx: &mut D::Tx, events: &[&Envelope]) -> Result<u64, Failure> {
        match D::as_tx(tx) {
            Some(tx) => Ok(self
                .inbox
                .enter(tx, events)
                .await
                .map_err(|error| Failure::retry(error).code("database"))?),
            None => Ok(events.len() as u64),
        }
    }

    /// Runs middleware and handler; a panic is a failure.
    pub(super) async fn call(&self, route: &dyn Route<D, S>, cx: &mut Cx<D, S>) -> Done {
        let called = async {
            if self.middleware.is_empty() {
                return route.call(cx).await;
            }
            let call = Call::new(Arc::clone(cx.envelope_arc()), cx.attempt(), Arc::clone(&self.name));
            Next::new(&self.middleware, move || route.call(cx)).run(call).await
        };
        match AssertUnwindSafe(called).catch_unwind().await {
            Ok(Ok(())) => Done::Handled,
            Ok(Err(failure)) => Done::Failed(failure),
            Err(panic) => {
                self.meters.panics.increment(1);
                Done::Failed(Failure::panicked(panic.as_ref()))
            }
        }
    }

    pub(super) fn route(&self, envelope: &Envelope) -> Option<&dyn Route<D, S>> {
        let typed = self.routes.get(envelope.event_type.as_str());
        typed.or(self.any.as_ref()).map(|route| &**route)
    }

    pub(super) fn nobody(&self, envelope: &Envelope) -> Done {
        match self.unhandled {
            Unhandled::Ignore => Done::Ignored,
            Unhandled::Dead => Done::Failed(Failure::unhandled(&envelope.event_type)),
        }
    }

    pub(super) fn cx(&self, envelope: &Arc<Envelope>, attempt: u32) -> Cx<D, S> {
        Cx::new(Arc::clone(&self.scope), Arc::clone(envelope), attempt)
    }

    /// The event's span, in the producer's trace where there is one.
    pub(super) fn span(&self, cx: &Cx<D, S>) -> Span {
        let span = info_span!(
            span::HANDLE,
            { field::CONSUMER } = &*self.name,
            { field::EVENT_ID } = cx.envelope().id,
            { field::EVENT_TYPE } = cx.envelope().event_type,
            { field::ATTEMPTS } = cx.attempt(),
            { field::CORRELATION_ID } = cx.correlation_id(),
            { field::REQUEST_ID } = tracing::field::Empty,
        );
        if !span.is_disabled() {
            span.record(field::REQUEST_ID, cx.request_id());
            crate::trace::continue_in(&span, &cx.envelope().headers);
        }
        span
    }

    /// What is to become of the event, as whoever plugged in a classifier says, else as the handler said.
    pub(super) fn class(&self, failure: &Failure, envelope: &Envelope) -> Class {
        let plugged = self.classify.as_ref().and_then(|classify| classify(failure, envelope));
        plugged.unwrap_or_else(|| failure.class())
    }

    /// Decides what a failure means; the policy's budget limits.
    pub(super) fn judge(&self, failure: &Failure, envelope: &Envelope, attempt: u32) -> Then {
        match self.class(failure, envelope) {
            Class::Reject => Then::Dead(failure.reason()),
            Class::Later(after) => Then::Later(after),
            Class::Retry => match self.policy.next(attempt, failure.asked_pause()) {
                Some(pause) => Then::Again(pause),
                None => Then::Dead(failure.reason()),
            },
        }
    }
}
