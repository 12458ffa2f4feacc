//! Failures that a test puts in front of a handler.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::BoxFuture;
use posthaste_core::consumer::{Call, Failure, Middleware, Next};

/// What happens instead of the handler, once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// An error, as from a database that is away.
    Error,
    /// The handler would reject the event.
    Reject,
    /// The handler would want it later.
    Later(Duration),
    /// A panic.
    Panic,
    /// The handler never ends: the consumer's timeout strikes.
    Hang,
    /// The handler runs, and fails after its work: what it did in its transaction is undone.
    AfterWork,
}

/// Middleware that lets events fail as a test says; put it around a consumer with `.around(…)`. Clones share their script.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<HashMap<String, VecDeque<Fault>>>>);

impl Faults {
    /// Nothing fails.
    pub fn new() -> Self {
        Self::default()
    }

    /// These happen to the next deliveries of the event with this id, one after another.
    #[must_use]
    pub fn on(self, id: &str, faults: impl IntoIterator<Item = Fault>) -> Self {
        let mut script = self.0.lock().expect("nobody panics while holding it");
        script.entry(id.to_owned()).or_default().extend(faults);
        drop(script);
        self
    }

    fn next(&self, id: &str) -> Option<Fault> {
        self.0.lock().expect("nobody panics while holding it").get_mut(id)?.pop_front()
    }
}

impl Middleware for Faults {
    fn around<'a>(&'a self, call: Call, next: Next<'a>) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            match self.next(&call.envelope.id) {
                None => next.run(call).await,
                Some(Fault::Error) => Err(Failure::retry("the test says so").code("fault")),
                Some(Fault::Reject) => Err(Failure::reject("the test says so").code("fault")),
                Some(Fault::Later(after)) => Err(Failure::later(after)),
                Some(Fault::Panic) => panic!("the test says so"),
                Some(Fault::Hang) => std::future::pending().await,
                Some(Fault::AfterWork) => {
                    next.run(call).await?;
                    Err(Failure::retry("the test says so, after the work").code("fault"))
                }
            }
        })
    }
}
