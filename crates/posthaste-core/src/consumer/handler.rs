//! Plain async functions as handlers, and what the consumer makes of them.
//!
//! `AsyncFn` in the bounds of [`Consumer::on`](super::Consumer::on) lets the compiler infer closures.
//! [`Handler`] beside it demands that their futures are `Send`, which `AsyncFn` cannot say yet. The price: a
//! closure captures nothing.

use std::marker::PhantomData;
use std::sync::Arc;

use super::cx::{Cx, Ground};
use super::failure::Failure;
use crate::codec::Codec;
use crate::envelope::Envelope;
use crate::event::Event;
use crate::{BoxFuture, Error};

/// Handles one kind of event: any `async fn(&mut Cx, E) -> Result<(), Failure>`, or an async closure of that shape.
///
/// What it answers is the verdict: `Ok` commits and acknowledges; an error undoes everything and the event is tried again;
/// [`Failure::reject`] makes it dead, [`Failure::later`] lets it wait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of `{E}` in a consumer whose context is `{C}`",
    label = "not a handler for this consumer",
    note = "a handler is `async fn(cx: &mut Cx, event: MyEvent) -> Result<(), Failure>`: it answers what became of the event, and its `Cx<Database, State>` is the consumer's",
    note = "its future must be `Send`, and a closure must capture nothing: put what it needs into the consumer's state and ask `cx.state()`"
)]
pub trait Handler<'a, C, E>: Send + Sync + 'static {
    /// Handles one event.
    fn call(&self, cx: &'a mut C, event: E) -> BoxFuture<'a, Result<(), Failure>>;
}

// Otherwise the compiler would speak of this impl's bounds and not of what a handler is.
#[diagnostic::do_not_recommend]
impl<'a, F, Answer, C: 'a, E> Handler<'a, C, E> for F
where
    F: Fn(&'a mut C, E) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), Failure>> + Send + 'a,
{
    fn call(&self, cx: &'a mut C, event: E) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(self(cx, event))
    }
}

/// A handler whose event's type is forgotten: it takes the event from the context.
pub(super) trait Route<D: Ground, S>: Send + Sync {
    fn call<'a>(&'a self, cx: &'a mut Cx<D, S>) -> BoxFuture<'a, Result<(), Failure>>;
}

/// A handler of events with a type.
pub(super) struct Typed<F, E>(F, PhantomData<fn(E)>);

impl<F, E> Typed<F, E> {
    pub(super) fn new(handler: F) -> Self {
        Self(handler, PhantomData)
    }
}

impl<D: Ground, S, E, F> Route<D, S> for Typed<F, E>
where
    S: Send + Sync + 'static,
    E: Event,
    F: for<'a> Handler<'a, Cx<D, S>, E>,
{
    fn call<'a>(&'a self, cx: &'a mut Cx<D, S>) -> BoxFuture<'a, Result<(), Failure>> {
        match decode::<E>(cx.envelope()) {
            Ok(event) => self.0.call(cx, event),
            Err(failure) => Box::pin(std::future::ready(Err(failure))),
        }
    }
}

/// A payload that does not decode, or of a version that is newer than the handler knows, will stay so: dead, with the reason.
fn decode<E: Event>(envelope: &Envelope) -> Result<E, Failure> {
    if envelope.version > E::VERSION {
        let newer = format!(
            "the payload has version {} of {:?} and this handler knows up to {}; redrive it once a newer consumer runs",
            envelope.version,
            E::TYPE,
            E::VERSION
        );
        return Err(Failure::reject(Error::rejected(newer)).code("version"));
    }
    E::Codec::decode(&envelope.payload).map_err(Failure::undecodable)
}

/// A handler of envelopes.
pub(super) struct Whole<F>(pub(super) F);

impl<D: Ground, S, F> Route<D, S> for Whole<F>
where
    S: Send + Sync + 'static,
    F: for<'a> Handler<'a, Cx<D, S>, Arc<Envelope>>,
{
    fn call<'a>(&'a self, cx: &'a mut Cx<D, S>) -> BoxFuture<'a, Result<(), Failure>> {
        let envelope = Arc::clone(cx.envelope_arc());
        self.0.call(cx, envelope)
    }
}
