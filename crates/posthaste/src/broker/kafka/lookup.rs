//! Whether topics exist: looked for once each, and created if that was asked for.
//!
//! The target looks before it hands an event to the client. The client would wait for a missing topic until
//! the event's time is up, and others would wait with it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::target::DeliverError;
use posthaste_core::{Error, Result};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::producer::Producer as _;
use tokio::sync::{Mutex as Turn, oneshot};
use tokio::time::{Instant, sleep};

use super::link::{Fault, Saying, client_config, fault, words};
use super::producer::{Link, Live, code_of, let_go, lock, not_made};
use super::settings::{LinkSettings, Settings};
use crate::broker::missing::Missing;

/// How often to look whether a topic that was created is there.
const CREATED_PAUSE: Duration = Duration::from_millis(50);
/// A topic that is missing for long is looked for so often at most, however many events are meant for it.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What is known of topics.
#[derive(Default)]
pub(super) struct Looks {
    /// These are there.
    known: Mutex<HashSet<String>>,
    /// One looks for a topic, and the others find what he found: also that he found nothing.
    looking: Turn<Option<Vain>>,
    missing: Missing,
}

/// A look that found nothing.
struct Vain {
    ended_at: Instant,
    topic: String,
    unseen: Unseen,
}

/// Why a topic cannot be written to.
#[derive(Clone, Debug)]
pub(super) enum Unseen {
    /// There is no such topic.
    Missing(String),
    /// The cluster answers, and something is wrong with this topic alone: our user may not see it, or it cannot be created.
    Refused(String),
    /// Nobody answers, for whatever topic.
    Away(String),
}

impl Unseen {
    /// In words.
    pub(super) fn why(&self) -> &str {
        let (Self::Missing(why) | Self::Refused(why) | Self::Away(why)) = self;
        why
    }
}

impl Link {
    /// For how long a missing topic keeps a lane waiting before only its own events wait: half a minute, unless somebody has changed
    /// how long a broker may take to answer.
    fn missing_for(&self) -> Duration {
        self.settings().link.patience * 3
    }

    /// Whether a topic was there when somebody looked.
    pub(super) fn knows(&self, topic: &str) -> bool {
        lock(&self.topics().known).contains(topic)
    }

    /// Sees to it that a topic is there: looks for it once, and creates it if that was asked for. Whoever waited while somebody
    /// else looked in vain is told so, and does not look himself.
    ///
    /// # Errors
    /// Why it cannot be written to.
    pub(super) async fn see_to(&self, live: &Arc<Live>, topic: &str) -> Result<(), Unseen> {
        if self.knows(topic) {
            return Ok(());
        }
        let came = Instant::now();
        let mut vain = self.topics().looking.lock().await;
        if self.knows(topic) {
            return Ok(());
        }
        if let Some(vain) = vain.as_ref().filter(|vain| vain.ended_at > came)
            && (vain.topic == topic || matches!(vain.unseen, Unseen::Away(_)))
        {
            return Err(vain.unseen.clone());
        }
        let looked = self.look_for(live, topic).await;
        if let Err(unseen) = &looked {
            *vain = Some(Vain { ended_at: Instant::now(), topic: topic.to_owned(), unseen: unseen.clone() });
        }
        looked
    }

    async fn look_for(&self, live: &Arc<Live>, topic: &str) -> Result<(), Unseen> {
        let patience = self.settings().link.patience;
        match is_there(live, topic, patience).await {
            Ok(()) => {}
            Err(Unseen::Missing(why)) => {
                let partitions = self.settings().topics.create.ok_or(Unseen::Missing(why))?;
                self.create(live, topic, partitions).await?;
            }
            Err(unseen) => return Err(unseen),
        }
        lock(&self.topics().known).insert(topic.to_owned());
        self.topics().missing.found(topic);
        Ok(())
    }

    async fn create(&self, live: &Arc<Live>, topic: &str, partitions: i32) -> Result<(), Unseen> {
        let patience = self.settings().link.patience;
        let until = Instant::now() + patience;
        ask_for_topic(self.settings(), topic, partitions, &[]).await?;
        // Its partitions may have no leaders yet, which is no reason to give up either.
        while is_there(live, topic, patience).await.is_err() {
            if Instant::now() > until {
                return Err(Unseen::Refused(format!(
                    "the topic {topic:?} was created and is not there after {patience:?}"
                )));
            }
            sleep(CREATED_PAUSE).await;
        }
        Ok(())
    }

    /// A topic that was there is gone.
    pub(super) fn lost_topic(&self, topic: &str) {
        lock(&self.topics().known).remove(topic);
    }

    /// What is missing, or as good as missing.
    pub(super) fn missing(&self) -> &Missing {
        &self.topics().missing
    }

    /// What is to be said of an event whose topic is missing for long, where somebody has just looked for it.
    pub(super) fn looked_in_vain(&self, topic: &str) -> Option<DeliverError> {
        self.missing().noted(topic, LOOK_PAUSE)
    }

