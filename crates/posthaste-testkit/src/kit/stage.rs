//! A consumer on a broker of its own, driven step by step.

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::consumer::{Consumer, Ground, Stepped, Steps};
use posthaste_core::local::{DeadLetter, LocalBroker};
use posthaste_core::publish::Publish;

/// Longer than any pause that a retry policy should have in a test; with paused time it takes none.
const STEP_WITHIN: Duration = Duration::from_secs(30 * 86_400);

/// A consumer under test and the broker it reads from.
///
/// Dropping it panics if a dead letter was lost because more than 100 came: a test must not overlook that.
pub struct Stage<D: Ground, S: Send + Sync + 'static> {
    broker: LocalBroker,
    steps: Steps<D, S>,
}

impl<D: Ground, S: Send + Sync + 'static> Stage<D, S> {
    /// Puts the consumer on a fresh broker.
    ///
    /// # Errors
    /// What is wrong with the consumer.
    pub async fn of(consumer: Consumer<D, S>) -> Result<Self> {
        let broker = LocalBroker::new();
        let steps = consumer.steps(&broker).await?;
        Ok(Self { broker, steps })
    }

    /// Publishes to the broker; nothing is handled before a step.
    ///
    /// # Errors
    /// As [`LocalBroker::publish`]; also when the consumer does not read the event's topic.
    pub async fn publish(&self, what: impl Into<Publish>) -> Result<String> {
        self.broker.publish(what).await
    }

    /// Handles the next event, waiting for its time if need be, and says what became of it.
    ///
    /// # Errors
    /// `NotFound` when nothing comes within thirty days of virtual time.
    pub async fn step(&mut self) -> Result<Stepped> {
        let nothing = || posthaste_core::Error::not_found("step: there is no event to handle");
        let stepped = tokio::time::timeout(STEP_WITHIN, self.steps.step()).await.map_err(|_| nothing())?;
        stepped?.map(|(_, stepped)| stepped).ok_or_else(nothing)
    }

    /// Handles everything that comes, with all its retries, and answers what became of each delivery, in order.
    ///
    /// # Errors
    /// What the broker says.
    pub async fn run_until_idle(&mut self) -> Result<Vec<Stepped>> {
        let mut all = Vec::new();
        while let Ok(stepped) = tokio::time::timeout(STEP_WITHIN, self.steps.step()).await {
            match stepped? {
                Some((_, stepped)) => all.push(stepped),
                None => break,
            }
        }
        Ok(all)
    }

    /// Panics if an event can be handled now.
    pub async fn assert_idle(&mut self) {
        let next = tokio::time::timeout(Duration::from_millis(1), self.steps.step()).await;
        assert!(next.is_err(), "there was an event to handle: {next:?}");
    }

    /// What is dead, the oldest first.
    pub fn dead(&self) -> Vec<DeadLetter> {
        self.broker.dead()
    }

    /// The broker, for everything else.
    pub fn broker(&self) -> &LocalBroker {
        &self.broker
    }
}

impl<D: Ground, S: Send + Sync + 'static> Drop for Stage<D, S> {
    fn drop(&mut self) {
        let lost = self.broker.dead_dropped();
        if lost > 0 && !std::thread::panicking() {
            panic!("{lost} dead letters were lost because their buffer was full");
        }
    }
}
