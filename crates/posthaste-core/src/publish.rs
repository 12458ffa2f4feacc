//! What is handed to an outbox: an event, with whatever this one publish wants different.

use std::time::Duration;

use crate::Result;
use crate::codec::Codec;
use crate::envelope::Envelope;
use crate::event::Event;
use crate::time::{Moment, Timestamp};

/// One event to publish, with its overrides. Everything that takes a `Publish` takes `&event` as well.
///
/// ```
/// # use posthaste_core::{publish::Publish, codec::Json, event::Event};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Promo { percent: u8 }
/// # impl Event for Promo { const TYPE: &'static str = "promo.created"; type Codec = Json; }
/// let promo = Promo { percent: 20 };
/// let envelope = Publish::of(&promo).as_type("promo.percentage.created").key("eu").into_envelope()?;
/// assert_eq!(envelope.topic, "promo.percentage.created", "the topic follows the type unless chosen");
/// assert_eq!(envelope.payload, br#"{"percent":20}"#);
/// # Ok::<_, posthaste_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Publish {
    /// An event that cannot be encoded is an error when it is published, so that building stays one expression.
    envelope: Result<Envelope>,
    topic_chosen: bool,
    once: bool,
}

impl Publish {
    /// This event, as its type says.
    pub fn of<E: Event>(event: &E) -> Self {
        let envelope = E::Codec::encode(event).map(|payload| Envelope {
            topic: E::TOPIC.unwrap_or(E::TYPE).to_owned(),
            key: event.key().map(|key| key.into_owned()),
            version: E::VERSION,
            content_type: E::Codec::CONTENT_TYPE.to_owned(),
            ..Envelope::new(E::TYPE, payload)
        });
        Self { envelope, topic_chosen: E::TOPIC.is_some(), once: false }
    }

    /// Bytes under this type: for events that have no Rust type, or a topic known only at run time.
    pub fn raw(event_type: impl Into<String>, payload: impl Into<Vec<u8>>) -> Self {
        Self { envelope: Ok(Envelope::new(event_type, payload)), topic_chosen: false, once: false }
    }

    /// Publishes under another type.
    #[must_use]
    pub fn as_type(self, event_type: impl Into<String>) -> Self {
        let follow = !self.topic_chosen;
        self.change(|envelope| {
            envelope.event_type = event_type.into();
            if follow {
                envelope.topic.clone_from(&envelope.event_type);
            }
        })
    }

    /// Publishes to another topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic_chosen = true;
        self.change(|envelope| envelope.topic = topic.into())
    }

    /// Publishes under another key.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.change(|envelope| envelope.key = Some(key.into()))
    }

    /// Publishes without a key: no order.
    #[must_use]
    pub fn no_key(self) -> Self {
        self.change(|envelope| envelope.key = None)
    }

    /// Publishes under an id of the producer's own: a UUID, a ULID, anything of 1 to 255 bytes.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> Self {
        self.change(|envelope| envelope.id = id.into())
    }

    /// Publishes from another source than the outbox's.
    #[must_use]
    pub fn source(self, source: impl Into<String>) -> Self {
        self.change(|envelope| envelope.source = source.into())
    }

    /// Says what the event is about.
    #[must_use]
    pub fn subject(self, subject: impl Into<String>) -> Self {
        self.change(|envelope| envelope.subject = Some(subject.into()))
    }

    /// Says how the payload is encoded.
    #[must_use]
    pub fn content_type(self, content_type: impl Into<String>) -> Self {
        self.change(|envelope| envelope.content_type = content_type.into())
    }

    /// Says which version of its schema the payload has.
    #[must_use]
    pub fn version(self, version: u32) -> Self {
        self.change(|envelope| envelope.version = version)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.change(|envelope| {
            envelope.headers.insert(name.into(), value.into());
        })
    }

    /// Says when it happened, where that is not now.
    #[must_use]
    pub fn occurred_at(self, at: Timestamp) -> Self {
        self.change(|envelope| envelope.occurred_at = Some(at))
    }

    /// Not delivered before this time. A scheduled event stands outside its key's order until it is due.
    #[must_use]
    pub fn at(self, at: Timestamp) -> Self {
        self.change(|envelope| envelope.available = Some(Moment::At(at)))
    }

    /// Not delivered before this long after the database takes it in.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        self.change(|envelope| envelope.available = Some(Moment::In(delay)))
    }

    /// Discarded, with a record, if it was not delivered by this time.
    #[must_use]
    pub fn expires_at(self, at: Timestamp) -> Self {
        self.change(|envelope| envelope.expires = Some(Moment::At(at)))
    }

    /// Discarded, with a record, if it was not delivered this long after the database took it in.
    #[must_use]
    pub fn expires_after(self, span: Duration) -> Self {
        self.change(|envelope| envelope.expires = Some(Moment::In(span)))
    }

    /// Stores nothing if an event of this source and id is there already, instead of failing the caller's transaction.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// Whether a second publish of the same id is no mistake.
    pub fn is_once(&self) -> bool {
        self.once
    }

    /// The envelope, or why the event could not be encoded.
    ///
    /// # Errors
    /// `Rejected` when the event's codec failed.
    pub fn into_envelope(self) -> Result<Envelope> {
        self.envelope
    }

    /// Adds a header where the event has none of this name.
    pub(crate) fn header_unless_set<'a>(
        self,
        name: &str,
        value: impl FnOnce() -> std::borrow::Cow<'a, str>,
    ) -> Self {
        self.change(|envelope| {
            if !envelope.headers.contains_key(name) {
                envelope.headers.insert(name.to_owned(), value().into_owned());
            }
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Envelope)) -> Self {
        if let Ok(envelope) = &mut self.envelope {
            change(envelope);
        }
        self
    }
}

impl<E: Event> From<&E> for Publish {
    fn from(event: &E) -> Self {
        Self::of(event)
    }
}

impl From<Envelope> for Publish {
    fn from(envelope: Envelope) -> Self {
        Self { envelope: Ok(envelope), topic_chosen: true, once: false }
    }
}
