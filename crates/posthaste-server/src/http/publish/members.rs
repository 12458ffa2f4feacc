//! The members of one JSON object, taken one after the other; what is left over is unknown. Mistakes are collected, so
//! that a caller reads all of them at once.

use std::collections::BTreeMap;
use std::fmt;

use posthaste::time::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::http::problem::{Kind, Problem};

/// How many members one object may have; far more than an event with all its headers as extensions needs.
const MEMBERS_MAX: usize = 256;

/// The members of a JSON object that have not been taken yet, with the text of their values as it was sent.
#[derive(Debug)]
pub(super) struct Members<'a> {
    left: Vec<(String, &'a RawValue)>,
    mistakes: Vec<String>,
}

impl<'a> Members<'a> {
    /// Reads one object.
    pub(super) fn read(json: &'a RawValue) -> Result<Self, Problem> {
        if !json.get().starts_with('{') {
            return Err(Problem::new(Kind::Invalid, "an event is a JSON object; send {\"type\": …}"));
        }
        serde_json::from_str(json.get()).map_err(|error| {
            Problem::new(Kind::Invalid, format!("the event's members cannot be read: {error}"))
        })
    }

    /// Takes a member's text. `null` counts: only `data` may be null and mean it.
    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.left.iter().position(|(left, _)| left == name)?;
        Some(self.left.swap_remove(at).1)
    }

    /// Takes a member that is a string; `null` is the same as absent.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.typed(name, "a string")
    }

    /// Takes a string that must be there.
    pub(super) fn needed(&mut self, name: &str) -> String {
        let before = self.mistakes.len();
        let text = self.text(name);
        if text.is_none() && self.mistakes.len() == before {
            self.mistake(format!("{name} is missing; every event needs one"));
        }
        text.unwrap_or_default()
    }

    /// Takes a member that is a time.
    pub(super) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.text(name)?;
        text.parse().map_err(|error| self.mistake(format!("{name}: {error}"))).ok()
    }

    /// Takes a member that is a whole number above zero.
    pub(super) fn version(&mut self, name: &str) -> Option<u32> {
        self.typed::<std::num::NonZeroU32>(name, "a whole number from 1 to 4294967295").map(u32::from)
    }

    /// Takes a member that is an object of strings.
    pub(super) fn strings(&mut self, name: &str) -> BTreeMap<String, String> {
        let Pairs(pairs) = self.typed(name, "an object whose values are strings").unwrap_or_default();
        let mut strings = BTreeMap::new();
        for (key, value) in pairs {
            // Which of two was meant is not ours to guess.
            if let Some(first) = strings.insert(key.clone(), value) {
                self.mistake(format!("{name} has {key:?} twice"));
                strings.insert(key, first);
            }
        }
        strings
    }

    /// Takes everything that is left.
    pub(super) fn rest(&mut self) -> Vec<(String, &'a RawValue)> {
        let mut rest = std::mem::take(&mut self.left);
        rest.sort_by(|(a, _), (b, _)| a.cmp(b));
        rest
    }

    /// Notes a mistake.
    pub(super) fn mistake(&mut self, mistake: impl Into<String>) {
        self.mistakes.push(mistake.into());
    }

    /// Ends the reading: members that are left and everything noted make one problem.
    pub(super) fn end(mut self) -> Result<(), Problem> {
        let unknown: Vec<String> = self.rest().into_iter().map(|(name, _)| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            self.mistakes.push(format!(
                "unknown members: {}; put what is yours into data or headers",
                unknown.join(", ")
            ));
        }
        if self.mistakes.is_empty() {
            return Ok(());
        }
        Err(Problem::new(Kind::Invalid, self.mistakes.join("; ")))
    }

    fn typed<T: Deserialize<'a>>(&mut self, name: &str, what: &str) -> Option<T> {
        let value = self.take(name)?;
        match serde_json::from_str::<Option<T>>(value.get()) {
            Ok(value) => value,
            Err(_) => {
                self.mistake(format!("{name} must be {what}"));
                None
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members { left: Vec::new(), mistakes: Vec::new() };
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            if members.left.len() == MEMBERS_MAX {
                return Err(serde::de::Error::custom(format!("more than {MEMBERS_MAX} members")));
            }
            if members.left.iter().any(|(known, _)| *known == name) {
                members.mistake(format!("{name:?} is there twice"));
            } else {
                members.left.push((name, value));
            }
        }
        Ok(members)
    }
}

/// The members of an object of strings, as they were sent: a map would keep one of two with the same name.
#[derive(Default)]
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
