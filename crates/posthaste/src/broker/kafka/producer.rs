//! The producer: made when it is needed, and made again when it cannot go on.
//!
//! Unlike with RabbitMQ and NATS, the client's own recovery is used. The client keeps the connections, and
//! sends what it was given again until the acknowledgement comes or its time is up. With `acks=all` it is
//! idempotent, so that doubles nothing and keeps the order within a partition. Every message gets a report of
//! its own in the end, which goes to its sender.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use posthaste_core::{Error, Result, redact};
use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext as _, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::link::{Fault, Saying, client_config, fault, log, words};
use super::lookup::Looks;
pub(super) use super::lookup::{create_topic, missing};
use super::settings::{Acks, Settings};

/// The client looks for late messages so often; a report may come so much later.
pub(super) const REPORT_SLACK: Duration = Duration::from_secs(3);

/// What became of a message.
pub(super) type Said = Result<(), RDKafkaErrorCode>;
/// Where the reports about some messages go: the number that the sender gave it, and what was said.
pub(super) type Reports = mpsc::UnboundedSender<(usize, Said)>;

/// A message for a topic.
pub(super) struct Record<'a> {
    pub(super) topic: &'a str,
    pub(super) key: Option<&'a [u8]>,
    pub(super) headers: OwnedHeaders,
    pub(super) payload: Option<&'a [u8]>,
}

/// Whose report it is.
pub(super) struct Slot {
    index: usize,
    reports: Reports,
}

/// Hands on reports, and remembers what the client says of itself.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) saying: Saying,
    /// When something was acknowledged last.
    acknowledged_at: Mutex<Option<Instant>>,
}

impl ClientContext for Desk {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.saying.hear(&error, reason);
    }
}

impl ProducerContext for Desk {
    type DeliveryOpaque = Box<Slot>;

    fn delivery(&self, report: &DeliveryResult<'_>, slot: Box<Slot>) {
        let said = match report {
            Ok(_) => {
                *lock(&self.acknowledged_at) = Some(Instant::now());
                Ok(())
            }
            Err((error, _)) => Err(code_of(error)),
        };
        // Nobody waits for it any more: it is sent again.
        let _ = slot.reports.send((slot.index, said));
    }
}

/// A producer, until it can go on no longer. Cheap to clone; it ends with the last clone.
#[derive(Clone)]
pub(super) struct Link(Arc<Owner>);

struct Owner {
    settings: Arc<Settings>,
    live: Mutex<Option<Arc<Live>>>,
    topics: Looks,
}

/// A producer that was made.
pub(super) struct Live {
    producer: Option<ThreadedProducer<Desk>>,
    /// Puts every message into a batch of its own.
    alone: OnceLock<ThreadedProducer<Desk>>,
    is_spent: AtomicBool,
}

impl Link {
    /// A producer with these settings. It is made when somebody asks for it first.
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self(Arc::new(Owner { settings, live: Mutex::default(), topics: Looks::default() }))
    }

    /// With these settings it was made.
    pub(super) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What is known of topics.
    pub(super) fn topics(&self) -> &Looks {
        &self.0.topics
    }

    /// The producer that lives now, or a new one.
    ///
    /// # Errors
    /// `Unavailable` when none can be made.
    pub(super) fn live(&self) -> Result<Arc<Live>> {
        let mut live = lock(&self.0.live);
        if let Some(live) = live.as_ref().filter(|live| !live.is_over()) {
            return Ok(Arc::clone(live));
        }
        let made = Arc::new(Live {
            producer: Some(make(&producer_config(&self.0.settings))?),
            alone: OnceLock::new(),
            is_spent: AtomicBool::new(false),
        });
        *live = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Puts one message on a topic, and waits until the brokers have it.
    ///
    /// # Errors
    /// `Unavailable` when it is not certain that they have it; `TooLarge` when they will not take it.
    pub(super) async fn put(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        headers: OwnedHeaders,
        payload: Option<&[u8]>,
    ) -> Result<()> {
        let live = self.live()?;
        let record = |headers| Record { topic, key, headers, payload };
        let mut said = self.reported(|reports| live.send(reports, 0, record(headers.clone()))).await;
        if is_too_large(&said) {
            // Kafka refuses a batch as a whole: it may be another one of it that is too large.
            let alone = |reports: &Reports| live.send_alone(&self.0.settings, reports, 0, record(headers));
            said = self.reported(alone).await;
        }
        let doing = || format!("put a message on the topic {topic:?}");
        match said {
            Some(Ok(())) => Ok(()),
            Some(Err(code)) if is_too_large(&said) => Err(Error::too_large(words(code)).during(doing())),
            Some(Err(code)) => {
                live.note(code);
                Err(Error::unavailable(live.why(code)).during(doing()))
            }
            None => Err(Error::unavailable("nothing was heard of it").during(doing())),
        }
    }

    /// What is reported of one message that is sent so; nothing if that takes too long.
    async fn reported(&self, send: impl FnOnce(&Reports) -> Said) -> Option<Said> {
        let (reports, mut reported) = mpsc::unbounded_channel();
        if let Err(code) = send(&reports) {
            return Some(Err(code));
        }
        drop(reports);
        let said = timeout(self.0.settings.link.patience + REPORT_SLACK, reported.recv()).await;
        said.ok().flatten().map(|(_, said)| said)
    }
}

