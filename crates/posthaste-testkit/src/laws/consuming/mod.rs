//! What a consumer with an inbox promises, on every database and from every broker.

pub mod crashing;
pub mod effects;
pub mod failing;
pub mod surviving;
mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_core::admin::{Filter, Page};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::envelope::Envelope;
use posthaste_core::publish::Publish;
use posthaste_core::retry::Backoff;
use tokio::sync::oneshot;

use self::watched::Watched;
use crate::broker::BrokerBench;
use crate::database::AnyDatabase;
use crate::driver::DriverRig;
use crate::ensure_eq;
use crate::law::{LawResult, Verdict};
use crate::laws::line::ChildCommand;
use crate::wait::eventually;

/// No fact of a consumer law takes nearly so long.
const SOON: Duration = Duration::from_secs(30);

/// A consumer's context in these laws; the state tells whether an event is to fail.
pub(crate) type LawCx = Cx<AnyDatabase, Script>;

/// Says what the handler does with an event at this attempt.
pub(crate) type Script = Arc<dyn Fn(&Envelope, u32) -> Result<(), Failure> + Send + Sync>;

/// The consumer of these laws.
type LawConsumer = Consumer<AnyDatabase, Script>;

/// A database, and a broker beside it.
pub struct ConsumeBench {
    /// The database.
    pub rig: Arc<dyn DriverRig>,
    /// The broker.
    pub broker: BrokerBench,
    /// The same broker, with somebody who writes down what was settled.
    watched: Watched,
    /// How a child process opens the same data, or why it cannot.
    pub child: Result<ConsumeChild, String>,
}

/// How a child process opens the same data.
#[derive(Clone, Debug)]
pub struct ConsumeChild {
    /// The program and the database.
    pub command: ChildCommand,
    /// The broker's name.
    pub broker: String,
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
    /// Consumes from this broker, with the inbox in this database.
    pub fn new(rig: Arc<dyn DriverRig>, broker: BrokerBench, child: Result<ConsumeChild, String>) -> Self {
        let watched = Watched::over(&broker);
        Self { rig, broker, watched, child }
    }

    /// The law's consumer: every event has an effect, then goes by the script.
    pub(crate) fn consumer(
        &self,
        script: impl Fn(&Envelope, u32) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> LawConsumer {
        let policy = Backoff::fixed(Duration::from_millis(20)).attempts(20);
        let script: Script = Arc::new(script);
        let name = self.broker.group("law");
        Consumer::new(name, AnyDatabase::of(Arc::clone(&self.rig)), script)
            .on_any(effect)
            .outbox(self.rig.outbox())
            .topics([self.broker.topic("t").as_str()])
            .retry(policy)
            .grace(Duration::from_secs(5))
    }

    /// A consumer that takes everything.
    pub(crate) fn willing(&self) -> LawConsumer {
        self.consumer(|_, _| Ok(()))
    }

    /// A consumer that ends nothing, and counts what it begins.
    pub(crate) fn stuck(&self, begun: &Arc<AtomicU32>) -> LawConsumer {
        async fn never(cx: &mut LawCx, event: Arc<Envelope>) -> Result<(), Failure> {
            cx.state()(&event, cx.attempt())?;
            std::future::pending().await
        }
        let begun = Arc::clone(begun);
        let script: Script = Arc::new(move |_, _| {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        Consumer::new(self.broker.group("law"), AnyDatabase::of(Arc::clone(&self.rig)), script)
            .on_any(never)
            .topics([self.broker.topic("t").as_str()])
            // Others would wait for the first one's transaction on databases with one writer.
            .workers(1)
    }

    /// Makes the consumers' group known, and publishes for it: ids from 0, with one of a few keys each.
    pub(crate) async fn publish(&self, count: u32) -> Result<Vec<String>, Verdict> {
        self.willing().declare(self.broker.broker.as_ref()).await?;
        let ids = ids(count);
        let event =
            |(number, id): (usize, &String)| self.broker.event(id, Some(&format!("key-{}", number % 5)));
        self.broker.all_taken(ids.iter().enumerate().map(event).collect()).await?;
        Ok(ids)
    }

    /// Consumes until every one of these is settled.
    pub(crate) async fn consume_all(&self, consumer: LawConsumer, ids: &[String]) -> LawResult {
        consume_all(consumer, &self.watched, ids).await
    }

    /// Consumes until so many effects were had, or more.
    pub(crate) async fn consume_until_effects(&self, consumer: LawConsumer, count: usize) -> LawResult {
        let there = async || self.effects().await.is_ok_and(|effects| effects.len() >= count);
        consume_until(consumer, &self.watched, "all had their effect", there).await
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
    pub(crate) async fn each_once(&self, ids: &[String]) -> LawResult {
        let mut effects = self.effects().await?;
        effects.sort();
        ensure_eq!(effects, ids, "effects");
        Ok(())
    }
}

/// The ids of so many events.
fn ids(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("{number:03}")).collect()
}

/// Consumes until every one of these is settled at the broker.
async fn consume_all(consumer: LawConsumer, broker: &Watched, ids: &[String]) -> LawResult {
    consume_until(consumer, broker, "all is settled", async || broker.has_settled(ids)).await
}

/// Consumes until this holds, and then stops in order.
async fn consume_until(
    consumer: LawConsumer,
    broker: &Watched,
    what: &str,
    holds: impl AsyncFnMut() -> bool,
) -> LawResult {
    let (stop, stopped) = oneshot::channel::<()>();
    let waiting = async {
        let held = eventually(SOON, what, holds).await;
        drop(stop);
        held
    };
    let (ran, held) = tokio::join!(consumer.run(broker.clone(), async { drop(stopped.await) }), waiting);
    ran?;
    held
}
