//! NATS as a target: every event is published to JetStream and acknowledged by the stream that takes it.
//!
//! Where no stream takes a subject, the server says "no responders" at once, but any plain subscriber (a
//! monitor on `>`) counts as a responder. So when an acknowledgement is late, the target looks for the stream
//! of its subject before it blames anything else. What a user may not do comes as an error of the connection;
//! its words name the subject, by which the message is found.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::GetStreamByNameErrorKind;
use async_nats::jetstream::stream::{Config, StorageType};
use futures_util::{StreamExt as _, stream};
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, OrderKept, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result, redact};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, timeout, timeout_at};

use super::NatsBroker;
use super::link::Live;
use super::naming;
use super::publisher::Said;
use super::settings::Settings;
use super::wire::{encode, too_large};
use crate::broker::fits::fits;

/// Events that are handed to the client at once: more are no faster, and fewer cost more per event.
const BURST_MAX: u32 = 200;
/// Each event is handed over by itself, so few of them are worth a burst, and what is on its way stays near the window.
const BURST_WORTH: u32 = 50;
/// How soon to try an event again whose subject may hold no more.
const FULL_PAUSE: Duration = Duration::from_secs(5);
/// How soon to try an event again whose stream does not answer.
const LATER: Duration = Duration::from_secs(5);
/// So many timeouts (half a minute, unless they were changed) a subject that no stream takes keeps a lane waiting before only
/// its own events wait.
const MISSING_FOR: u32 = 6;
/// What the server says when a message is larger than its stream takes, or its headers are.
const STREAM_MESSAGE_TOO_LARGE: [u64; 2] = [10054, 10097];

impl Target for NatsBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let begin = Delivering::begin(self, burst);
        Box::pin(stream::once(begin).flat_map(|delivering| stream::unfold(delivering, Delivering::next)))
    }

    fn fits(&self, event: &Envelope) -> Result<()> {
        let publishing = &self.settings.publishing;
        let limit = publishing.message_bytes_max;
        // As if the server took no more than the settings say, of which a dead letter needs a part.
        fits(event, limit, |parcel| encode(parcel, publishing, Some(limit)).map(drop))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let live = self.publishing.live().await?;
            if !live.has_jetstream() {
                return Err(Error::unavailable(NO_JETSTREAM));
            }
            if !self.publishing.try_out(&live).await {
                return Err(Error::unavailable("NATS does not answer"));
            }
            self.prepare(&live).await?;
            // The lane waits until somebody has made a stream for it. After a while only its own events do.
            while let Some(subject) = self.untaken.awaited() {
                if find_stream(&live, &subject).await?.is_some() {
                    self.untaken.found(&subject);
                } else if !self.untaken.is_given_up(&subject, self.publishing.patience() * MISSING_FOR) {
                    return Err(Error::unavailable(missing(&subject)));
                }
            }
            Ok(())
        })
    }

    fn examine(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.examine_streams())
    }
}

const NO_JETSTREAM: &str =
    "this NATS server has no JetStream; start it with -js, or with jetstream {} in its configuration";

/// What NATS can do with these settings.
pub(super) fn capabilities(settings: &Settings) -> Capabilities {
    Capabilities::sink()
        .burst_max(BURST_MAX)
        .burst_worth(BURST_WORTH)
        .window(settings.publishing.window)
        .in_flight_max(settings.publishing.window)
        .payload_bytes_max(settings.publishing.message_bytes_max)
        .answers_within(answers_within(settings))
        .order(OrderKept::PerKey)
        .patterns()
        .delayed_release()
        .hold_max(settings.consuming.hold_max)
}

/// How long it may take until an event is answered: the first connection is made for it, a stream may be created, it is handed to
/// the client and acknowledged, and the server may be asked whether it is there and has a stream, each within the timeout.
fn answers_within(settings: &Settings) -> Duration {
    settings.link.dial_timeout() + settings.publishing.ack_timeout * 5
}

/// The stream that takes a subject.
///
/// # Errors
/// `Unavailable`, naming the subject, if there is none.
pub(super) async fn stream_of(live: &Live, subject: &str) -> Result<String> {
    find_stream(live, subject).await?.ok_or_else(|| Error::unavailable(missing(subject)))
}

/// The stream that takes a subject, if there is one.
async fn find_stream(live: &Live, subject: &str) -> Result<Option<String>> {
    match live.jetstream.stream_by_subject(subject).await {
        Ok(name) => Ok(Some(name)),
        Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Ok(None),
        Err(_) if !live.has_jetstream() => Err(Error::unavailable(NO_JETSTREAM)),
        Err(error) => Err(Error::unavailable(redact::clean(&error.to_string()))
            .during(format!("look for the stream of {subject:?}"))),
    }
}

fn missing(subject: &str) -> String {
    format!(
        "no stream takes the subject {subject:?}; create one, or let it be created with create_stream=true"
    )
}

