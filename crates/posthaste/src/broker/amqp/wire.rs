//! An event as a message: [`encode`] for publishing, [`decode`] for consuming.

pub(super) mod decode;
pub(super) mod encode;

use std::sync::Arc;

use lapin::BasicProperties;
use lapin::types::ShortString;
use posthaste_core::envelope::Envelope;

/// A message that the broker can take.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) body: Body,
}

/// A message's bytes.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// They are the event's payload.
    Payload(Arc<Envelope>),
    /// They are a text around it, or no event.
    Own(Arc<Vec<u8>>),
}

impl Body {
    pub(super) fn own(bytes: Vec<u8>) -> Self {
        Self::Own(Arc::new(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Payload(envelope) => &envelope.payload,
            Self::Own(bytes) => bytes,
        }
    }
}

/// What the headers of CloudEvents attributes begin with; the AMQP binding allows a colon in its place.
pub(super) const PREFIX: &str = "cloudEvents_";
/// The same as written by others: brokers and languages that know no underscore here.
pub(super) const PREFIX_COLON: &str = "cloudEvents:";
