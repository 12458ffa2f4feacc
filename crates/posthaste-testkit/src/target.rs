//! A target that does what a test tells it to, and remembers what it was sent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use tokio::sync::watch;
use tokio::time::Instant;

/// What the target says about one delivery.
#[derive(Clone)]
pub enum Say {
    /// It is acknowledged.
    Yes,
    /// It failed and may pass later.
    Failed,
    /// It will never pass.
    Rejected,
    /// Nobody's events would pass.
    Unavailable,
    /// The address is gone.
    Gone,
    /// It is acknowledged after this time.
    YesAfter(Duration),
    /// It is acknowledged when the gate opens.
    YesBehind(Gate),
    /// Nothing, for ever.
    Nothing,
    /// The adapter panics.
    Panic,
    /// The thread stands still until the freeze ends, like a process that was stopped; then it is acknowledged.
    YesFrozen(Freeze),
}

/// One delivery that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The event's id.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
    /// Which attempt it was.
    pub attempt: u32,
    /// Whether it was redriven or replayed.
    pub replay: bool,
    /// When it was sent.
    pub at: Instant,
}

/// A scriptable [`Target`]; clones share script and memory.
#[derive(Clone)]
pub struct Scripted {
    capabilities: Capabilities,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    away: bool,
    scripts: HashMap<String, VecDeque<Say>>,
    tried: Vec<Tried>,
    acknowledged: Vec<String>,
}

impl Scripted {
    /// Acknowledges everything.
    pub fn new() -> Self {
        Self::with(Capabilities::sink())
    }

    /// Acknowledges everything, with these capabilities.
    pub fn with(capabilities: Capabilities) -> Self {
        Self { capabilities, inner: Arc::default() }
    }

    /// Says these about the next deliveries of this event, one after another, and yes after that.
    #[must_use]
    pub fn script(self, id: &str, says: impl IntoIterator<Item = Say>) -> Self {
        self.lock().scripts.insert(id.to_owned(), says.into_iter().collect());
        self
    }

    /// Is away, or back: everything is unavailable, also its ping.
    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// What was sent, in order.
    pub fn tried(&self) -> Vec<Tried> {
        self.lock().tried.clone()
    }

    /// The ids of what was acknowledged, in order.
    pub fn acknowledged(&self) -> Vec<String> {
        self.lock().acknowledged.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding it")
    }

    fn next_say(&self, parcel: &Parcel) -> Say {
        let (id, key) = (&parcel.envelope.id, &parcel.envelope.key);
        let mut inner = self.lock();
        inner.tried.push(Tried {
            id: id.clone(),
            key: key.clone(),
            attempt: parcel.attempt,
            replay: parcel.replay,
            at: Instant::now(),
        });
        if inner.away {
            return Say::Unavailable;
        }
        inner.scripts.get_mut(id).and_then(VecDeque::pop_front).unwrap_or(Say::Yes)
    }

    async fn answer(&self, index: usize, parcel: Parcel, say: Say) -> Answer {
        let failed = |kind| Answer::failed(index, DeliverError::new(kind, "scripted", "the script says so"));
        match say {
            Say::Yes => {}
            Say::YesAfter(span) => tokio::time::sleep(span).await,
            Say::YesBehind(gate) => gate.passed().await,
            Say::YesFrozen(freeze) => freeze.wait_it_out(),
            Say::Failed => return failed(DeliverKind::Failed),
            Say::Rejected => return failed(DeliverKind::Rejected),
            Say::Unavailable => return failed(DeliverKind::Unavailable),
            Say::Gone => return failed(DeliverKind::Gone),
            Say::Nothing => std::future::pending().await,
            Say::Panic => panic!("the script says so"),
        }
        self.lock().acknowledged.push(parcel.envelope.id.clone());
        Answer::delivered(index)
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Target for Scripted {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let answers: FuturesUnordered<_> = burst
            .into_iter()
            .enumerate()
            .map(|(index, parcel)| {
                let say = self.next_say(&parcel);
                self.answer(index, parcel, say)
            })
            .collect();
        answers.boxed()
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        let away = self.lock().away;
        Box::pin(async move { if away { Err(Error::unavailable("the script says so")) } else { Ok(()) } })
    }
}

/// A gate that is closed until it is opened; clones are one gate.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens it for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn passed(&self) {
        // The sender is in our own hand, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// Stops the thread of whoever waits it out, until it is ended; clones are one freeze.
#[derive(Clone, Default)]
pub struct Freeze(Arc<(Mutex<bool>, Condvar)>);

impl Freeze {
    /// A freeze that lasts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends it.
    pub fn end(&self) {
        *self.0.0.lock().expect("nobody panics while holding it") = true;
        self.0.1.notify_all();
    }

    fn wait_it_out(&self) {
        let over = self.0.0.lock().expect("nobody panics while holding it");
        drop(self.0.1.wait_while(over, |over| !*over).expect("nobody panics while holding it"));
    }
}