impl NatsBroker {
    /// Sees to it once for each connection that the stream is there, if it is named or to be created.
    pub(super) async fn prepare(&self, live: &Live) -> Result<()> {
        let publishing = &self.settings.publishing;
        if !publishing.create && publishing.stream.is_none() {
            return Ok(());
        }
        let prepared = live.is_prepared.get_or_try_init(async || {
            let name = publishing.stream_name();
            let doing = |error: &dyn std::fmt::Display, advice: &str| {
                let words = redact::clean(&error.to_string());
                Error::unavailable(format!("{words}{advice}")).during(format!("look for the stream {name:?}"))
            };
            if !publishing.create {
                let found = live.jetstream.get_stream(name).await;
                let advice = "; create it, or let it be created with create_stream=true";
                return found.map(drop).map_err(|error| doing(&error, advice));
            }
            let config = Config {
                name: name.to_owned(),
                subjects: publishing.stream_subjects(),
                num_replicas: publishing.replicas,
                storage: StorageType::File,
                ..Config::default()
            };
            live.jetstream.get_or_create_stream(config).await.map(drop).map_err(|error| doing(&error, ""))
        });
        prepared.await.map(drop)
    }
}

/// A burst on its way.
struct Delivering<'a> {
    broker: &'a NatsBroker,
    live: Option<Arc<Live>>,
    burst: Vec<Parcel>,
    /// Of those that are not answered: the number under which they were sent.
    open: Vec<Option<u64>>,
    ready: VecDeque<Answer>,
    said: Option<UnboundedReceiver<(usize, Said)>>,
    sent_at: Instant,
}

impl<'a> Delivering<'a> {
    async fn begin(broker: &'a NatsBroker, burst: Vec<Parcel>) -> Self {
        let open = vec![None; burst.len()];
        let ready = VecDeque::new();
        let mut this = Self { broker, live: None, burst, open, ready, said: None, sent_at: Instant::now() };
        let live = match broker.publishing.live().await {
            Ok(live) => match broker.prepare(&live).await {
                Ok(()) => live,
                Err(error) => return this.all_lost(&error),
            },
            Err(error) => return this.all_lost(&error),
        };
        let (answers, said) = mpsc::unbounded_channel();
        this.said = Some(said);
        this.sent_at = Instant::now();
        for index in 0..this.burst.len() {
            match encode(&this.burst[index], &broker.settings.publishing, Some(live.max_payload())) {
                Ok(message) => this.open[index] = Some(live.publish(index, message, &answers).await),
                Err(error) => this.ready.push_back(Answer::failed(index, error)),
            }
        }
        this.live = Some(live);
        this
    }

    /// There is no connection, or no stream: what is wrong with an event is told all the same.
    fn all_lost(mut self, why: &Error) -> Self {
        for index in 0..self.burst.len() {
            let error = match encode(&self.burst[index], &self.broker.settings.publishing, None) {
                Ok(_) => unavailable("connection", why.to_string()),
                Err(error) => error,
            };
            self.ready.push_back(Answer::failed(index, error));
        }
        self
    }

