//! What goes wrong in practice with streams: told without making or changing any.
//!
//! How often a server syncs its files (`sync_interval`) it tells nobody who may use JetStream; so of a stream on disk it is only
//! said what its acknowledgement depends on.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use futures_util::TryStreamExt as _;
use posthaste_core::findings::{Finding, Mend, asked};
use posthaste_core::{Error, Result, redact};

use super::NatsBroker;
use super::link::Live;

/// How long the look may take, with the connection that it may have to make.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// What subjects end with that begin alike.
const TAIL: &str = ">";
/// A consumer may be away over a weekend.
const AGE_MIN: Duration = Duration::from_secs(3 * 86_400);

impl NatsBroker {
    /// Everything about the streams that events are published to.
    pub(super) async fn examine_streams(&self) -> Vec<Finding> {
        asked("stream", LOOK_WITHIN, self.streams()).await
    }

    async fn streams(&self) -> Result<Vec<Finding>> {
        let (publishing, live) = (&self.settings.publishing, self.publishing.live().await?);
        let name = publishing.stream.as_deref().or(publishing.create.then(|| publishing.stream_name()));
        let (found, missing) = if let Some(name) = name {
            (named(&live, name).await?, format!("there is no stream {name:?}"))
        } else if publishing.prefix.is_empty() {
            let seen = "which stream takes an event is decided by its topic; name it (stream=NAME), and it is looked at";
            return Ok(vec![Finding::ok("stream", seen)]);
        } else {
            let subjects = [publishing.prefix.as_str(), TAIL].join(".");
            (taking(&live, &subjects).await?, format!("no stream takes the subjects {subjects:?}"))
        };
        if found.is_empty() {
            let seen = format!("{missing}, and the lane waits for it");
            return Ok(vec![Finding::failure("stream", seen, self.how_to_add())]);
        }
        Ok(found.iter().flat_map(judged).collect())
    }

    fn how_to_add(&self) -> Mend {
        let publishing = &self.settings.publishing;
        let subjects = publishing.stream_subjects();
        if subjects.is_empty() {
            return Mend::words(
                "create it with the subjects that are the topics of the lane (nats stream add)",
            );
        }
        Mend::command(format!(
            "nats stream add {} --subjects {} --storage file --replicas {} --defaults",
            quoted(publishing.stream_name()),
            quoted(&subjects.join(",")),
            publishing.replicas
        ))
    }
}

/// The stream of this name, if there is one.
async fn named(live: &Live, name: &str) -> Result<Vec<Config>> {
    match live.jetstream.get_stream(name).await {
        Ok(stream) => Ok(vec![stream.cached_info().config.clone()]),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(said) if said.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Ok(Vec::new())
            }
            _ => Err(failed(&error).during(format!("look at the stream {name:?}"))),
        },
    }
}

/// The streams that take some of these subjects.
async fn taking(live: &Live, subjects: &str) -> Result<Vec<Config>> {
    let streams: Vec<_> = live
        .jetstream
        .streams()
        .try_collect()
        .await
        .map_err(|error| failed(&error).during("list streams"))?;
    let is_meant =
        |config: &Config| config.subjects.iter().any(|subject| have_subject_in_common(subject, subjects));
    Ok(streams.into_iter().map(|info| info.config).filter(is_meant).collect())
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::unavailable(redact::clean(&error.to_string()))
}

/// Whether some subject is meant by both of these, which may have wildcards.
fn have_subject_in_common(one: &str, other: &str) -> bool {
    let (mut one, mut other) = (one.split('.'), other.split('.'));
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(TAIL), Some(_)) | (Some(_), Some(TAIL)) => return true,
            (Some(left), Some(right)) if left == right || left == "*" || right == "*" => {}
            _ => return false,
        }
    }
}

/// What is wrong with a stream, or that nothing is.
fn judged(config: &Config) -> Vec<Finding> {
    let (check, name) = (format!("stream {}", config.name), quoted(&config.name));
    let edit = |what: &str| Mend::command(format!("nats stream edit {name} {what} --force"));
    let mut found = Vec::new();
    if config.storage == StorageType::Memory {
        let mend = "a stream cannot be moved to disk: make another one (--storage file) for its subjects, and remove this";
        found.push(Finding::failure(
            &check,
            "it is in memory, and what was acknowledged is lost when the server ends",
            Mend::words(mend),
        ));
    }
    if config.no_ack {
        let seen = "it acknowledges nothing, so that no event ever counts as delivered";
        found.push(Finding::failure(&check, seen, edit("--ack")));
    }
    if config.sealed {
        let mend = "a seal cannot be broken: make another stream for its subjects";
        found.push(Finding::failure(&check, "it is sealed, and takes nothing any more", Mend::words(mend)));
    }
    if config.discard == DiscardPolicy::Old && is_limited(config) {
        let seen = "when it is full it removes its oldest messages, whether they were read or not";
        found.push(Finding::warning(&check, seen, edit("--discard new")));
    }
    if !config.max_age.is_zero() && config.max_age < AGE_MIN {
        let seen = format!("it removes messages after {:?}, whether they were read or not", config.max_age);
        found.push(Finding::warning(&check, seen, edit("--max-age 30d")));
    }
    if config.retention == RetentionPolicy::Interest {
        let seen = "what no consumer wants yet is acknowledged, and not kept (retention by interest)";
        let mend = "create every consumer before the first event; or make a stream with --retention limits";
        found.push(Finding::warning(&check, seen, Mend::words(mend)));
    }
    if found.is_empty() {
        let seen = match config.num_replicas {
            0 | 1 => "on one disk; what an acknowledgement is worth depends on sync_interval of the server",
            _ => "on the disks of several servers",
        };
        found.push(Finding::ok(check, seen));
    }
    found
}

fn is_limited(config: &Config) -> bool {
    config.max_messages > 0 || config.max_bytes > 0 || config.max_messages_per_subject > 0
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use posthaste_core::findings::Verdict;

    use super::*;

    #[test]
    fn streams_of_the_prefix_are_known_by_their_subjects() {
        for subject in ["shop.>", "shop.orders", "*.orders", ">", "shop.*.new"] {
            assert!(have_subject_in_common(subject, "shop.>"), "{subject}");
        }
        for subject in ["shop", "shops.>", "*", "other.>"] {
            assert!(!have_subject_in_common(subject, "shop.>"), "{subject}");
        }
    }

    #[test]
    fn a_stream_that_loses_events_is_told_and_one_that_does_not_is_well() {
        let well = || Config { name: "S".to_owned(), max_age: AGE_MIN, ..Config::default() };
        let table = [
            (well(), Verdict::Ok),
            (Config { storage: StorageType::Memory, ..well() }, Verdict::Failure),
            (Config { no_ack: true, ..well() }, Verdict::Failure),
            (Config { sealed: true, ..well() }, Verdict::Failure),
            (Config { max_bytes: 1, ..well() }, Verdict::Warning),
            (Config { max_bytes: 1, discard: DiscardPolicy::New, ..well() }, Verdict::Ok),
            (Config { max_age: AGE_MIN / 2, ..well() }, Verdict::Warning),
            (Config { retention: RetentionPolicy::Interest, ..well() }, Verdict::Warning),
        ];
        for (config, verdict) in table {
            let found = judged(&config);
            assert_eq!((found.len(), found[0].verdict), (1, verdict), "{found:?}");
        }
    }

    #[test]
    fn a_name_cannot_be_more_than_a_word_of_a_command() {
        assert_eq!(quoted("SHOP_1"), "SHOP_1");
        assert_eq!(quoted("a;b'c"), r"'a;b'\''c'");
    }
}
