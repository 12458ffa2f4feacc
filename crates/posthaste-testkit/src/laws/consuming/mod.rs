//! What a consumer with an inbox promises, on every database.

pub mod crashing;
pub mod effects;
pub mod failing;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::admin::{Filter, Page};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::envelope::Envelope;
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use posthaste_core::retry::Backoff;

use crate::database::AnyDatabase;
use crate::driver::DriverRig;
use crate::ensure_eq;
use crate::law::Verdict;
use crate::laws::line::ChildCommand;

/// A consumer's context in these laws; the state tells whether an event is to fail.
pub(crate) type LawCx = Cx<AnyDatabase, Script>;

/// Says what the handler does with an event at this attempt.
pub(crate) type Script = Arc<dyn Fn(&Envelope, u32) -> Result<(), Failure> + Send + Sync>;

/// A database, and a broker beside it.
pub struct ConsumeBench {
    /// The database.
    pub rig: Arc<dyn DriverRig>,
    pub(crate) broker: LocalBroker,
    /// How a child process opens the same data, or why it cannot.
    pub child: Result<ChildCommand, String>,
}

/// The effect of an event is an event of type `effect` with a fresh id: had twice, it is there twice.
async fn effect(cx: &mut LawCx, event: Arc<Envelope>) -> Result<(), Failure> {
    cx.publish(Publish::raw("effect", event.id.clone())).await?;
    // Somewhere in the middle of its work, so that a cancellation can strike there.
    tokio::task::yield_now().await;
    let script = Arc::clone(cx.state());
    script(&event, cx.attempt())
}

impl ConsumeBench {
    /// Consumes from a local broker of its own.
    pub fn new(rig: Arc<dyn DriverRig>) -> Self {
        Self { rig, broker: LocalBroker::new(), child: Err("nobody said how".to_owned()) }
    }

    /// The law's consumer: every event has an effect, then goes by the script.
    pub(crate) fn consumer(
        &self,
        script: impl Fn(&Envelope, u32) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Consumer<AnyDatabase, Script> {
        let policy = Backoff::fixed(Duration::from_millis(20)).attempts(20);
        let script: Script = Arc::new(script);
        Consumer::new("law", AnyDatabase::of(Arc::clone(&self.rig)), script)
            .on_any(effect)
            .outbox(self.rig.outbox())
            .topics(["work"])
            .retry(policy)
            .grace(Duration::from_secs(5))
    }

    /// Publishes to this broker: ids from 0, with one of a few keys each.
    pub(crate) async fn publish(&self, broker: &LocalBroker, count: u32) -> Result<Vec<String>, Verdict> {
        let mut ids = Vec::new();
        for number in 0..count {
            let id = format!("{number:03}");
            let event = Publish::raw("work", id.clone()).id(id.clone()).key(format!("key-{}", number % 5));
            broker.publish(event).await?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// The events that had an effect, in the order of their effects.
    pub(crate) async fn effects(&self) -> Result<Vec<String>, Verdict> {
        let (store, mut page, mut effects) = (self.rig.store(), Page::first(1_000), Vec::new());
        page.with_payload = true;
        loop {
            let found = store.find(&Filter::default(), page.clone()).await?;
            let of_type = found.records.into_iter().filter(|record| record.envelope.event_type == "effect");
            effects
                .extend(of_type.map(|record| String::from_utf8_lossy(&record.envelope.payload).into_owned()));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        effects.reverse();
        Ok(effects)
    }

    /// Every one of these had its effect, once, and nothing else had.
    pub(crate) async fn each_once(&self, ids: &[String]) -> Result<(), Verdict> {
        let mut effects = self.effects().await?;
        effects.sort();
        ensure_eq!(effects, ids, "effects");
        Ok(())
    }
}

/// Consumes until the broker is drained.
pub(crate) async fn consume_all(
    consumer: Consumer<AnyDatabase, Script>,
    broker: &LocalBroker,
) -> Result<(), Verdict> {
    let (ran, closed) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran?;
    ensure_eq!(closed.left, 0, "left");
    Ok(())
}