    async fn next(mut self) -> Option<(Answer, Self)> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Some((answer, self));
            }
            if self.open.iter().all(Option::is_none) {
                return None;
            }
            let due = self.sent_at + self.broker.settings.publishing.ack_timeout;
            match timeout_at(due, self.said.as_mut()?.recv()).await {
                // Many of them on a slow connection take too long together: the rest is sent again.
                Ok(Some((index, Said::Duplicate(stream, number)))) if Instant::now() < due => {
                    let live = self.live.clone()?;
                    let parcel = &self.burst[index];
                    let said = self.broker.look_at_duplicate(&live, parcel, &stream, number).await;
                    self.answer(index, said);
                }
                Ok(Some((index, said))) => self.answer(index, said),
                Ok(None) => {
                    let why = self
                        .broker
                        .publishing
                        .away()
                        .unwrap_or_else(|| "nothing more was heard of it".to_owned());
                    self.answer_all(&Said::Lost(why));
                }
                Err(_) => self.late().await,
            }
        }
    }

    /// Acknowledgements are late: is the server there, is there a stream for each of them, and does it acknowledge others?
    async fn late(&mut self) {
        let Some(live) = self.live.clone() else { return };
        if !self.broker.publishing.try_out(&live).await {
            return self.answer_all(&Said::Lost("the server does not answer".to_owned()));
        }
        let untaken = self.untaken(&live).await;
        // A duplicate that comes so late is sent again.
        while let Ok((index, said)) = self.said.as_mut().map_or(Err(()), |said| said.try_recv().map_err(drop))
        {
            self.answer(index, said);
        }
        for index in untaken {
            if self.open[index].is_some() {
                self.answer(index, Said::Untaken);
            }
        }
        // What was acknowledged just before nothing was any more says nothing.
        let half = self.broker.settings.publishing.ack_timeout / 2;
        let is_told = live.acks.has_told_since(self.sent_at + half);
        self.answer_all(if is_told { &Said::Silent } else { &Said::Mute });
    }

    /// Those that no stream takes. The server says so at once, but not where somebody else has subscribed to their subject.
    async fn untaken(&self, live: &Live) -> Vec<usize> {
        let mut streams: HashMap<String, bool> = HashMap::new();
        let looking = async {
            for index in self.unanswered() {
                let subject = self.broker.subject_of(&self.burst[index]);
                if let Entry::Vacant(unknown) = streams.entry(subject) {
                    let is_missing = find_stream(live, unknown.key()).await?.is_none();
                    unknown.insert(is_missing);
                }
            }
            Ok::<_, Error>(())
        };
        // What could not be found out in time is as if it were there.
        let _ = timeout(self.broker.publishing.patience(), looking).await;
        let is_untaken = |index: &usize| {
            streams.get(&self.broker.subject_of(&self.burst[*index])).is_some_and(|missing| *missing)
        };
        self.unanswered().filter(is_untaken).collect()
    }

    fn unanswered(&self) -> impl Iterator<Item = usize> {
        (0..self.open.len()).filter(|index| self.open[*index].is_some())
    }

    fn answer_all(&mut self, said: &Said) {
        for index in self.unanswered().collect::<Vec<_>>() {
            self.answer(index, said.clone());
        }
    }

    fn answer(&mut self, index: usize, said: Said) {
        if let (Some(live), Some(number)) = (&self.live, self.open[index].take()) {
            live.acks.forget(std::iter::once(number));
        }
        let answer = match self.broker.verdict(&self.burst[index], said) {
            Ok(()) => Answer::delivered(index),
            Err(error) => Answer::failed(index, error),
        };
        self.ready.push_back(answer);
    }
}

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        if let Some(live) = &self.live {
            live.acks.forget(self.open.iter_mut().filter_map(Option::take));
        }
    }
}

fn unavailable(code: &str, message: String) -> DeliverError {
    DeliverError::new(DeliverKind::Unavailable, code, message)
}

impl NatsBroker {
    fn subject_of(&self, parcel: &Parcel) -> String {
        naming::subject(&self.settings.publishing.prefix, &parcel.envelope.topic)
    }

    /// What the relay is told about an event.
    fn verdict(&self, parcel: &Parcel, said: Said) -> Result<(), DeliverError> {
        let publishing = &self.settings.publishing;
        let subject = || self.subject_of(parcel);
        Err(match said {
            Said::Acked => {
                if self.untaken.is_any() {
                    self.untaken.found(&subject());
                }
                return Ok(());
            }
            Said::Duplicate(..) => unavailable("ack timeout", "the acknowledgement came late".to_owned()),
            Said::Untaken => {
                let why = format!("{} (or JetStream is off for this account)", missing(&subject()));
                self.untaken.note(&subject(), unavailable("missing stream", why))
            }
            Said::Refused(code, words) if STREAM_MESSAGE_TOO_LARGE.contains(&code) => {
                too_large(format!("the stream of {:?} does not take it: {words}", subject()))
            }
            // Only this subject is full; others of the stream are not.
            Said::Refused(_, words) if words.contains("per subject") => {
                DeliverError::new(DeliverKind::Later, "subject full", format!("{words} ({:?})", subject()))
                    .after(FULL_PAUSE)
            }
            Said::Refused(_, words) if words.contains("maximum") || words.contains("insufficient") => {
                unavailable(
                    "stream full",
                    format!(
                        "the stream of {:?} takes no more: {words}; raise its limits, or let it discard old messages",
                        subject()
                    ),
                )
            }
            Said::Refused(400, words) => DeliverError::new(DeliverKind::Rejected, "nats subject", words),
            Said::Refused(code, words) => unavailable(
                "refused",
                format!("the stream of {:?} refused it: {words} (error {code})", subject()),
            ),
            Said::Forbidden(words) => unavailable(
                "not allowed",
                format!("{words}; give the user of the URL the right to publish there"),
            ),
            Said::TooLarge(words) => too_large(words),
            // Nobody's fault, and no attempt.
            Said::Silent => DeliverError::new(
                DeliverKind::Later,
                "ack timeout",
                format!(
                    "the stream of {:?} did not acknowledge it within {:?}, though others were; look whether it has a leader, and acknowledges at all",
                    subject(),
                    publishing.ack_timeout
                ),
            )
            .after(LATER),
            Said::Mute => unavailable(
                "ack timeout",
                format!(
                    "the server answers, but has acknowledged nothing for {:?}; look at its JetStream",
                    publishing.ack_timeout
                ),
            ),
            Said::Lost(why) => unavailable("connection lost", why),
        })
    }
}
