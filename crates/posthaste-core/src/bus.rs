//! Publishing and consuming straight on a broker, without an outbox: for those who accept what that means.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::sleep;

use crate::broker::Broker;
use crate::envelope::{Envelope, Headers};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::publish::Publish;
use crate::retry::{Backoff, RetryPolicy};
use crate::store::Parcel;
use crate::target::{DeliverError, DeliverKind};
use crate::time::{Clock, SystemClock};
use crate::{Error, ErrorKind, Result};

/// A broker to publish to and to consume from, whichever it is: handlers and publishers stay the same when the URL changes.
///
/// ```
/// use posthaste_core::{Result, bus::Bus, consumer::{Consumer, Cx, Failure}, local::LocalBroker};
/// # use posthaste_core::{codec::Json, event::Event};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct OrderPlaced { order_id: u32 }
/// # impl Event for OrderPlaced { const TYPE: &'static str = "order.placed"; type Codec = Json; }
///
/// async fn greet(_: &mut Cx, event: OrderPlaced) -> Result<(), Failure> {
///     println!("order {}", event.order_id);
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let broker = LocalBroker::new();
/// let bus = Bus::on(broker.clone()).source("/shop");
/// let consumer = Consumer::named("greeter").on(greet);
/// consumer.declare(bus.broker().as_ref()).await?;
/// bus.publish(&OrderPlaced { order_id: 7 }).await?;
/// let (run, closed) = tokio::join!(consumer.run(&bus, std::future::pending()), broker.close());
/// run?;
/// assert_eq!(closed.left, 0);
/// # Ok(()) }
/// ```
///
/// # Guarantees
/// `Ok` means that the broker has the event, as its target promises. An error means that it may or may not have it: publish
/// again, with the same id. Nothing ties a publish to the caller's database: a crash between a commit and a publish loses the
/// event, which is what an [outbox](crate::outbox::Outbox) is for.
#[derive(Clone)]
pub struct Bus {
    broker: Arc<dyn Broker>,
    source: Arc<str>,
    payload_bytes_max: usize,
    policy: Arc<dyn RetryPolicy>,
    clock: Arc<dyn Clock>,
    context: Option<Arc<dyn Fn() -> Headers + Send + Sync>>,
}

impl Bus {
    /// A bus on this broker: five attempts, half a second apart at first, then twice as long each time, any part of it.
    pub fn on(broker: impl Into<Arc<dyn Broker>>) -> Self {
        Self {
            broker: broker.into(),
            source: Arc::from(""),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            policy: Arc::new(Backoff::lerian()),
            clock: Arc::new(SystemClock),
            context: None,
        }
    }

    /// Its events come from this source: CloudEvents' `source`, a path or URI that names the producer.
    #[must_use]
    pub fn source(mut self, source: impl Into<Arc<str>>) -> Self {
        self.source = source.into();
        self
    }

    /// Tries a publish again as this policy says.
    #[must_use]
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Adds these headers to every event that has none of their names: the trace context of the caller, say.
    #[must_use]
    pub fn context(mut self, context: impl Fn() -> Headers + Send + Sync + 'static) -> Self {
        self.context = Some(Arc::new(context));
        self
    }

    /// The broker itself.
    pub fn broker(&self) -> &Arc<dyn Broker> {
        &self.broker
    }

    /// Publishes an event, waits until the broker has it, and answers its id. What does not pass is tried again, with the
    /// same id, as the policy says; dropping the future ends that.
    ///
    /// # Errors
    /// `Unavailable` when no attempt passed, with what the last was told; `Rejected` and `TooLarge` for what will never pass,
    /// without a second attempt; `Rejected` too for an event that is to be delivered later or to expire, which needs an
    /// outbox.
    pub async fn publish(&self, what: impl Into<Publish>) -> Result<String> {
        let envelope = Arc::new(self.seal(what.into())?);
        let mut attempt = 1;
        loop {
            let Err(error) = self.send(&envelope, attempt).await else { return Ok(envelope.id.clone()) };
            let Some(kind) = retryable(&error) else { return Err(refused(&envelope, &error)) };
            let Some(pause) = self.policy.next(attempt, error.retry_after) else {
                return Err(Error::new(
                    kind,
                    format!("publish {:?}: no luck in {attempt} attempts: {error}", envelope.event_type),
                ));
            };
            sleep(pause).await;
            attempt += 1;
        }
    }

    async fn send(&self, envelope: &Arc<Envelope>, attempt: u32) -> Result<(), DeliverError> {
        let stored_at = envelope.occurred_at.unwrap_or_default();
        let parcel = Parcel::new(Arc::clone(envelope), attempt, false, stored_at);
        match self.broker.deliver(vec![parcel]).next().await {
            Some(answer) => answer.result,
            None => {
                Err(DeliverError::new(DeliverKind::Unavailable, "no answer", "the broker did not answer"))
            }
        }
    }