fn is_too_large(said: &Option<Said>) -> bool {
    said.is_some_and(|said| said.is_err_and(|code| fault(code) == Fault::TooLarge))
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Live {
    pub(super) fn producer(&self) -> &ThreadedProducer<Desk> {
        self.producer.as_ref().expect("it is taken out when this is dropped, and not before")
    }

    pub(super) fn desk(&self) -> &Desk {
        self.producer().client().context()
    }

    /// Hands a message to the client; its report goes to `reports` under this index.
    ///
    /// # Errors
    /// What the client did not take it for; there is no report then.
    pub(super) fn send(&self, reports: &Reports, index: usize, record: Record<'_>) -> Said {
        send(self.producer(), reports, index, record)
    }

    /// The same in a batch of its own: what is wrong with it is nobody else's then.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub(super) fn send_alone(
        &self,
        settings: &Settings,
        reports: &Reports,
        index: usize,
        record: Record<'_>,
    ) -> Said {
        if self.alone.get().is_none() {
            let mut config = producer_config(settings);
            config.set("batch.num.messages", "1").set("linger.ms", "0");
            let made = make(&config).map_err(|_| RDKafkaErrorCode::CriticalSystemResource)?;
            // Somebody may have been faster.
            let _ = self.alone.set(made);
        }
        send(self.alone.get().unwrap_or_else(|| self.producer()), reports, index, record)
    }

    /// Whether anything was acknowledged since then.
    pub(super) fn has_acknowledged_since(&self, since: Instant) -> bool {
        let has = |producer: &ThreadedProducer<Desk>| {
            lock(&producer.client().context().acknowledged_at).is_some_and(|at| at >= since)
        };
        has(self.producer()) || self.alone.get().is_some_and(has)
    }

    /// Takes in that a message failed so: after some errors the next one needs a new producer.
    pub(super) fn note(&self, code: RDKafkaErrorCode) {
        if fault(code) == Fault::Fatal {
            self.is_spent.store(true, Ordering::Relaxed);
        }
    }

    /// An error in words, with what the client said last where the error itself says little.
    pub(super) fn why(&self, code: RDKafkaErrorCode) -> String {
        let said = match fault(code) {
            Fault::Fatal => self.desk().saying.fatal(),
            Fault::Away | Fault::Late => self.desk().saying.last_words(),
            _ => None,
        };
        said.map_or_else(|| words(code), |said| format!("{} ({said})", words(code)))
    }

    pub(super) fn away(&self, error: &KafkaError) -> Error {
        Error::unavailable(self.why(code_of(error)))
    }

    fn is_over(&self) -> bool {
        let is_fatal =
            |producer: &ThreadedProducer<Desk>| producer.client().context().saying.fatal().is_some();
        self.is_spent.load(Ordering::Relaxed)
            || is_fatal(self.producer())
            || self.alone.get().is_some_and(is_fatal)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let_go((self.producer.take(), self.alone.take()));
    }
}

/// Ends a client where nobody waits for it: it takes its time.
pub(super) fn let_go<T: Send + 'static>(client: T) {
    // Without a thread for it, it ends here.
    drop(std::thread::Builder::new().name("kafka-end".to_owned()).spawn(move || drop(client)));
}

fn send(producer: &ThreadedProducer<Desk>, reports: &Reports, index: usize, record: Record<'_>) -> Said {
    let slot = Box::new(Slot { index, reports: reports.clone() });
    let mut sent = BaseRecord::with_opaque_to(record.topic, slot).headers(record.headers);
    (sent.key, sent.payload) = (record.key, record.payload);
    producer.send(sent).map_err(|(error, _)| code_of(&error))
}

fn make(config: &ClientConfig) -> Result<ThreadedProducer<Desk>> {
    ThreadedProducer::from_config_and_context(config, Desk::default()).map_err(|error| not_made(&error))
}

/// Why a client could not be made. No value of a setting is repeated.
pub(super) fn not_made(error: &KafkaError) -> Error {
    let what = match error {
        KafkaError::ClientConfig(_, why, name, _) => format!("{name}: {why}"),
        other => other.to_string(),
    };
    Error::unavailable(redact::clean(&what)).during("make a client of Kafka")
}

/// The configuration of a producer.
fn producer_config(settings: &Settings) -> ClientConfig {
    let (mut config, publishing) = (client_config(&settings.link, "publish"), &settings.publishing);
    let millis = |span: Duration| span.as_millis().to_string();
    config
        .set("acks", publishing.acks.name())
        // It needs the acknowledgement of all.
        .set("enable.idempotence", (publishing.acks == Acks::All).to_string())
        .set("compression.type", publishing.compression.name())
        .set("linger.ms", millis(publishing.linger))
        .set("batch.num.messages", publishing.batch_events.to_string())
        .set("batch.size", publishing.batch_bytes.to_string())
        .set("message.timeout.ms", millis(publishing.ack_timeout))
        .set("request.timeout.ms", millis(publishing.ack_timeout))
        .set("retry.backoff.max.ms", "500")
        // Topics are looked for before; one that vanishes later is told soon.
        .set("topic.metadata.propagation.max.ms", "1000")
        // As Java's: the same key is in the same partition, whoever sends it.
        .set("partitioner", "murmur2_random");
    config
}

/// The code of an error.
pub(super) fn code_of(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
