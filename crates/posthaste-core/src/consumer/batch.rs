//! Batch mode: one transaction for many events of different keys.
//!
//! If one of them fails, everything is undone and the two halves are tried apart, down to the one that fails alone.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use super::cx::Ground;
use super::engine::{Done, Engine};
use super::failure::Failure;
use super::worker::Shop;
use crate::broker::Delivery;
use crate::crash;
use crate::envelope::Envelope;

/// An event with the number of its delivery; receipts are no business of the transaction.
pub(super) type Tried = (Arc<Envelope>, u32);

/// What became of a part of a batch.
enum Together {
    /// All is committed, and this became of each.
    All(Vec<Done>),
    /// Nothing happened: the halves are to be tried apart.
    Apart,
    /// Nothing happened, and nothing will: the consumer was told to let go.
    Abandoned,
}

impl<D: Ground, S: Send + Sync + 'static> Shop<D, S> {
    /// Handles all of these together, or in ever smaller parts.
    pub(super) async fn handle_batch(
        &self,
        share: &mut VecDeque<Delivery>,
        finished: &mut Vec<Arc<Envelope>>,
    ) {
        let mut parts = vec![share.drain(..).collect::<Vec<_>>()];
        while let Some(mut part) = parts.pop() {
            let events: Vec<Tried> =
                part.iter().map(|one| (Arc::clone(&one.envelope), one.attempt)).collect();
            let answer = match &events[..] {
                [one] => self.alone(one, finished).await,
                all => self.together(all).await,
            };
            match answer {
                Together::All(dones) => {
                    self.settle_all(part, dones.into_iter().map(Some), finished).await;
                }
                Together::Abandoned => {
                    let nothing = std::iter::repeat_with(|| None);
                    self.settle_all(part, nothing, finished).await;
                }
                Together::Apart => {
                    let second = part.split_off(part.len() / 2);
                    // The first half comes off the stack first.
                    parts.push(second);
                    parts.push(part);
                }
            }
            self.desk.settled(finished);
        }
    }

    async fn settle_all(
        &self,
        part: Vec<Delivery>,
        dones: impl Iterator<Item = Option<Done>>,
        finished: &mut Vec<Arc<Envelope>>,
    ) {
        for (delivery, done) in part.into_iter().zip(dones) {
            self.settle(delivery, done, finished).await;
        }
    }

    async fn alone(&self, (envelope, attempt): &Tried, finished: &mut Vec<Arc<Envelope>>) -> Together {
        let mut nothing = VecDeque::new();
        match self.handle_one(envelope, *attempt, &mut nothing, finished).await {
            Some(done) => Together::All(vec![done]),
            None => Together::Abandoned,
        }
    }

    async fn together(&self, part: &[Tried]) -> Together {
        let began = Instant::now();
        let mut abandoned = self.abandoned.clone();
        let answer = tokio::select! {
            biased;
            dones = self.engine.in_one_transaction(part) => match dones {
                Ok(Some(dones)) => Together::All(dones),
                Ok(None) | Err(_) => Together::Apart,
            },
            _ = abandoned.wait_for(|over| *over) => Together::Abandoned,
        };
        let each = began.elapsed() / u32::try_from(part.len()).unwrap_or(u32::MAX);
        part.iter().for_each(|_| self.engine.meters.took(each));
        answer
    }
}

impl<D: Ground, S: Send + Sync + 'static> Engine<D, S> {
    /// What became of each, if all was committed; `None` if one of them failed, and then nothing happened.
    pub(super) async fn in_one_transaction(&self, part: &[Tried]) -> Result<Option<Vec<Done>>, Failure> {
        let routed: Vec<&Envelope> =
            part.iter().map(|(event, _)| &**event).filter(|event| self.route(event).is_some()).collect();
        let mut tx = self.begin().await?;
        let entered = self.enter(&mut tx, &routed).await?;
        let mixed = entered > 0 && entered < routed.len() as u64;
        let mut new = HashSet::new();
        if mixed {
            // Some had their effect before, and a statement for all does not say which: once more, one by one.
            drop(tx);
            tx = self.begin().await?;
            new = self.enter_each(&mut tx, &routed).await?;
        }
        let mut dones = Vec::with_capacity(part.len());
        for (event, attempt) in part {
            let Some(route) = self.route(event) else {
                dones.push(self.nobody(event));
                continue;
            };
            // Taken out: what is twice in the batch has its effect once.
            let is_new = if mixed { new.remove(&identity(event)) } else { entered > 0 };
            if !is_new {
                dones.push(Done::Duplicate);
                continue;
            }
            let mut cx = self.cx(event, *attempt);
            cx.tx = Some(tx);
            let span = self.span(&cx);
            let called = timeout(self.timeout, self.call(route, &mut cx).instrument(span)).await;
            let Ok(Done::Handled) = called else { return Ok(None) };
            tx = cx.tx.take().expect("the transaction was put there above");
            dones.push(Done::Handled);
        }
        crash::point("consumer: before commit");
        self.commit(tx).await?;
        crash::point("consumer: committed");
        Ok(Some(dones))
    }

    /// Writes the inbox rows one by one, all of them before the first effect and in one order everywhere, so that two batches
    /// with common events wait for one another and never in a circle. Answers which were new.
    async fn enter_each<'e>(
        &self,
        tx: &mut D::Tx,
        events: &[&'e Envelope],
    ) -> Result<HashSet<(&'e str, &'e str)>, Failure> {
        let mut events = events.to_vec();
        events.sort_by_key(|event| identity(event));
        let mut new = HashSet::new();
        for event in events {
            if self.enter(tx, &[event]).await? > 0 {
                new.insert(identity(event));
            }
        }
        Ok(new)
    }
}

/// What tells an event from others, in the order of the inbox.
fn identity(event: &Envelope) -> (&str, &str) {
    (&event.id, &event.source)
}