    fn seal(&self, what: Publish) -> Result<Envelope> {
        let mut envelope = what.into_envelope()?;
        if envelope.source.is_empty() {
            envelope.source = self.source.as_ref().to_owned();
        }
        if envelope.occurred_at.is_none() {
            envelope.occurred_at = Some(self.clock.now());
        }
        for (name, value) in self.context.as_ref().map(|context| context()).unwrap_or_default() {
            envelope.headers.entry(name).or_insert(value);
        }
        let doing = |error: Error| error.during(format!("publish {:?}", envelope.event_type));
        if envelope.available.is_some() || envelope.expires.is_some() {
            return Err(doing(Error::rejected(
                "a broker keeps no event for later and lets none expire; publish it through an outbox",
            )));
        }
        envelope.check(self.payload_bytes_max).map_err(doing)?;
        Ok(envelope)
    }
}

/// A consumer runs on a bus as on its broker.
impl From<&Bus> for Arc<dyn Broker> {
    fn from(bus: &Bus) -> Self {
        Arc::clone(&bus.broker)
    }
}

/// What the error is when it does not pass in the end; `None` if there is no use in trying again.
fn retryable(error: &DeliverError) -> Option<ErrorKind> {
    match error.kind {
        DeliverKind::Unavailable | DeliverKind::Failed | DeliverKind::Later => Some(ErrorKind::Unavailable),
        DeliverKind::Rejected | DeliverKind::TooLarge | DeliverKind::Gone => None,
    }
}

fn refused(envelope: &Envelope, error: &DeliverError) -> Error {
    let kind = match error.kind {
        DeliverKind::TooLarge => ErrorKind::TooLarge,
        DeliverKind::Gone => ErrorKind::NotFound,
        _ => ErrorKind::Rejected,
    };
    Error::new(kind, format!("publish {:?}: {error}", envelope.event_type))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::broker::{Feed, FeedSpec};
    use crate::target::{Answer, Capabilities, Target};
    use crate::{BoxFuture, BoxStream};

    /// Answers as the script says, then takes everything; notes the ids.
    struct Scripted {
        capabilities: Capabilities,
        script: Mutex<Vec<DeliverKind>>,
        ids: Mutex<Vec<String>>,
    }

    impl Target for Scripted {
        fn capabilities(&self) -> &Capabilities {
            &self.capabilities
        }

        fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
            self.ids.lock().unwrap().push(burst[0].envelope.id.clone());
            let next = self.script.lock().unwrap().pop();
            let answer = match next {
                Some(kind) => Answer::failed(0, DeliverError::new(kind, "code", "words")),
                None => Answer::delivered(0),
            };
            Box::pin(futures_util::stream::iter([answer]))
        }

        fn ping(&self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Broker for Scripted {
        fn feed<'a>(&'a self, _: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
            Box::pin(async { Err(Error::config("nothing to read")) })
        }
    }

    fn scripted(script: &[DeliverKind]) -> (Arc<Scripted>, Bus) {
        let broker = Arc::new(Scripted {
            capabilities: Capabilities::sink(),
            script: Mutex::new(script.to_vec()),
            ids: Mutex::default(),
        });
        let bus = Bus::on(Arc::clone(&broker) as Arc<dyn Broker>);
        (broker, bus)
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_tried_again_with_the_same_id() {
        let (broker, bus) = scripted(&[DeliverKind::Failed, DeliverKind::Unavailable, DeliverKind::Failed]);
        let id = bus.publish(Publish::raw("t", "x")).await.unwrap();
        assert_eq!(*broker.ids.lock().unwrap(), vec![id; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn five_attempts_are_enough() {
        let (broker, bus) = scripted(&[DeliverKind::Unavailable; 9]);
        let begun = Instant::now();
        let error = bus.publish(Publish::raw("t", "x")).await.unwrap_err();
        assert_eq!((error.kind(), broker.ids.lock().unwrap().len()), (ErrorKind::Unavailable, 5));
        assert!(error.to_string().contains("5 attempts: code: words"), "{error}");
        assert!(begun.elapsed() <= Duration::from_millis(500 + 1_000 + 2_000 + 4_000));
    }

    #[tokio::test(start_paused = true)]
    async fn what_will_never_pass_is_told_at_once() {
        for (kind, expected) in
            [(DeliverKind::Rejected, ErrorKind::Rejected), (DeliverKind::TooLarge, ErrorKind::TooLarge)]
        {
            let (broker, bus) = scripted(&[kind]);
            assert_eq!(bus.publish(Publish::raw("t", "x")).await.unwrap_err().kind(), expected);
            assert_eq!(broker.ids.lock().unwrap().len(), 1);
        }
        let (broker, bus) = scripted(&[]);
        let later = Publish::raw("t", "x").after(Duration::from_secs(1));
        assert_eq!(bus.publish(later).await.unwrap_err().kind(), ErrorKind::Rejected);
        assert_eq!(bus.publish(Publish::raw("", "x")).await.unwrap_err().kind(), ErrorKind::Rejected);
        assert!(broker.ids.lock().unwrap().is_empty());
    }
}
