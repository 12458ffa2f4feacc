//! A worker: takes a share of what may be handled, handles and settles it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::Letter;
use super::cx::Ground;
use super::desk::Desk;
use super::engine::{Done, Engine, Then};
use super::failure::Failure;
use super::steps::Stepped;
use crate::broker::{Count, Delivery, Receipt};
use crate::envelope::Envelope;
use crate::telemetry::field;
use crate::{BoxFuture, Result, crash};

/// A worker takes at most so many at a time where each has a transaction of its own.
const SHARE_MAX: usize = 32;

/// What the workers of a consumer share.
pub(super) struct Shop<D: Ground, S> {
    pub(super) engine: Engine<D, S>,
    pub(super) desk: Desk,
    pub(super) workers: usize,
    /// Events per transaction; 1: each its own.
    pub(super) batch: usize,
    /// For how long at most a retry of a keyed event is held here, because the broker would let others of its key pass; then
    /// it is dead, and its key goes on. `None`: the broker keeps it.
    pub(super) hold_max: Option<Duration>,
    /// Becomes true when the grace period is over.
    pub(super) abandoned: watch::Receiver<bool>,
}

impl<D: Ground, S: Send + Sync + 'static> Shop<D, S> {
    /// Works until the desk is closed and empty, or abandoned.
    pub(super) async fn work(self: Arc<Self>) {
        let mut share = VecDeque::new();
        let mut finished = Vec::new();
        loop {
            let mut more = pin!(self.desk.work_next());
            // Listens before it looks, so that nothing comes unheard in between.
            more.as_mut().enable();
            let most = if self.batch > 1 { self.batch } else { SHARE_MAX };
            // A batch is worth having full; otherwise everybody gets a part.
            let among = if self.batch > 1 { 1 } else { self.workers };
            let goes_on = self.desk.take(&mut share, most, among);
            if share.is_empty() {
                if !goes_on || self.is_abandoned() {
                    return;
                }
                let mut abandoned = self.abandoned.clone();
                tokio::select! {
                    () = more => {}
                    // An error means that the run was dropped, and this worker with it.
                    _ = abandoned.wait_for(|over| *over) => return,
                }
                continue;
            }
            if share.front().is_some_and(|first| first.trial.is_some()) {
                self.handle_on_trial(&mut share, &mut finished).await;
            } else if self.batch > 1 {
                self.handle_batch(&mut share, &mut finished).await;
            } else {
                self.handle_share(&mut share, &mut finished).await;
            }
            self.desk.settled(&mut finished);
            self.engine.meters.in_flight.set(self.desk.unsettled() as f64);
            // Handlers that never wait must not keep the thread for themselves.
            tokio::task::coop::consume_budget().await;
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        *self.abandoned.borrow()
    }

    async fn handle_share(&self, share: &mut VecDeque<Delivery>, finished: &mut Vec<Arc<Envelope>>) {
        while let Some(delivery) = share.pop_front() {
            let done = self.handle_one(&delivery.envelope, delivery.attempt, share, finished).await;
            self.settle(delivery, done, finished).await;
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Handles one that may be what ends its consumers: alone, and on record. After as many ends of the process as it has
    /// attempts it is dead.
    async fn handle_on_trial(&self, share: &mut VecDeque<Delivery>, finished: &mut Vec<Arc<Envelope>>) {
        let Some(mut delivery) = share.pop_front() else { return };
        let Some(mut trial) = delivery.trial.take() else { return share.push_front(delivery) };
        let begun = trial.begin().await;
        delivery.crashes = self.recorded(begun, &delivery.envelope);
        let tried = delivery.attempt_in_all() - 1;
        let done = if delivery.crashes > 0 && self.engine.policy.next(tried, None).is_none() {
            let failure = Failure::crashed(delivery.crashes);
            // It is not tried once more.
            delivery.crashes -= 1;
            Some(Done::Failed(failure))
        } else {
            self.handle_one(&delivery.envelope, delivery.attempt_in_all(), share, finished).await
        };
        let ended = trial.end().await;
        self.recorded(ended, &delivery.envelope);
        delivery.trial = Some(trial);
        self.settle(delivery, done, finished).await;
    }

    /// What was written down about a trial; nothing if it could not be.
    fn recorded<T: Default>(&self, written: Result<T>, envelope: &Envelope) -> T {
        written.unwrap_or_else(|error| {
            warn!({ field::CONSUMER } = &*self.engine.name, { field::EVENT_ID } = envelope.id, { field::ERROR } = %error, "it could not be written down that an event is on trial");
            T::default()
        })
    }

    /// Handles one event within its time; `None` when the consumer was told to let go of it. The rest of the share is given
    /// back as soon as the handler has to wait.
    pub(super) async fn handle_one(
        &self,
        envelope: &Arc<Envelope>,
        attempt: u32,
        share: &mut VecDeque<Delivery>,
        finished: &mut Vec<Arc<Envelope>>,
    ) -> Option<Done> {
        let began = Instant::now();
        let mut cx = self.engine.cx(envelope, attempt);
        let mut handling = pin!(self.engine.handle(&mut cx));
        let first = std::future::poll_fn(|task| Poll::Ready(handling.as_mut().poll(task))).await;
        let done = match first {
            Poll::Ready(done) => Some(done),
            Poll::Pending => {
                self.desk.settled(finished);
                self.desk.give_back(share);
                self.patiently(handling).await
            }
        };
        self.engine.meters.took(began.elapsed());
        done
    }

    /// Waits for a handler, at most its time and at most until everything is abandoned.
    pub(super) async fn patiently(&self, handling: impl Future<Output = Done>) -> Option<Done> {
        let limit = self.engine.timeout;
        let mut abandoned = self.abandoned.clone();
        tokio::select! {
            biased;
            done = timeout(limit, handling) => {
                Some(done.unwrap_or_else(|_| Done::Failed(Failure::timed_out(limit))))
            }
            _ = abandoned.wait_for(|over| *over) => None,
        }
    }

    /// Answers the broker, and notes the event as finished unless it is held here.
    pub(super) async fn settle(
        &self,
        delivery: Delivery,
        done: Option<Done>,
        finished: &mut Vec<Arc<Envelope>>,
    ) -> Stepped {
        let meters = &self.engine.meters;
        let (envelope, attempt) = (Arc::clone(&delivery.envelope), delivery.attempt_in_all());
        let failure = match done {
            Some(Done::Failed(failure)) => failure,
            Some(Done::Handled) => {
                self.acked(envelope, delivery.receipt, &meters.handled, finished).await;
                return Stepped::Handled;
            }
            Some(Done::Duplicate) => {
                self.acked(envelope, delivery.receipt, &meters.duplicate, finished).await;
                return Stepped::Duplicate;
            }
            Some(Done::Ignored) => {
                self.acked(envelope, delivery.receipt, &meters.ignored, finished).await;
                return Stepped::Ignored;
            }
            None => {
                meters.released.increment(1);
                self.answered(delivery.receipt.release(Duration::ZERO, Count::Nothing), &envelope).await;
                finished.push(envelope);
                return Stepped::Later(Duration::ZERO);
            }
        };
        match self.judge(&failure, &delivery) {
            Then::Dead(reason) => {
                meters.dead.increment(1);
                warn!({ field::CONSUMER } = &*self.engine.name, { field::EVENT_ID } = envelope.id, { field::ATTEMPTS } = attempt, { field::ERROR } = %reason.message, code = %reason.code, "an event is dead");
                let letter = Letter::new(&self.engine.name, &envelope, attempt, &reason);
                let stepped = Stepped::Dead(reason.clone());
                let held = delivery.held_since.map(|since| since.elapsed());
                let reason = reason.tried(attempt, held);
                if self.answered(delivery.receipt.bury(reason), &envelope).await {
                    tell(self.engine.on_dead.as_ref(), &letter);
                }
                finished.push(envelope);
                stepped
            }
            Then::Again(pause) => {
                meters.retry.increment(1);
                tell_of(self.engine.on_failed.as_ref(), || {
                    Letter::new(&self.engine.name, &envelope, attempt, &failure.reason())
                });
                self.again(delivery, pause, Count::Attempt, finished).await;
                Stepped::Retry(pause)
            }
            Then::Later(pause) => {
                meters.later.increment(1);
                self.again(delivery, pause, Count::Nothing, finished).await;
                Stepped::Later(pause)
            }
        }
    }

    async fn acked(
        &self,
        envelope: Arc<Envelope>,
        receipt: Box<dyn Receipt>,
        counter: &metrics::Counter,
        finished: &mut Vec<Arc<Envelope>>,
    ) {
        counter.increment(1);
        self.answered(receipt.ack(), &envelope).await;
        crash::point("consumer: acked");
        finished.push(envelope);
    }

    /// Tries again later: the broker keeps it meanwhile, or this process, where the broker would lose the key's order.
    async fn again(
        &self,
        mut delivery: Delivery,
        pause: Duration,
        count: Count,
        finished: &mut Vec<Arc<Envelope>>,
    ) {
        if let (Some(hold_max), Some(_), false) = (self.hold_max, &delivery.envelope.key, self.is_abandoned())
        {
            if count == Count::Attempt {
                delivery.attempt = delivery.attempt.saturating_add(1);
            }
            let now = Instant::now();
            // At the end of its time it is tried once more.
            let most = hold_max.saturating_sub(now - *delivery.held_since.get_or_insert(now));
            let given_back = self.desk.hold(delivery, now + pause.min(most));
            for (index, one) in given_back.into_iter().enumerate() {
                // Only the first was tried.
                let (after, count) =
                    if index == 0 { (pause, count) } else { (Duration::ZERO, Count::Nothing) };
                self.answered(one.receipt.release(after, count), &one.envelope).await;
            }
            return;
        }
        let Delivery { envelope, receipt, .. } = delivery;
        self.answered(receipt.release(pause, count), &envelope).await;
        finished.push(envelope);
    }

    /// What a failure means; an event that has held its key for too long is dead.
    fn judge(&self, failure: &Failure, delivery: &Delivery) -> Then {
        let then = self.engine.judge(failure, &delivery.envelope, delivery.attempt_in_all());
        match (then, self.hold_max, delivery.held_since) {
            (Then::Again(_) | Then::Later(_), Some(most), Some(since)) if since.elapsed() >= most => {
                Then::Dead(failure.reason_after_holding(most))
            }
            (then, _, _) => then,
        }
    }

    /// Waits for the broker to take an answer; one that it does not take means that the event comes again.
    async fn answered(&self, answer: BoxFuture<'static, Result<()>>, envelope: &Envelope) -> bool {
        match answer.await {
            Ok(()) => true,
            Err(error) => {
                self.engine.meters.receipt_errors.increment(1);
                warn!({ field::CONSUMER } = &*self.engine.name, { field::EVENT_ID } = envelope.id, { field::ERROR } = %error, "the broker did not take the answer; the event will come again");
                false
            }
        }
    }
}

fn tell(hook: Option<&super::Hook>, letter: &Letter) {
    if let Some(hook) = hook {
        hook(letter);
    }
}

fn tell_of(hook: Option<&super::Hook>, letter: impl FnOnce() -> Letter) {
    if let Some(hook) = hook {
        hook(&letter());
    }
}
