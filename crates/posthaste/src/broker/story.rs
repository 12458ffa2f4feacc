//! What is written on a message when it is set aside or buried: how often it failed, since when, and why it is dead.
//!
//! Every broker writes the same names with the same values, in headers or fields of its own kind.

use posthaste_core::broker::{Count, Reason};
use posthaste_core::time::{Clock as _, SystemClock, Timestamp};

/// What the names of everything that we write on messages begin with.
pub(crate) const OURS: &str = "posthaste-";
/// How many attempts have failed.
pub(crate) const ATTEMPTS: &str = "posthaste-attempts";
const FIRST_FAILED_AT: &str = "posthaste-first-failed-at";
/// Why it is dead, since when, and from whose queue.
const CODE: &str = "posthaste-code";
const ERROR: &str = "posthaste-error";
const DEAD_AT: &str = "posthaste-dead-at";
const QUEUE: &str = "posthaste-queue";
/// It was dead and was sent again.
pub(crate) const REDRIVEN: &str = "posthaste-redriven";

/// The most of an error's text that a dead message carries.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// What has happened to a message in its group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    /// How many attempts have failed.
    pub(crate) attempts: u32,
    pub(crate) first_failed_at: Option<Timestamp>,
    /// It was dead and was sent again.
    pub(crate) redriven: bool,
    pub(crate) dead: Option<Dead>,
}

/// Why a message is dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) reason: Reason,
    pub(crate) at: Option<Timestamp>,
    /// Whose queue it comes from, and where a redrive brings it.
    pub(crate) queue: Option<String>,
}

impl Story {
    /// Reads what is on a message; `text` answers what stands under a name.
    pub(crate) fn read(text: impl Fn(&str) -> Option<String>) -> Self {
        let attempts = text(ATTEMPTS).and_then(|text| text.parse::<u64>().ok());
        Self {
            attempts: attempts.map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)),
            first_failed_at: text(FIRST_FAILED_AT).and_then(|time| time.parse().ok()),
            redriven: text(REDRIVEN).is_some(),
            dead: text(CODE).map(|code| Dead {
                reason: Reason::new(code, text(ERROR).unwrap_or_default()),
                at: text(DEAD_AT).and_then(|time| time.parse().ok()),
                queue: text(QUEUE),
            }),
        }
    }

    /// What is to be written on a message.
    pub(crate) fn entries(&self) -> Vec<(&'static str, String)> {
        let mut entries = vec![(ATTEMPTS, self.attempts.to_string())];
        entries.extend(self.first_failed_at.map(|at| (FIRST_FAILED_AT, at.to_string())));
        if self.redriven {
            entries.push((REDRIVEN, true.to_string()));
        }
        if let Some(dead) = &self.dead {
            entries.push((CODE, dead.reason.code.clone()));
            entries.push((ERROR, cut(&dead.reason.message).to_owned()));
            entries.extend(dead.at.map(|at| (DEAD_AT, at.to_string())));
            entries.extend(dead.queue.clone().map(|queue| (QUEUE, queue)));
        }
        entries
    }

    /// It was tried once more, or not: so often has it failed by now.
    pub(crate) fn failed(&mut self, delivery: u32, count: Count) {
        self.attempts = delivery.saturating_sub(u32::from(count == Count::Nothing));
        if count == Count::Attempt {
            self.first_failed_at.get_or_insert_with(|| SystemClock.now());
        }
    }

    /// It is dead, and this queue had it.
    pub(crate) fn died(&mut self, queue: &str, reason: Reason) {
        let now = SystemClock.now();
        self.attempts = reason.attempts.unwrap_or(self.attempts);
        self.first_failed_at.get_or_insert(now.before(reason.held.unwrap_or_default()));
        let reason = Reason::new(reason.code, reason.message);
        self.dead = Some(Dead { reason, at: Some(now), queue: Some(queue.to_owned()) });
    }

    /// Of a message that is to be tried again as if it had never failed.
    pub(crate) fn anew() -> Self {
        Self { redriven: true, ..Self::default() }
    }
}

fn cut(text: &str) -> &str {
    cut_to(text, ERROR_BYTES_MAX)
}

/// So many bytes of an error's text, and no more than a dead message carries.
pub(crate) fn cut_to(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max).min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_read_as_it_was_written() {
        let mut story = Story::default();
        story.failed(3, Count::Attempt);
        story.died("g.orders", Reason::new("smell", "it smells").tried(4, None));
        assert_eq!(story.attempts, 4, "the consumer knows best");
        let entries = story.entries();
        let text =
            |name: &str| entries.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone());
        assert_eq!(Story::read(text), story);
        assert_eq!(Story::read(|_| None), Story::default());
    }

    #[test]
    fn attempts_are_those_that_failed() {
        let mut story = Story::default();
        story.failed(1, Count::Nothing);
        assert_eq!((story.attempts, story.first_failed_at), (0, None));
        story.failed(1, Count::Attempt);
        assert_eq!(story.attempts, 1);
        let first = story.first_failed_at;
        story.failed(2, Count::Attempt);
        assert_eq!((story.attempts, story.first_failed_at), (2, first), "the first failure stays the first");
        let again = Story::anew();
        assert_eq!(
            (again.attempts, again.first_failed_at, again.dead, again.redriven),
            (0, None, None, true)
        );
    }

    #[test]
    fn a_long_error_is_cut_at_a_character() {
        assert_eq!(cut(&"ü".repeat(4_000)).len(), ERROR_BYTES_MAX);
        assert_eq!(cut("short"), "short");
    }
}
