//! Topic patterns: `*` is one word, `#` any number of words, words stand between dots.

use std::fmt;
use std::str::FromStr;

use crate::as_text::json_as_text;
use crate::limits::NAME_BYTES_MAX;
use crate::{Error, Result};

/// A pattern over topics: `orders`, `stock.*`, `#`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: String,
    literal: bool,
}

impl Pattern {
    /// The pattern that matches every topic: `#`.
    pub fn all() -> Self {
        Self { text: "#".to_owned(), literal: false }
    }

    /// Whether this topic is meant.
    pub fn matches(&self, topic: &str) -> bool {
        if self.literal {
            return self.text == topic;
        }
        if self.text == "#" {
            return true;
        }
        let (pattern, words): (Vec<_>, Vec<_>) = (self.text.split('.').collect(), topic.split('.').collect());
        matches(&pattern, &words)
    }

    /// Whether there is a topic that both mean.
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, two): (Vec<_>, Vec<_>) = (self.text.split('.').collect(), other.text.split('.').collect());
        overlap(&one, &two)
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it names exactly one topic.
    pub fn is_literal(&self) -> bool {
        self.literal
    }
}

/// Walks pattern and words together; on a mismatch goes back to the last `#` and lets it take one word more. That is
/// at most the product of both lengths, whatever the pattern.
fn matches(pattern: &[&str], words: &[&str]) -> bool {
    let (mut p, mut w) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while w < words.len() {
        match pattern.get(p) {
            Some(&"#") => {
                retry = Some((p, w));
                p += 1;
            }
            Some(&word) if word == "*" || word == words[w] => {
                p += 1;
                w += 1;
            }
            _ => match retry {
                Some((hash, taken)) => {
                    retry = Some((hash, taken + 1));
                    p = hash + 1;
                    w = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&word| word == "#")
}

/// Fills a table of "the rest of one and the rest of the other can mean the same", from the ends to the beginnings, so that
/// it takes the product of both lengths, whatever the patterns.
fn overlap(one: &[&str], two: &[&str]) -> bool {
    let width = two.len() + 1;
    let mut table = vec![false; (one.len() + 1) * width];
    for a in (0..=one.len()).rev() {
        for b in (0..=two.len()).rev() {
            let rest = |a: usize, b: usize| table[a * width + b];
            table[a * width + b] = match (one.get(a), two.get(b)) {
                (None, None) => true,
                // A hash takes nothing, or a word of the other one.
                (Some(&"#"), other) => rest(a + 1, b) || (other.is_some() && rest(a, b + 1)),
                (other, Some(&"#")) => rest(a, b + 1) || (other.is_some() && rest(a + 1, b)),
                (Some(x), Some(y)) => (*x == "*" || *y == "*" || x == y) && rest(a + 1, b + 1),
                _ => false,
            };
        }
    }
    table[0]
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(Error::rejected(format!("the topic pattern must have 1 to {NAME_BYTES_MAX} bytes")));
        }
        let odd = |word: &str| word.len() > 1 && word.contains(['*', '#']);
        if text.split('.').any(odd) || text.chars().any(char::is_control) {
            return Err(Error::rejected(format!(
                "{text:?} is not a topic pattern; `*` stands for one whole word and `#` for any number of words"
            )));
        }
        Ok(Self { literal: !text.contains(['*', '#']), text: text.to_owned() })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

json_as_text!(Pattern);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_one_word_and_hashes_any_number() {
        let table = [
            ("orders", "orders", true),
            ("orders", "orders.eu", false),
            ("stock.*", "stock.eu", true),
            ("stock.*", "stock", false),
            ("stock.*", "stock.eu.north", false),
            ("#", "anything.at.all", true),
            ("stock.#", "stock", true),
            ("stock.#", "stock.eu.north", true),
            ("#.north", "stock.eu.north", true),
            ("#.north", "stock.eu.south", false),
            ("a.#.b.#.c", "a.x.b.y.z.c", true),
            ("a.#.b.#.c", "a.x.y.z.c", false),
            ("*.*", "a.b", true),
        ];
        for (pattern, topic, expected) in table {
            assert_eq!(pattern.parse::<Pattern>().unwrap().matches(topic), expected, "{pattern} on {topic}");
        }
    }

    #[test]
    fn two_patterns_overlap_when_a_topic_is_meant_by_both() {
        let table = [
            ("orders", "orders", true),
            ("orders", "stock", false),
            ("orders.*", "orders.eu", true),
            ("orders.*", "*.eu", true),
            ("orders.*", "orders", false),
            ("orders.#", "orders", true),
            ("#", "anything", true),
            ("#.eu", "orders.#", true),
            ("a.#.b", "a.c", false),
            ("a.*.c", "a.b.d", false),
            ("a.*", "a.*.*", false),
            ("#.#", "#", true),
        ];
        for (one, other, expected) in table {
            let (one, other): (Pattern, Pattern) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(one.overlaps(&other), expected, "{one} and {other}");
            assert_eq!(other.overlaps(&one), expected, "{other} and {one}");
        }
    }

    #[test]
    fn half_words_are_refused() {
        for text in ["", "a*", "a.b#", "**"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let pattern: Pattern = ["#"; 100].join(".").parse().unwrap();
        let topic = ["a"; 120].join(".");
        assert!(pattern.matches(&topic));
    }
}
