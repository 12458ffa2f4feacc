//! A burst on its way: pairs answers with what was sent, and times out what is not answered.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::{Instant, Sleep, sleep};

use crate::BoxStream;
use crate::store::{Claimed, Parcel};
use crate::target::{Answer, DeliverError, DeliverKind, Target};

/// Answers handed over at once, so that one slow burst does not make the lane deaf for others.
const ANSWERS_AT_ONCE: usize = 1_024;

/// An event and what became of it.
pub(super) struct Answered {
    pub(super) claimed: Claimed,
    pub(super) result: Result<(), DeliverError>,
    /// Whether the target said so; if not, it said nothing in time.
    pub(super) is_said: bool,
}

impl Answered {
    /// What kind of failure it was; `None` if it was acknowledged.
    pub(super) fn kind(&self) -> Option<DeliverKind> {
        self.result.as_ref().err().map(|error| error.kind)
    }
}

/// What was answered at once, and how long after it was sent.
pub(super) struct Answers {
    pub(super) after: Duration,
    pub(super) events: Vec<Answered>,
}

/// Yields what was answered, a few at a time, and ends when everything is.
pub(super) struct Burst<'a> {
    answers: BoxStream<'a, Answer>,
    flights: Vec<Option<Claimed>>,
    unanswered: usize,
    sent_at: Instant,
    deadline: Pin<Box<Sleep>>,
    slow: bool,
}

impl<'a> Burst<'a> {
    pub(super) fn send(target: &'a dyn Target, events: Vec<Claimed>, timeout: Duration) -> Self {
        let parcels: Vec<Parcel> = events.iter().map(|claimed| claimed.parcel.clone()).collect();
        Self {
            answers: target.deliver(parcels),
            unanswered: events.len(),
            flights: events.into_iter().map(Some).collect(),
            sent_at: Instant::now(),
            deadline: Box::pin(sleep(timeout)),
            slow: false,
        }
    }

    /// The unanswered events, once they have been out for so long: asked once, told once.
    pub(super) fn newly_slow(&mut self, after: Duration) -> Option<impl Iterator<Item = &Claimed>> {
        if self.slow || self.sent_at.elapsed() < after {
            return None;
        }
        self.slow = true;
        Some(self.flights.iter().flatten())
    }

    fn take(&mut self, answer: Answer) -> Option<Answered> {
        // A second answer for one parcel, or one for a parcel that never was, is the adapter's mistake and changes nothing.
        let claimed = self.flights.get_mut(answer.index)?.take()?;
        self.unanswered -= 1;
        Some(Answered { claimed, result: answer.result, is_said: true })
    }

    /// Everything that is left failed so. The target hears of it at once: its stream is dropped, not merely polled no more.
    fn fail_rest(&mut self, code: &str, message: &str) -> Vec<Answered> {
        self.unanswered = 0;
        self.answers = Box::pin(futures_util::stream::empty());
        let error = DeliverError::new(DeliverKind::Failed, code, message);
        self.flights
            .iter_mut()
            .filter_map(Option::take)
            .map(|claimed| Answered { claimed, result: Err(error.clone()), is_said: false })
            .collect()
    }
}

impl Stream for Burst<'_> {
    type Item = Answers;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.unanswered == 0 {
            return Poll::Ready(None);
        }
        let (mut answered, mut more) = (Vec::new(), true);
        // Bounded also where the adapter repeats itself without end: the lane and its deadline must not wait for that.
        for _ in 0..ANSWERS_AT_ONCE {
            if this.unanswered == 0 {
                break;
            }
            match this.answers.as_mut().poll_next(cx) {
                Poll::Ready(Some(answer)) => answered.extend(this.take(answer)),
                Poll::Ready(None) => {
                    answered.extend(
                        this.fail_rest("no answer", "the target ended without an answer for this event"),
                    );
                }
                Poll::Pending => {
                    more = false;
                    break;
                }
            }
        }
        if answered.is_empty() && this.deadline.as_mut().poll(cx).is_ready() {
            let waited = format!("no answer within {:?}", this.sent_at.elapsed());
            answered = this.fail_rest("timeout", &waited);
        }
        if answered.is_empty() {
            if more {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        Poll::Ready(Some(Answers { after: this.sent_at.elapsed(), events: answered }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;
    use crate::store::Ticket;
    use crate::target::Capabilities;
    use crate::time::Timestamp;
    use crate::{BoxFuture, Result};
    use futures_util::{StreamExt, stream};
    use std::sync::Arc;

    /// Answers the first parcel again and again, and no other.
    struct Stuttering(Capabilities);

    impl Target for Stuttering {
        fn capabilities(&self) -> &Capabilities {
            &self.0
        }

        fn deliver(&self, _: Vec<Parcel>) -> BoxStream<'_, Answer> {
            Box::pin(stream::repeat_with(|| Answer::delivered(0)))
        }

        fn ping(&self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn an_adapter_that_repeats_itself_without_end_does_not_stop_the_clock() {
        let target = Stuttering(Capabilities::sink());
        let parcel = Parcel::new(Arc::new(Envelope::new("t", "x")), 1, false, Timestamp::default());
        let events = (1..=2).map(|seq| Claimed::new(Ticket(seq), parcel.clone())).collect();
        let mut burst = Burst::send(&target, events, Duration::from_millis(5));
        let first = burst.next().await.unwrap().events;
        assert!(first.len() == 1 && first[0].result.is_ok());
        let second = burst.next().await.unwrap().events;
        assert_eq!(second[0].result.as_ref().unwrap_err().code, "timeout");
        assert!(first[0].is_said && !second[0].is_said, "a late answer is nothing that the target said");
        assert!(burst.next().await.is_none());
    }
}
