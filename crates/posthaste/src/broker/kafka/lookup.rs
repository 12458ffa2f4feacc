//! Whether topics are there: looked for once each, and created if that was asked for.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::{Error, ErrorKind, Result};
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
    /// The topic that is missing; `None` if nobody answered.
    topic: Option<String>,
    why: String,
}

impl Link {
    /// For how long a missing topic keeps a lane waiting before it tries what there is: half a minute, unless somebody has changed
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
    /// `NotFound`, naming the topic, if it is missing; `Unavailable` when nobody answers.
    pub(super) async fn see_to(&self, live: &Arc<Live>, topic: &str) -> Result<()> {
        if self.knows(topic) {
            return Ok(());
        }
        let came = Instant::now();
        let mut vain = self.topics().looking.lock().await;
        if self.knows(topic) {
            return Ok(());
        }
        if let Some(vain) = vain.as_ref().filter(|vain| vain.ended_at > came) {
            match &vain.topic {
                None => return Err(Error::unavailable(vain.why.clone())),
                Some(missing) if missing == topic => return Err(Error::not_found(vain.why.clone())),
                Some(_) => {}
            }
        }
        let looked = self.look_for(live, topic).await;
        if let Err(error) = &looked {
            let is_missing = error.kind() == ErrorKind::NotFound;
            let topic = is_missing.then(|| topic.to_owned());
            *vain = Some(Vain { ended_at: Instant::now(), topic, why: error.to_string() });
        }
        looked
    }

    async fn look_for(&self, live: &Arc<Live>, topic: &str) -> Result<()> {
        let patience = self.settings().link.patience;
        if !is_there(live, topic, patience).await? {
            let Some(partitions) = self.settings().topics.create else {
                self.topics().missing.note(topic);
                return Err(Error::not_found(missing(topic)));
            };
            let until = Instant::now() + patience;
            create_topic(self.settings(), topic, partitions, &[]).await?;
            // Its partitions may have no leaders yet, which is no reason to give up either.
            while !matches!(is_there(live, topic, patience).await, Ok(true)) {
                if Instant::now() > until {
                    return Err(Error::unavailable(format!(
                        "the topic {topic:?} was created and is not there after {patience:?}"
                    )));
                }
                sleep(CREATED_PAUSE).await;
            }
        }
        lock(&self.topics().known).insert(topic.to_owned());
        self.topics().missing.found(topic);
        Ok(())
    }

    /// A topic that was there is gone.
    pub(super) fn lost_topic(&self, topic: &str) {
        lock(&self.topics().known).remove(topic);
        self.topics().missing.note(topic);
    }

    /// Asks whether the cluster would take events: about the topic that is missing, or one that is known, or all of them. After a
    /// while it is not asked about the missing one, once: its events may have been given up, and the others must not wait for ever.
    ///
    /// # Errors
    /// `Unavailable` with what is wrong.
    pub(super) async fn ping(&self) -> Result<()> {
        let live = self.live()?;
        let Looks { missing, .. } = self.topics();
        if let Some(topic) = missing.name()
            && let Err(error) = self.see_to(&live, &topic).await
            && !(error.kind() == ErrorKind::NotFound && missing.is_forgotten(&topic, self.missing_for()))
        {
            return Err(Error::unavailable(error.to_string()));
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
    let doing = || format!("create the topic {topic:?}");
    let (admin, options) = admin(&settings.link)?;
    // The cluster's own default is called -1.
    let replicas = TopicReplication::Fixed(settings.topics.replicas.unwrap_or(-1));
    let new = own
        .iter()
        .fold(NewTopic::new(topic, partitions, replicas), |new, (name, value)| new.set(name, value));
    let created = admin.create_topics([&new], &options).await;
    let said = admin.inner().context().last_words();
    let_go(admin);
    let code = match created {
        Ok(topics) => match topics.into_iter().next() {
            Some(Err((_, code))) if code != RDKafkaErrorCode::TopicAlreadyExists => code,
            _ => return Ok(()),
        },
        Err(error) => code_of(&error),
    };
    let why = said.map_or_else(|| words(code), |said| format!("{} ({said})", words(code)));
    Err(Error::unavailable(why).during(doing()))
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
async fn is_there(live: &Arc<Live>, topic: &str, patience: Duration) -> Result<bool> {
    let found = metadata(live, Some(topic), patience).await.map_err(|error| live.away(&error))?;
    match found {
        None => Ok(true),
        Some(code) if fault(code) == Fault::Missing => Ok(false),
        Some(code) => Err(Error::unavailable(words(code)).during(format!("look for the topic {topic:?}"))),
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
