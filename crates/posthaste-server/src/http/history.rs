//! What happened to one event: what the lanes know of it, and the commands that were about it.

use posthaste::Result;
use posthaste::admin::{CommandKind, EventState, Facts, Filter, LaneView, Page, Record};
use posthaste::review::{AuditEntry, AuditFilter, Review};
use posthaste::time::Timestamp;
use posthaste::{Error, ErrorKind};
use serde_json::Value;

use super::wire::{EventDocument, HistoryDocument};

/// How many commands since the event was taken in are looked at, the newest.
const COMMANDS_MAX: u32 = 1_000;
/// An event with its payload and its history.
///
/// # Errors
/// What the store says.
pub(crate) async fn of(store: &dyn Review, record: &Record) -> Result<EventDocument> {
    let mut filter = AuditFilter::default();
    filter.since = Some(record.created_at);
    let (commands, has_more) = match store.audited(&filter, Page::first(COMMANDS_MAX)).await {
        Ok(audited) => (audited.entries, audited.next.is_some()),
        Err(error) if keeps_none(&error) => (Vec::new(), false),
        Err(error) => return Err(error),
    };
    Ok(with_history(record, &commands, has_more))
}

/// The same, as far as the record itself knows; for a dead letter of a broker.
pub(crate) fn without_commands(record: &Record) -> EventDocument {
    with_history(record, &[], false)
}

/// A store without a record of commands.
fn keeps_none(error: &Error) -> bool {
    error.kind() == ErrorKind::Rejected
}

/// `has_more`: there were commands before these, at which nobody looked.
fn with_history(record: &Record, commands: &[AuditEntry], has_more: bool) -> EventDocument {
    let mut known = of_event(record);
    let oldest = commands.last().filter(|_| has_more);
    known.extend(oldest.map(|entry| (Some(entry.at), happened("commands before this were not looked at"))));
    known.extend(record.lanes.iter().flat_map(of_lane));
    known.extend(commands.iter().filter_map(|entry| of_command(record, entry)));
    // What nobody knows the time of is how it is now.
    known.sort_by_key(|(at, _)| at.unwrap_or(Timestamp::from_micros(i64::MAX)));
    let mut document = EventDocument::with_payload(record);
    document.history = known
        .into_iter()
        .map(|(at, what)| HistoryDocument { at: at.map(|at| at.to_string()), ..what })
        .collect();
    document
}

/// With its time apart: written out, times of different precision have no order.
type Known = (Option<Timestamp>, HistoryDocument);

fn happened(what: &str) -> HistoryDocument {
    HistoryDocument { at: None, what: what.to_owned(), lane: None, by: None, detail: None, maybe: false }
}

fn of_event(record: &Record) -> Vec<Known> {
    let resolved = |moment: Option<posthaste::time::Moment>| moment.map(|at| at.resolve(record.created_at));
    let mut known = vec![(Some(record.created_at), happened("taken in"))];
    let envelope = &record.envelope;
    for (moment, what) in [(envelope.available, "due"), (envelope.expires, "expires")] {
        known.extend(resolved(moment).map(|at| (Some(at), happened(what))));
    }
    known
}

fn of_lane(view: &LaneView) -> Vec<Known> {
    let here = |what: &str| HistoryDocument { lane: Some(view.lane.to_string()), ..happened(what) };
    let why = match (&view.code, &view.last_error) {
        (Some(code), Some(error)) => Some(format!("{code}: {error}")),
        (code, error) => code.clone().or_else(|| error.clone()),
    };
    let mut known = Vec::new();
    known.extend(view.first_failed_at.map(|at| (Some(at), here("failed first"))));
    known.extend(view.dead_at.map(|at| (Some(at), HistoryDocument { detail: why, ..here("dead") })));
    match view.state {
        EventState::Delivered => known.push((view.delivered_at, here("delivered"))),
        EventState::Discarded => known.push((None, here("discarded"))),
        EventState::Dead => {}
        _ => known.extend(view.available_at.map(|at| (Some(at), here("next try")))),
    }
    known
}