    /// Asks whether the cluster would take events: about the topics that lanes wait for, and one that is known, or all of them. After
    /// a while lanes wait for a missing one no more, only its events do.
    ///
    /// # Errors
    /// `Unavailable` with what is wrong.
    pub(super) async fn ping(&self) -> Result<()> {
        let live = self.live()?;
        let Looks { missing, .. } = self.topics();
        while let Some(topic) = missing.awaited() {
            match self.see_to(&live, &topic).await {
                Ok(()) => missing.found(&topic),
                Err(Unseen::Missing(_) | Unseen::Refused(_))
                    if missing.is_given_up(&topic, self.missing_for()) => {}
                Err(unseen) => return Err(Error::unavailable(unseen.why())),
            }
        }
        let known = lock(&self.topics().known).iter().next().cloned();
        match metadata(&live, known.as_deref(), self.settings().link.patience).await {
            Ok(_) => {
                live.desk().saying.is_well();
                Ok(())
            }
            Err(error) => Err(live.away(&error)),
        }
    }
}

/// Creates a topic with so many partitions and these settings of its own, unless it is there.
///
/// # Errors
/// `Unavailable` when it cannot be created.
pub(super) async fn create_topic(
    settings: &Settings,
    topic: &str,
    partitions: i32,
    own: &[(&str, &str)],
) -> Result<()> {
    let created = ask_for_topic(settings, topic, partitions, own).await;
    created.map_err(|unseen| Error::unavailable(unseen.why()))
}

/// The same; tells what the cluster says of the topic from a cluster that does not answer.
async fn ask_for_topic(
    settings: &Settings,
    topic: &str,
    partitions: i32,
    own: &[(&str, &str)],
) -> Result<(), Unseen> {
    let (admin, options) = admin(&settings.link).map_err(|error| Unseen::Away(error.to_string()))?;
    // The cluster's own default is called -1.
    let replicas = TopicReplication::Fixed(settings.topics.replicas.unwrap_or(-1));
    let new = own
        .iter()
        .fold(NewTopic::new(topic, partitions, replicas), |new, (name, value)| new.set(name, value));
    let created = admin.create_topics([&new], &options).await;
    let said = admin.inner().context().last_words();
    let_go(admin);
    let (code, is_own) = match created {
        Ok(topics) => match topics.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => {
                (code, fault(code) != Fault::Late)
            }
            _ => return Ok(()),
        },
        Err(error) => (code_of(&error), false),
    };
    let why = said.map_or_else(|| words(code), |said| format!("{} ({said})", words(code)));
    let why = format!("failed to create the topic {topic:?}: {why}");
    Err(if is_own { Unseen::Refused(why) } else { Unseen::Away(why) })
}

/// A client for questions about the cluster, and how long it may take to answer them.
///
/// # Errors
/// `Config` for settings that the client does not take.
pub(super) fn admin(link: &LinkSettings) -> Result<(AdminClient<Saying>, AdminOptions)> {
    let admin = AdminClient::from_config_and_context(&client_config(link, "admin"), Saying::default())
        .map_err(|error| not_made(&error))?;
    let patience = Some(link.patience);
    Ok((admin, AdminOptions::new().request_timeout(patience).operation_timeout(patience)))
}

/// Whether a topic is there and can be written to.
async fn is_there(live: &Arc<Live>, topic: &str, patience: Duration) -> Result<(), Unseen> {
    match metadata(live, Some(topic), patience).await {
        Ok(None) => Ok(()),
        Ok(Some(code)) if fault(code) == Fault::Missing => Err(Unseen::Missing(missing(topic))),
        // The cluster has answered, so whatever it says is about this topic.
        Ok(Some(code)) => Err(Unseen::Refused(format!("the topic {topic:?}: {}", words(code)))),
        Err(error) => Err(Unseen::Away(live.why(code_of(&error)))),
    }
}

/// Asks the cluster about a topic, or about all; answers what is wrong with that topic.
async fn metadata(
    live: &Arc<Live>,
    topic: Option<&str>,
    patience: Duration,
) -> Result<Option<RDKafkaErrorCode>, KafkaError> {
    let name = topic.map(str::to_owned);
    look_at(live, topic, patience, move |found| {
        let topic = found.topics().iter().find(|found| Some(found.name()) == name.as_deref());
        topic.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from)
    })
    .await
}

/// Asks the cluster about a topic, or about all, and reads of the answer what is wanted.
pub(super) async fn look_at<T: Send + 'static>(
    live: &Arc<Live>,
    topic: Option<&str>,
    patience: Duration,
    read: impl FnOnce(&Metadata) -> T + Send + 'static,
) -> Result<T, KafkaError> {
    let (live, topic) = (Arc::clone(live), topic.map(str::to_owned));
    let (tell, told) = oneshot::channel();
    let ask =
        move || live.producer().client().fetch_metadata(topic.as_deref(), patience).map(|found| read(&found));
    // Not on a thread of the runtime, which would wait for it at its end.
    let asking =
        std::thread::Builder::new().name("kafka-ask".to_owned()).spawn(move || drop(tell.send(ask())));
    asking.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
    told.await.unwrap_or(Err(KafkaError::Canceled))
}

/// What to tell whoever misses a topic.
pub(super) fn missing(topic: &str) -> String {
    format!("there is no topic {topic:?}; create it, or let it be created with create_topics=PARTITIONS")
}
