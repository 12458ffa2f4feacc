//! Redis as a target: every burst is one pipeline of `XADD`, answered command by command.
//!
//! The probe is a write that does nothing: `XADD … NOMKSTREAM` on a stream that does not exist. A full
//! server, a replica and a server that cannot write its disk refuse it as they refuse events, while `PING`
//! would say that all is well.

use futures_util::{StreamExt as _, stream};
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, OrderKept, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use redis::{Cmd, Pipeline, Value};

use super::RedisBroker;
use super::link::refused;
use super::settings::Settings;
use super::wire::encode;
use crate::broker::fits::fits;

/// Events in one pipeline: more are no faster, and their answers come later.
const BURST_MAX: u32 = 250;
/// The stream that a probe would write to if it were there, which it never is.
const PROBE: &str = "posthaste:probe";

impl Target for RedisBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        Box::pin(stream::once(self.add(burst)).flat_map(stream::iter))
    }

    fn fits(&self, event: &Envelope) -> Result<()> {
        let limit = self.settings.publishing.message_bytes_max;
        fits(event, limit, |parcel| encode(parcel, &self.settings).map(drop))
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.probe())
    }

    fn examine(&self) -> BoxFuture<'_, Vec<Finding>> {
        Box::pin(self.examine_server())
    }
}

/// What Redis can do with these settings.
pub(super) fn capabilities(settings: &Settings) -> Capabilities {
    // It is connected, and answers; and before that, somebody else's connection may have been waited for.
    let answers_within = settings.link.connect_timeout + 2 * settings.link.answer_timeout;
    let capabilities = Capabilities::sink()
        .burst_max(BURST_MAX)
        .window(settings.publishing.window)
        .in_flight_max(settings.publishing.window)
        .payload_bytes_max(settings.publishing.message_bytes_max)
        .answers_within(answers_within)
        .order(OrderKept::PerKey)
        .delayed_release()
        .hold_max(settings.consuming.hold_max);
    // Redis cannot read streams by a pattern; in one stream for all, each entry says its topic.
    if settings.stream.is_some() { capabilities.patterns() } else { capabilities }
}

impl RedisBroker {
    /// Adds these to their streams, and says of each what became of it.
    async fn add(&self, burst: Vec<Parcel>) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(burst.len());
        let (mut sent, mut questions) =
            (Vec::with_capacity(burst.len()), Pipeline::with_capacity(burst.len() + 1));
        for (index, parcel) in burst.iter().enumerate() {
            match encode(parcel, &self.settings) {
                Ok(command) => {
                    sent.push(index);
                    questions.add_command(command);
                }
                Err(error) => answers.push(Answer::failed(index, error)),
            }
        }
        if sent.is_empty() {
            return answers;
        }
        if let Some(wait) = self.wait_for_replicas() {
            questions.add_command(wait);
        }
        match self.publishing.ask(&questions).await {
            Ok(said) => {
                let shortage = self.shortage(said.get(sent.len()));
                answers.extend(sent.into_iter().zip(said).map(|(index, said)| {
                    let verdict = verdict(&said).and_then(|()| shortage.clone().map_or(Ok(()), Err));
                    verdict.map_or_else(|error| Answer::failed(index, error), |()| Answer::delivered(index))
                }));
            }
            Err(error) => {
                let lost = DeliverError::new(DeliverKind::Unavailable, "connection lost", error.to_string());
                answers.extend(sent.into_iter().map(|index| Answer::failed(index, lost.clone())));
            }
        }
        answers
    }

    fn wait_for_replicas(&self) -> Option<Cmd> {
        let replicas = self.settings.publishing.replicas;
        let patience = self.settings.link.answer_timeout / 2;
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1));
        (replicas > 0).then_some(wait)
    }

    /// Whether fewer replicas than wanted have what was added, by the answer to the last command.
    fn shortage(&self, said: Option<&Value>) -> Option<DeliverError> {
        let wanted = i64::from(self.settings.publishing.replicas);
        let there = match said {
            Some(Value::Int(there)) => *there,
            _ => 0,
        };
        (there < wanted).then(|| {
            let what = format!("{there} of {wanted} replicas have what was added (replicas)");
            DeliverError::new(DeliverKind::Unavailable, "replicas", what)
        })
    }

    /// Whether the server would take events: a command that may write, and does not, is refused as any other. The replicas that are
    /// wanted must have all that was added before: events that are added while one is away are not delivered by that, and would be
    /// added again and again.
    async fn probe(&self) -> Result<()> {
        let stream = [self.settings.prefix.as_str(), PROBE].concat();
        let mut question = redis::cmd("XADD");
        question.arg(stream).arg("NOMKSTREAM").arg("*").arg("probe").arg(1);
        let mut questions = Pipeline::with_capacity(2);
        questions.add_command(question);
        if let Some(wait) = self.wait_for_replicas() {
            questions.add_command(wait);
        }
        let said = self.publishing.ask(&questions).await?;
        match said.first() {
            // What is only about this key says nothing about others.
            Some(Value::ServerError(error)) if !refused(error).is_about_key => {
                Err(refused(error).into_error())
            }
            Some(_) => {
                self.shortage(said.get(1)).map_or(Ok(()), |short| Err(Error::unavailable(short.message)))
            }
            None => Err(Error::unavailable("Redis gave no answer")),
        }
    }
}

fn verdict(said: &Value) -> Result<(), DeliverError> {
    match said {
        Value::ServerError(error) => Err(refused(error).into_deliver_error()),
        Value::BulkString(_) | Value::SimpleString(_) => Ok(()),
        _ => Err(DeliverError::new(
            DeliverKind::Unavailable,
            "no id",
            "the server did not answer with the id of an entry; is it a Redis?",
        )),
    }
}
