//! Subjects, and what a group's consumers are called.
//!
//! A group has one durable consumer for each of its topics (or patterns), as it has a queue for each in other brokers: a topic
//! that is added leaves the others as they are. Two patterns of one group must not mean the same topic.
//!
//! ```text
//!  <prefix>.<topic>                        events, in a stream of the operator's, or one that we create
//!  _posthaste.dead.<group>.<topic>         a group's dead letters
//!  _posthaste.again.<group>.<topic>        what was dead and is handled again, by this group alone
//!  _posthaste.notes.<group>.<topic>.…      what is known of an event that failed or may kill its consumers
//! ```

use posthaste_core::pattern::Pattern;
use posthaste_core::{Error, Result};

use crate::broker::topics;

/// The longest name of a stream or consumer.
const NAME_BYTES_MAX: usize = 200;
/// What all subjects of ours begin with.
const OWN: &str = "_posthaste";

/// The names for one topic of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) topic: Pattern,
    /// Of the durable consumer, in the stream of the events and in the one for what is handled again.
    pub(super) consumer: String,
    /// The subjects it reads; they may be more than are meant.
    pub(super) filters: Vec<String>,
    pub(super) dead: String,
    pub(super) again: String,
    /// Before the number of an event.
    pub(super) notes: String,
}

/// The names for all topics of a group, each once.
///
/// # Errors
/// `Config` when topics overlap or a name is too long.
pub(super) fn of_all(prefix: &str, group: &str, topics: &[Pattern]) -> Result<Vec<Names>> {
    topics::each_once(group, topics)?.into_iter().map(|topic| of(prefix, group, topic)).collect()
}

fn of(prefix: &str, group: &str, topic: &Pattern) -> Result<Names> {
    let (group_token, topic_token) = (token(group), token(topic.as_str()));
    let consumer = format!("{group_token}~{topic_token}");
    if consumer.len() > NAME_BYTES_MAX {
        return Err(Error::config(format!(
            "the consumer of the group {group:?} for {topic} would have a name of {} bytes, and {NAME_BYTES_MAX} is the limit; choose a shorter group",
            consumer.len()
        )));
    }
    let own = |kind: &str| format!("{OWN}.{kind}.{group_token}.{topic_token}");
    Ok(Names {
        topic: topic.clone(),
        consumer,
        filters: filters(prefix, topic),
        dead: own("dead"),
        again: own("again"),
        notes: own("notes"),
    })
}

/// All subjects of this kind of ours.
pub(super) fn all_own(kind: &str) -> String {
    format!("{OWN}.{kind}.>")
}

/// The subjects of all dead letters of a group.
pub(super) fn all_dead(group: &str) -> String {
    format!("{OWN}.dead.{}.*", token(group))
}

/// Where a dead letter with this subject is handled again.
pub(super) fn again_of(dead: &str) -> Option<String> {
    let rest = dead.strip_prefix(OWN)?.strip_prefix(".dead.")?;
    Some(format!("{OWN}.again.{rest}"))
}

/// The subject of a topic.
pub(super) fn subject(prefix: &str, topic: &str) -> String {
    if prefix.is_empty() { topic.to_owned() } else { format!("{prefix}.{topic}") }
}

/// The topic of a subject.
pub(super) fn topic<'s>(prefix: &str, subject: &'s str) -> &'s str {
    let rest = subject.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
    rest.filter(|_| !prefix.is_empty()).unwrap_or(subject)
}

/// What a consumer must read to get what a pattern means: `#` also stands for no word, `>` never does, and stands at the end.
fn filters(prefix: &str, pattern: &Pattern) -> Vec<String> {
    let words: Vec<&str> = pattern.as_str().split('.').collect();
    let Some(hash) = words.iter().position(|word| *word == "#") else {
        return vec![subject(prefix, pattern.as_str())];
    };
    let head = words[..hash].join(".");
    let head = match (prefix.is_empty(), head.is_empty()) {
        (true, true) => return vec![">".to_owned()],
        (false, true) => return vec![format!("{prefix}.>")],
        _ => subject(prefix, &head),
    };
    let below = format!("{head}.>");
    // Whatever follows the hash is looked at when the event is there.
    if hash + 1 == words.len() { vec![head, below] } else { vec![below] }
}

/// A text as one word of a subject and as a part of a name, readable, and no two alike.
fn token(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => token.push(character),
            '.' => token.push('+'),
            '*' => token.push('@'),
            '#' => token.push_str("@@"),
            _ => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    token.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    token
}

/// Whether a text can be a subject that events are published to; the error says what is wrong.
pub(super) fn check_subject(subject: &str) -> std::result::Result<(), String> {
    if subject.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err("a subject has no spaces".to_owned());
    }
    if let Some(word) = subject.split('.').find(|word| word.is_empty() || word.contains(['*', '>'])) {
        let what = if word.is_empty() { "an empty word between dots" } else { "a wildcard" };
        return Err(format!("it has {what}"));
    }
    if subject.starts_with('$') || subject.starts_with("_INBOX.") || subject.starts_with("_posthaste.") {
        return Err("subjects that begin so are for the server's and our own use".to_owned());
    }
    Ok(())
}

/// Whether a text can be the name of a stream.
pub(super) fn check_stream(name: &str) -> Result<()> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(odd) {
        return Err(Error::config(format!(
            "{name:?} is no name for a stream: 1 to {NAME_BYTES_MAX} bytes without spaces, dots, slashes, * and >"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_becomes_subjects_that_cover_it() {
        for (prefix, text, expected) in [
            ("", "orders", &["orders"][..]),
            ("shop", "orders.*", &["shop.orders.*"]),
            ("", "#", &[">"]),
            ("shop", "#", &["shop.>"]),
            ("shop", "orders.#", &["shop.orders", "shop.orders.>"]),
            ("", "a.#.b", &["a.>"]),
        ] {
            assert_eq!(filters(prefix, &pattern(text)), expected, "{prefix} {text}");
        }
    }

    #[test]
    fn names_are_told_apart() {
        let texts = ["a.b", "a+b", "a-b", "a_b", "a*b", "a@b", "a#b", "a%2Eb", "ä", "a~b"];
        let tokens: std::collections::BTreeSet<String> = texts.iter().map(|text| token(text)).collect();
        assert_eq!(tokens.len(), texts.len(), "{tokens:?}");
        assert!(tokens.iter().all(|token| !token.contains(['.', '*', '>', ' ', '/'])), "{tokens:?}");
        let names = of("", "billing", &pattern("orders.*")).unwrap();
        assert_eq!(
            (names.consumer.as_str(), names.dead.as_str()),
            ("billing~orders+@", "_posthaste.dead.billing.orders+@")
        );
        assert_eq!(again_of(&names.dead), Some(names.again));
        assert!(of("", &"g".repeat(250), &pattern("t")).is_err());
        assert!(of_all("", "g", &[pattern("a.*"), pattern("a.b")]).is_err());
    }

    #[test]
    fn what_is_no_subject_is_refused() {
        for subject in [
            "",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a.*",
            "a.>",
            "a\tb",
            "$JS.API.INFO",
            "_INBOX.x",
            "_posthaste.dead.x",
        ] {
            assert!(check_subject(subject).is_err(), "{subject:?}");
        }
        for subject in ["a", "orders.placed", "a-b_c.ü", "_x"] {
            assert!(check_subject(subject).is_ok(), "{subject:?}");
        }
        assert_eq!(
            (topic("shop", "shop.a.b"), topic("", "a.b"), topic("shop", "shopping")),
            ("a.b", "a.b", "shopping")
        );
    }
}
