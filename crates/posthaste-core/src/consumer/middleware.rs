//! What can be put around every handler of a consumer.

use std::sync::Arc;

use super::failure::Failure;
use crate::BoxFuture;
use crate::envelope::Envelope;

/// Something around handlers: it sees the event before and the verdict after, and decides whether to go on.
///
/// ```
/// use posthaste_core::{BoxFuture, consumer::{Call, Failure, Middleware, Next}};
///
/// /// Lets only events of known producers through.
/// struct From(&'static [&'static str]);
///
/// impl Middleware for From {
///     fn around<'a>(&'a self, call: Call, next: Next<'a>) -> BoxFuture<'a, Result<(), Failure>> {
///         Box::pin(async move {
///             if !self.0.contains(&call.envelope.source.as_str()) {
///                 return Err(Failure::reject("an unknown source").code("source"));
///             }
///             next.run(call).await
///         })
///     }
/// }
/// ```
///
/// It runs inside the event's transaction, after the inbox row, so that whatever it refuses is undone. In batch mode it
/// runs around each event of the batch.
pub trait Middleware: Send + Sync {
    /// Handles the event by running `next`, or not.
    fn around<'a>(&'a self, call: Call, next: Next<'a>) -> BoxFuture<'a, Result<(), Failure>>;
}

/// The event that is about to be handled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The event.
    pub envelope: Arc<Envelope>,
    /// Which delivery to this consumer this is, counted from 1.
    pub attempt: u32,
    /// The consumer's name.
    pub consumer: Arc<str>,
}

impl Call {
    /// This delivery of this event to this consumer.
    pub fn new(envelope: Arc<Envelope>, attempt: u32, consumer: Arc<str>) -> Self {
        Self { envelope, attempt, consumer }
    }
}

type End<'a> = Box<dyn FnOnce() -> BoxFuture<'a, Result<(), Failure>> + Send + 'a>;

/// The rest of the way to the handler.
pub struct Next<'a> {
    rest: &'a [Arc<dyn Middleware>],
    end: End<'a>,
}

impl<'a> Next<'a> {
    /// This middleware, then the handler; for those who test a middleware.
    pub fn new(
        rest: &'a [Arc<dyn Middleware>],
        end: impl FnOnce() -> BoxFuture<'a, Result<(), Failure>> + Send + 'a,
    ) -> Self {
        Self { rest, end: Box::new(end) }
    }

    /// Goes on: to the next middleware, or to the handler.
    pub fn run(self, call: Call) -> BoxFuture<'a, Result<(), Failure>> {
        match self.rest.split_first() {
            Some((first, rest)) => first.around(call, Self { rest, end: self.end }),
            None => (self.end)(),
        }
    }
}
