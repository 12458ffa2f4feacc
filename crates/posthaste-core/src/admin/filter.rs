//! Which events an operator means.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::field::{Field, FieldKind};
use super::{EventState, LaneView};
use crate::as_text::as_fields;
use crate::envelope::Envelope;
use crate::lane::LaneName;
use crate::pattern::Pattern;
use crate::time::Timestamp;

/// Which events; every field that is set must match. The empty filter matches all.
///
/// As JSON it is an object with the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Filter {
    /// As this lane sees them. Without a lane, [`state`](Filter::state) and [`code`](Filter::code) match in
    /// any lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// In this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<EventState>,
    /// With one of these ids; empty: any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Of this type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// With a topic that matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<Pattern>,
    /// With this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Taken in at or after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Taken in before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Failed with this code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Failed with this text somewhere in what the failure said; ASCII letters match in either case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a filter asks about an event, apart from how lanes see it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its id; `None` where the ids decided which events are looked at.
    pub id: Option<&'a str>,
    /// Its type.
    pub event_type: &'a str,
    /// Its topic.
    pub topic: &'a str,
    /// Its key.
    pub key: Option<&'a str>,
    /// When it was taken in.
    pub created_at: Timestamp,
}

impl<'a> Facts<'a> {
    /// The facts of an event that was taken in then.
    pub fn of(envelope: &'a Envelope, created_at: Timestamp) -> Self {
        Self {
            id: Some(&envelope.id),
            event_type: &envelope.event_type,
            topic: &envelope.topic,
            key: envelope.key.as_deref(),
            created_at,
        }
    }
}

impl Filter {
    /// Every field, in the order in which a help text lists them.
    pub const FIELDS: [Field; 10] = [
        Field::optional("lane", FieldKind::Lane, "As this lane sees them"),
        Field::optional("state", FieldKind::State, "In this state"),
        Field::optional("id", FieldKind::Ids, "With this id; may be given several times").in_json("ids"),
        Field::optional("type", text("TYPE"), "Of this type"),
        Field::optional("topic", FieldKind::Pattern, "With a topic that matches, like orders or stock.*"),
        Field::optional("key", text("KEY"), "With this key"),
        Field::optional("since", FieldKind::Time, "Taken in at or after"),
        Field::optional("until", FieldKind::Time, "Taken in before"),
        Field::optional("code", text("CODE"), "Failed with this code, like timeout"),
        Field::optional(
            "error",
            FieldKind::Part { bytes_max: 255 },
            "Failed with this text in what the failure said",
        ),
    ];

    /// The fields that are set, by their names in JSON.
    pub fn given(&self) -> Map<String, Value> {
        as_fields(self)
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it means an event with these facts, without asking a lane.
    pub fn means(&self, event: &Facts<'_>) -> bool {
        event.id.is_none_or(|id| self.ids.is_empty() || self.ids.iter().any(|wanted| wanted == id))
            && self.event_type.as_ref().is_none_or(|wanted| wanted == event.event_type)
            && self.topic.as_ref().is_none_or(|pattern| pattern.matches(event.topic))
            && self.key.as_ref().is_none_or(|wanted| event.key == Some(wanted))
            && self.since.is_none_or(|since| event.created_at >= since)
            && self.until.is_none_or(|until| event.created_at < until)
    }

    /// Whether it asks how a lane sees an event.
    pub fn asks_a_lane(&self) -> bool {
        self.lane.is_some() || self.state.is_some() || self.asks_a_failure()
    }

    /// Whether it asks why an event failed; then only what is parked can match.
    pub fn asks_a_failure(&self) -> bool {
        self.code.is_some() || self.error.is_some()
    }

    /// Whether a view is in the state that is asked for, and failed as is asked for. Pending is also all
    /// its kinds.
    pub fn fits(&self, view: &LaneView) -> bool {
        let is_in = |wanted: EventState| {
            wanted == view.state || (wanted == EventState::Pending && view.state.is_pending())
        };
        self.state.is_none_or(is_in) && self.fits_failure(view.code.as_deref(), view.last_error.as_deref())
    }

    /// Whether a failure has the code and says the text that are asked for.
    pub fn fits_failure(&self, code: Option<&str>, error: Option<&str>) -> bool {
        let says = |text: &String| {
            error.is_some_and(|error| error.to_ascii_lowercase().contains(&text.to_ascii_lowercase()))
        };
        self.code.as_ref().is_none_or(|wanted| code == Some(wanted)) && self.error.as_ref().is_none_or(says)
    }
}

const fn text(placeholder: &'static str) -> FieldKind {
    FieldKind::Text { placeholder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Filter {
        Filter {
            lane: Some("main".parse().unwrap()),
            state: Some(EventState::Dead),
            ids: vec!["1".to_owned(), "2".to_owned()],
            event_type: Some("order.paid".to_owned()),
            topic: Some("order.*".parse().unwrap()),
            key: Some("k".to_owned()),
            since: Some("2026-11-15T21:52:03.25Z".parse().unwrap()),
            until: Some("2026-11-16T00:00:00Z".parse().unwrap()),
            code: Some("timeout".to_owned()),
            error: Some("no answer".to_owned()),
        }
    }

    #[test]
    fn json_of_a_filter_has_the_fields_that_are_set_and_reads_back() {
        assert_eq!(serde_json::to_string(&Filter::default()).unwrap(), "{}");
        let json = serde_json::to_value(full()).unwrap();
        assert_eq!(json["since"], "2026-11-15T21:52:03.25Z");
        assert_eq!(
            (&json["ids"][1], &json["state"], &json["lane"]),
            (&"2".into(), &"dead".into(), &"main".into())
        );
        assert_eq!(serde_json::from_value::<Filter>(json).unwrap(), full());
        for wrong in [r#"{"lane":"a b"}"#, r#"{"state":"gone"}"#, r#"{"topic":""}"#, r#"{"nonsense":1}"#] {
            assert!(serde_json::from_str::<Filter>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_field_is_in_the_table() {
        let mut names = Filter::FIELDS.map(|field| field.json);
        names.sort_unstable();
        let given = full().given();
        assert_eq!(given.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        assert!(!full().is_empty() && Filter::default().is_empty());
    }
}
