//! How operators see a row, whatever database it is in.

use posthaste_core::admin::{EventState, LaneState, LaneStats, LaneView};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::publisher::Published;
use posthaste_core::store::Then;
use posthaste_core::table::States;
pub(in crate::store) use posthaste_core::table::fits;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::row::RawRow;

/// The code of a row that an operator gave up; for everybody else it is dead.
pub(in crate::store) const DISCARDED: &str = "discarded";
/// The code of a row that an operator made dead.
pub(in crate::store) const BURIED: &str = "buried";

/// What a row says about how far it is, beside its event.
pub(in crate::store) struct Progress {
    pub(in crate::store) status: Option<String>,
    pub(in crate::store) last_error: Option<String>,
    pub(in crate::store) delivered_at: Option<Timestamp>,
    pub(in crate::store) changed_at: Option<Timestamp>,
    /// When it was looked at.
    pub(in crate::store) now: Timestamp,
}

/// The row as its lane sees it.
pub(in crate::store) fn view(lane: &LaneName, states: &States, row: &RawRow, progress: Progress) -> LaneView {
    let Progress { status, last_error, delivered_at, changed_at, now } = progress;
    let state = match status.as_deref().unwrap_or_default() {
        status if status == states.delivering.as_str() => EventState::Delivering,
        status if status == states.delivered.as_str() => EventState::Delivered,
        status if status == states.dead.as_str() => EventState::Dead,
        status if status != states.pending.as_str() => EventState::Unknown,
        _ if row.attempts > 0 => EventState::Retrying,
        _ if row.available_at.is_some_and(|at| at > now) => EventState::Scheduled,
        _ => EventState::Pending,
    };
    let mut view = LaneView::new(lane.clone(), state);
    view.attempts = u32::try_from(row.attempts.max(0)).unwrap_or(u32::MAX);
    view.available_at = row.available_at.filter(|_| state.is_pending());
    // What a relay stores begins with the code.
    match last_error.as_deref().and_then(|error| error.split_once(": ")) {
        Some((code, message)) => {
            view.code = Some(code.to_owned());
            view.last_error = Some(message.to_owned());
        }
        None => view.last_error = last_error,
    }
    if state == EventState::Dead && view.code.as_deref() == Some(DISCARDED) {
        view.state = EventState::Discarded;
    }
    view.dead_at = changed_at.filter(|_| view.state == EventState::Dead);
    view.delivered_at = delivered_at.or(changed_at).filter(|_| view.state == EventState::Delivered);
    view
}

/// Where a page ends: the time of its last row, and what tells that from others of the same time.
pub(in crate::store) fn page_end(row: &RawRow) -> String {
    let tie = row.sequence.map_or_else(|| row.id.clone(), |sequence| sequence.to_string());
    format!("{}:{tie}", row.created_at.as_micros())
}

/// What a row that is there already says about the event that is published again.
///
/// # Errors
/// `Conflict` if it is another event.
pub(in crate::store) fn published_before(there: Option<RawRow>, event: &Envelope) -> Result<Published> {
    if there.is_some_and(|row| is_same(row, event)) {
        return Ok(Published::Before);
    }
    Err(Error::conflict(format!("the event {} exists with other contents", event.id)))
}

fn is_same(row: RawRow, event: &Envelope) -> bool {
    let there = row.envelope_or_empty();
    (&there.event_type, &there.topic, &there.key, &there.subject)
        == (&event.event_type, &event.topic, &event.key, &event.subject)
        && (there.version, &there.content_type, &there.headers, &there.payload)
            == (event.version, &event.content_type, &event.headers, &event.payload)
}

/// Says how many rows are in a state that the profile does not name.
///
/// They are left alone: what such a word means only the owner of the table knows, and a relay that wrote another one over it
/// would destroy that. Nor does a relay look for them, as it would have to read the whole table.
pub(in crate::store) fn tell_unknown(stats: &mut LaneStats, rows: u64, is_estimate: bool) {
    if rows > 0 {
        let about = if is_estimate { "about " } else { "" };
        let many = if rows == 1 { format!("{about}1 row is") } else { format!("{about}{rows} rows are") };
        stats.reason = Some(format!(
            "{many} in a state that the profile does not name, and left alone; store.states names the states"
        ));
    }
}

/// Says that some of a long table's rows were not counted, and what to do about it.
pub(in crate::store) fn tell_unindexed(stats: &mut LaneStats) {
    let why = "no index finds what is pending, delivering or dead, so that not all of it is counted; posthaste migrate print \
               --profile NAME shows the indexes";
    stats.reason = Some(match stats.reason.take() {
        Some(reason) => format!("{reason}; {why}"),
        None => why.to_owned(),
    });
}

/// How a lane of this process is, as far as its relay has said.
#[derive(Default)]
pub(in crate::store) struct Said {
    /// The target is away, and why.
    pub(in crate::store) away: Option<String>,
    /// The address is gone, and why.
    pub(in crate::store) retired: Option<String>,
}

impl Said {
    /// Puts it into the lane's totals.
    pub(in crate::store) fn tell(&self, stats: &mut LaneStats) {
        let said = [(&self.retired, LaneState::Retired), (&self.away, LaneState::Unavailable)];
        if let Some((reason, state)) = said.into_iter().find(|(reason, _)| reason.is_some()) {
            (stats.state, stats.reason) = (state, reason.clone());
        }
    }

    /// Takes in what a settle says.
    pub(in crate::store) fn hear(&mut self, then: &Then) {
        match then {
            Then::Report(away) => self.away = away.clone(),
            Then::Retire(reason) => self.retired = Some(reason.clone()),
            _ => {}
        }
    }
}

/// Reads the end of a page.
///
/// # Errors
/// `Rejected` for what is none.
pub(in crate::store) fn page_place(text: &str) -> Result<(Timestamp, String)> {
    let none = || Error::rejected("this is not the end of a page; begin with the first");
    let (micros, id) = text.split_once(':').ok_or_else(none)?;
    Ok((Timestamp::from_micros(micros.parse().map_err(|_| none())?), id.to_owned()))
}
