//! Puts messages into the group's own topics: what is tried again later, and what is dead.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste_core::{Error, Result, redact};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, Headers as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::broker::kafka::link::{Fault, Saying, client_config, fault, words};
use crate::broker::kafka::settings::LinkSettings;
use crate::broker::story::{OURS, Story};

/// Writes to the group's own topics. Made when it is first needed.
pub(super) struct Mover {
    link: LinkSettings,
    producer: Mutex<Option<FutureProducer<Saying>>>,
}

impl std::fmt::Debug for Mover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mover").field("link", &self.link).finish_non_exhaustive()
    }
}

/// A message for a topic of the group's own.
pub(super) struct Move<'a> {
    pub(super) topic: &'a str,
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: OwnedHeaders,
    /// None: what has this key is not dead any more.
    pub(super) payload: Option<&'a [u8]>,
}

impl Mover {
    pub(super) fn new(link: &LinkSettings) -> Arc<Self> {
        Arc::new(Self { link: link.clone(), producer: Mutex::default() })
    }

    /// Puts a message into a topic; answers when all replicas in sync have it.
    ///
    /// # Errors
    /// `Unavailable` when that is not so, or nobody knows.
    pub(super) async fn put(&self, what: Move<'_>) -> Result<()> {
        let producer = self.producer()?;
        let topic = what.topic.to_owned();
        let record: FutureRecord<'_, [u8], [u8]> = FutureRecord {
            topic: what.topic,
            partition: None,
            payload: what.payload,
            key: what.key,
            timestamp: None,
            headers: Some(what.headers),
        };
        let failed = |error: &KafkaError| {
            let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
            if fault(code) == Fault::Fatal {
                self.forget();
            }
            let said = producer.client().context().last_words().map(|said| format!(" ({said})"));
            Error::unavailable(redact::clean(&format!("{}{}", words(code), said.unwrap_or_default())))
                .during(format!("write to the topic {topic:?}"))
        };
        let sent = producer.send_result(record).map_err(|(error, _)| failed(&error))?;
        match sent.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err((error, _))) => Err(failed(&error)),
            Err(_) => Err(Error::unavailable(format!("the client ended before {topic:?} had the message"))),
        }
    }

    fn producer(&self) -> Result<FutureProducer<Saying>> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*producer {
            return Ok(producer.clone());
        }
        let mut config = client_config(&self.link, "consume");
        let patience = self.link.patience.as_millis().to_string();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            .set("linger.ms", "1")
            .set("message.timeout.ms", patience);
        let new: FutureProducer<Saying> = config
            .create_with_context(Saying::default())
            .map_err(|error| Error::config(format!("make a producer for Kafka: {error}")))?;
        *producer = Some(new.clone());
        Ok(new)
    }

    /// The producer can go on no longer; the next message gets another one.
    fn forget(&self) {
        *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The headers of a message that is moved: its own, and what happened to it by now.
pub(super) fn headers_of(headers: Option<&OwnedHeaders>, story: &Story) -> OwnedHeaders {
    let mut new = OwnedHeaders::new();
    for header in headers.iter().flat_map(|headers| headers.iter()) {
        if !header.key.to_ascii_lowercase().starts_with(OURS) {
            new = new.insert(header);
        }
    }
    for (name, value) in story.entries() {
        new = with(new, name, value.as_bytes());
    }
    new
}

/// These headers, and one more.
pub(super) fn with(headers: OwnedHeaders, name: &str, value: &[u8]) -> OwnedHeaders {
    headers.insert(Header { key: name, value: Some(value) })
}