fn of_command(record: &Record, entry: &AuditEntry) -> Option<Known> {
    CommandKind::named(&entry.command).filter(|kind| kind.takes_filter)?;
    let filter: Value = serde_json::from_str(&entry.filter).ok()?;
    // What was done at a broker is not about the store.
    if filter.get("broker").is_some() || !may_mean(&filter, record) {
        return None;
    }
    let mut told = happened(&entry.command);
    told.lane = filter["lane"].as_str().map(str::to_owned);
    told.by = Some(format!("{} ({})", entry.actor.name, entry.actor.via));
    told.detail = filter["reason"].as_str().or(filter["at"].as_str()).map(str::to_owned);
    told.maybe = filter["ids"].is_null();
    Some((Some(entry.at), told))
}

/// Whether a command that was about these events was about this one, as far as that is known now. What its failures were then, nobody knows.
fn may_mean(recorded: &Value, record: &Record) -> bool {
    let fields = Filter::FIELDS
        .iter()
        .filter_map(|field| Some((field.json.to_owned(), recorded.get(field.json)?.clone())));
    let Ok(filter) = serde_json::from_value::<Filter>(Value::Object(fields.collect())) else { return false };
    filter.means(&Facts::of(&record.envelope, record.created_at))
        && filter.lane.is_none_or(|lane| record.lanes.iter().any(|view| view.lane == lane))
}

#[cfg(test)]
mod tests {
    use posthaste::admin::{Actor, Applied};
    use posthaste::envelope::Envelope;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn entry(second: i64, command: &str, filter: &Value) -> AuditEntry {
        let actor = Actor::new("eve", "rest 127.0.0.1");
        AuditEntry::new(second, at(second), actor, command, filter.to_string(), Applied::new(1, 1))
    }

    #[test]
    fn a_delivery_has_its_time_where_that_is_kept() {
        let mut record = Record::new(1, Envelope::new("order.placed", "{}"), Some(2), at(100));
        record.lanes.push(LaneView::new("main".parse().unwrap(), EventState::Delivered));
        let delivered = |record: &Record| {
            let history = with_history(record, &[], false).history;
            history.into_iter().find(|known| known.what == "delivered").expect("it was delivered").at
        };
        assert_eq!(delivered(&record), None, "a log knows only that its lane has passed it");
        record.lanes[0].delivered_at = Some(at(101));
        assert_eq!(delivered(&record), Some(at(101).to_string()));
    }

    #[test]
    fn lanes_and_commands_make_one_line_of_time() {
        let mut envelope = Envelope::new("order.placed", "{}");
        (envelope.id, envelope.key) = ("e".to_owned(), Some("k".to_owned()));
        let mut record = Record::new(1, envelope, Some(2), at(100));
        let mut view = LaneView::new("main".parse().unwrap(), EventState::Dead);
        (view.first_failed_at, view.dead_at) = (Some(at(101)), Some(at(105)));
        (view.code, view.last_error) = (Some("http 400".to_owned()), Some("no".to_owned()));
        record.lanes.push(view);
        let commands = [
            entry(104, "bury", &serde_json::json!({"lane": "main", "ids": ["e"], "reason": "wrong"})),
            entry(103, "redrive", &serde_json::json!({"lane": "main", "key": "k"})),
            entry(102, "redrive", &serde_json::json!({"lane": "main", "ids": ["other"]})),
            entry(102, "redrive", &serde_json::json!({"lane": "other"})),
            entry(102, "redrive", &serde_json::json!({"broker": "shop", "group": "main", "key": "k"})),
            entry(102, "erase", &serde_json::json!({"type": "order.seen"})),
            entry(102, "erase", &serde_json::json!({"until": at(100).to_string()})),
            entry(102, "pause", &serde_json::json!({"lane": "main"})),
        ];
        let history = with_history(&record, &commands, false).history;
        let told: Vec<_> = history.iter().map(|known| (known.what.as_str(), known.maybe)).collect();
        assert_eq!(
            told,
            [
                ("taken in", false),
                ("failed first", false),
                ("redrive", true),
                ("bury", false),
                ("dead", false)
            ]
        );
        assert_eq!(history[3].detail.as_deref(), Some("wrong"));
        assert_eq!(history[3].by.as_deref(), Some("eve (rest 127.0.0.1)"));
        assert_eq!(history[4].detail.as_deref(), Some("http 400: no"));
        let history = with_history(&record, &commands, true).history;
        let gap = history.iter().find(|known| known.what == "commands before this were not looked at");
        assert_eq!(gap.and_then(|gap| gap.at.clone()), Some(at(102).to_string()));
    }
}
