//! Takes events in: from a producer, or from a lane.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use metrics::counter;

use super::group::{Entry, Group};
use super::{Full, LocalBroker, Trouble, Unrouted};
use crate::envelope::Envelope;
use crate::publish::Publish;
use crate::store::Parcel;
use crate::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use crate::telemetry::metric;
use crate::{BoxFuture, BoxStream, Error, ErrorKind, Result};

/// What became of an event that was put down.
enum Put {
    Down,
    Full(String),
    Closed,
    Unrouted,
}

impl LocalBroker {
    /// Hands an event to every group that reads its topic, and answers its id.
    ///
    /// Where a group's buffer is full it waits, or fails, as the broker was made. Dropping the future takes back nothing
    /// and hands out nothing half-way.
    ///
    /// # Errors
    /// `Unavailable` after a close, and for a full buffer; `NotFound` when no group reads the topic; `Rejected` and
    /// `TooLarge` as [`Envelope::check`] says.
    pub async fn publish(&self, what: impl Into<Publish>) -> Result<String> {
        let envelope = self.seal(what.into())?;
        let id = envelope.id.clone();
        self.hand_in(&envelope, false).await?;
        Ok(id)
    }

    /// Publishes, unless `cancelled` comes first: also if it is there already.
    ///
    /// # Errors
    /// `Unavailable` when it was cancelled; otherwise as [`publish`](LocalBroker::publish).
    pub async fn publish_unless(
        &self,
        what: impl Into<Publish>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<String> {
        tokio::select! {
            biased;
            () = cancelled => Err(Error::unavailable("publish: it was cancelled")),
            published = self.publish(what) => published,
        }
    }

    fn seal(&self, what: Publish) -> Result<Arc<Envelope>> {
        let mut envelope = what.into_envelope()?;
        if envelope.source.is_empty() {
            envelope.source.clone_from(&self.inner.options.source);
        }
        if envelope.occurred_at.is_none() {
            envelope.occurred_at = Some(self.inner.options.clock.now());
        }
        let doing = |error: Error| error.during(format!("publish {:?}", envelope.event_type));
        envelope.check(self.inner.options.payload_bytes_max).map_err(doing)?;
        Ok(Arc::new(envelope))
    }

    async fn hand_in(&self, envelope: &Arc<Envelope>, replay: bool) -> Result<()> {
        loop {
            let mut room = std::pin::pin!(self.inner.room.notified());
            room.as_mut().enable();
            match self.put(envelope, replay) {
                Put::Down => return Ok(()),
                Put::Closed => return Err(Error::unavailable("publish: the local broker was closed")),
                Put::Full(_) if self.inner.options.full == Full::Wait => room.await,
                Put::Full(group) => {
                    return Err(Error::unavailable(format!(
                        "publish: the buffer of group {group:?} is full"
                    )));
                }
                Put::Unrouted if self.inner.options.unrouted == Unrouted::Drop => {
                    counter!(metric::LOCAL_UNROUTED_TOTAL).increment(1);
                    self.inner.report(&Trouble::Unrouted(Arc::clone(envelope)));
                    return Ok(());
                }
                Put::Unrouted => {
                    return Err(Error::not_found(format!(
                        "publish: no group reads topic {:?}; declare the consumer first, or let the broker drop such events",
                        envelope.topic
                    )));
                }
            }
        }
    }

    /// Puts an event down in every group that reads it, or in none.
    fn put(&self, envelope: &Arc<Envelope>, replay: bool) -> Put {
        let groups = self.inner.groups.read().expect("nobody panics while holding it");
        if self.inner.closed.load(Ordering::SeqCst) {
            return Put::Closed;
        }
        let wanting: Vec<&Arc<Group>> = groups.iter().filter(|group| group.wants(&envelope.topic)).collect();
        if wanting.is_empty() {
            return Put::Unrouted;
        }
        let now = self.inner.options.clock.now();
        let entry = Entry {
            envelope: Arc::clone(envelope),
            seq: self.inner.seq.fetch_add(1, Ordering::Relaxed),
            attempt: 1,
            weight: envelope.weight(),
            taken_in_at: now,
            first_failed_at: None,
            replay,
            expires_at: envelope.expires.map(|moment| moment.resolve(now)),
        };
        let scheduled = envelope.available.map(|moment| moment.resolve(now).since(now));
        let scheduled = scheduled.filter(|pause| *pause > Duration::ZERO);
        // All are locked, in the order of the list, before the first is changed.
        let mut states: Vec<_> = wanting.iter().map(|group| group.lock()).collect();
        for (group, state) in wanting.iter().zip(&states) {
            if self.inner.is_full(state.events, state.bytes, entry.weight) {
                return Put::Full(group.name().to_owned());
            }
        }
        for (group, state) in wanting.iter().zip(&mut states) {
            group.admit(state, entry.clone(), scheduled);
        }
        drop(states);
        wanting.iter().for_each(|group| group.wake_all());
        Put::Down
    }

    async fn answer(&self, index: usize, parcel: Parcel) -> Answer {
        let bytes = parcel.envelope.payload.len();
        if bytes > self.inner.options.payload_bytes_max {
            let most = self.inner.options.payload_bytes_max;
            let message = format!("the payload has {bytes} bytes, the limit of this broker is {most}");
            return Answer::failed(index, DeliverError::new(DeliverKind::TooLarge, "too large", message));
        }
        match self.hand_in(&parcel.envelope, parcel.replay).await {
            Ok(()) => Answer::delivered(index),
            Err(error) => Answer::failed(index, self.refusal(&error)),
        }
    }

    fn refusal(&self, error: &Error) -> DeliverError {
        let (kind, code) = match error.kind() {
            ErrorKind::NotFound => (DeliverKind::Failed, "unrouted"),
            _ if self.is_closed() => (DeliverKind::Unavailable, "closed"),
            _ => (DeliverKind::Failed, "full"),
        };
        DeliverError::new(kind, code, error.to_string())
    }
}

impl Target for LocalBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let parcels = futures_util::stream::iter(burst.into_iter().enumerate());
        Box::pin(parcels.then(move |(index, parcel)| self.answer(index, parcel)))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        let closed = self.is_closed();
        Box::pin(async move {
            if closed { Err(Error::unavailable("the local broker was closed")) } else { Ok(()) }
        })
    }
}
