//! A lane straight into handlers: a consumer as the target of a relay, without any broker.

use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::batch::Tried;
use super::cx::Ground;
use super::engine::{Done, Engine};
use super::failure::{Class, Failure};
use crate::envelope::Envelope;
use crate::store::Parcel;
use crate::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use crate::{BoxFuture, BoxStream, Result};

/// Handles what a lane delivers. The relay keeps the order of a key, retries by the lane's policy and records what is dead.
pub(super) struct ConsumerTarget<D: Ground, S> {
    engine: Engine<D, S>,
    workers: Semaphore,
    capabilities: Capabilities,
}

impl<D: Ground, S: Send + Sync + 'static> ConsumerTarget<D, S> {
    pub(super) fn new(engine: Engine<D, S>, workers: usize, batch: usize, unsettled: usize) -> Self {
        let events = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let capabilities = Capabilities::sink().burst_max(events(batch)).in_flight_max(events(unsettled));
        Self { engine, workers: Semaphore::new(workers), capabilities }
    }

    async fn handle(&self, burst: Vec<Parcel>) -> Vec<Answer> {
        let _worker = self.workers.acquire().await.expect("it is never closed");
        let events: Vec<Tried> = burst.into_iter().map(|parcel| (parcel.envelope, parcel.attempt)).collect();
        let dones = self.handle_parts(&events).await;
        let answers = events.iter().zip(dones).enumerate();
        answers.map(|(index, ((envelope, _), done))| self.answer(index, envelope, done)).collect()
    }

    /// Together if there are several, otherwise in ever smaller parts, in their order.
    async fn handle_parts(&self, events: &[Tried]) -> Vec<Done> {
        let mut dones = Vec::with_capacity(events.len());
        let mut parts = vec![events];
        while let Some(part) = parts.pop() {
            if let [one] = part {
                dones.push(self.handle_one(one).await);
            } else if let Ok(Some(all)) = self.engine.in_one_transaction(part).await {
                dones.extend(all);
            } else {
                let (first, second) = part.split_at(part.len() / 2);
                parts.extend([second, first]);
            }
        }
        dones
    }

    async fn handle_one(&self, (envelope, attempt): &Tried) -> Done {
        let began = Instant::now();
        let limit = self.engine.timeout;
        let mut cx = self.engine.cx(envelope, *attempt);
        let done = timeout(limit, self.engine.handle(&mut cx)).await;
        self.engine.meters.took(began.elapsed());
        done.unwrap_or_else(|_| Done::Failed(Failure::timed_out(limit)))
    }

    fn answer(&self, index: usize, envelope: &Envelope, done: Done) -> Answer {
        let meters = &self.engine.meters;
        let failure = match done {
            Done::Failed(failure) => failure,
            Done::Handled => return counted(index, &meters.handled),
            Done::Duplicate => return counted(index, &meters.duplicate),
            Done::Ignored => return counted(index, &meters.ignored),
        };
        let reason = failure.reason();
        let error = |kind| DeliverError::new(kind, reason.code.clone(), reason.message.clone());
        // The lane's own policy decides about the budget.
        let error = match self.engine.class(&failure, envelope) {
            Class::Reject => {
                meters.dead.increment(1);
                error(DeliverKind::Rejected)
            }
            Class::Later(pause) => {
                meters.later.increment(1);
                error(DeliverKind::Later).after(pause)
            }
            Class::Retry => {
                meters.retry.increment(1);
                DeliverError { retry_after: failure.asked_pause(), ..error(DeliverKind::Failed) }
            }
        };
        Answer::failed(index, error)
    }
}

fn counted(index: usize, counter: &metrics::Counter) -> Answer {
    counter.increment(1);
    Answer::delivered(index)
}

impl<D: Ground, S: Send + Sync + 'static> Target for ConsumerTarget<D, S> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        Box::pin(stream::once(self.handle(burst)).flat_map(stream::iter))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
