//! A dead letter of a broker as an operator sees it, and the question whether it is meant.

use posthaste_core::admin::{EventState, Filter, Found, LaneView, Page, Record};
use posthaste_core::envelope::Envelope;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::story::{Dead, Story};

/// Messages of one queue that a look takes at most.
pub(crate) const LOOK_MAX: u32 = 10_000;
/// Bytes of one queue that a look takes at most.
pub(crate) const LOOK_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The most records of a page.
pub(crate) const PAGE_MAX: u32 = 1_000;

/// What to do with a dead letter.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Keep,
    Redrive,
    Discard,
}

impl Fate {
    /// What a command means for each dead letter that it is about.
    pub(crate) fn of(redrive: bool, dry_run: bool) -> Self {
        match (dry_run, redrive) {
            (true, _) => Self::Keep,
            (false, true) => Self::Redrive,
            (false, false) => Self::Discard,
        }
    }
}

/// The record of a dead letter of the filter's group, which is so large, was published then, and has this story.
///
/// # Errors
/// `Rejected` if the filter names no group.
pub(crate) fn record(
    filter: &Filter,
    envelope: Envelope,
    bytes: u64,
    published_at: Timestamp,
    story: &Story,
) -> Result<Record> {
    let group = filter.lane.clone().ok_or_else(|| Error::rejected("name the group"))?;
    let mut view = LaneView::new(group, EventState::Dead);
    view.attempts = story.attempts;
    view.first_failed_at = story.first_failed_at;
    match &story.dead {
        Some(Dead { reason, at, .. }) => {
            view.code = Some(reason.code.clone());
            view.last_error = Some(reason.message.clone());
            view.dead_at = *at;
        }
        // The broker itself put it here: it expired, or was rejected by somebody else.
        None => view.code = Some("by the broker".to_owned()),
    }
    let mut record = Record::new(0, envelope, Some(bytes), view.dead_at.unwrap_or(published_at));
    record.lanes.push(view);
    Ok(record)
}

/// Whether a dead letter is meant.
pub(crate) fn is_meant(filter: &Filter, record: &Record) -> bool {
    let (event, at) = (&record.envelope, record.created_at);
    (filter.ids.is_empty() || filter.ids.contains(&event.id))
        && filter.event_type.as_ref().is_none_or(|wanted| *wanted == event.event_type)
        && filter.topic.as_ref().is_none_or(|wanted| wanted.matches(&event.topic))
        && filter.key.as_ref().is_none_or(|wanted| event.key.as_ref() == Some(wanted))
        && filter.since.is_none_or(|since| at >= since)
        && filter.until.is_none_or(|until| at < until)
        && record.lanes.first().is_some_and(|view| filter.fits(view))
}

/// One page of these, the newest first; the token of the next page counts what was shown.
///
/// # Errors
/// `Rejected` for a token that is none of ours.
pub(crate) fn page(mut records: Vec<Record>, page: &Page) -> Result<Found> {
    let skip = page.after.as_deref().map_or(Ok(0), str::parse::<usize>);
    let skip = skip.map_err(|_| Error::rejected("the page token is not one of this broker"))?;
    records.sort_by_key(|record| std::cmp::Reverse(record.created_at));
    let size = page.size.clamp(1, PAGE_MAX) as usize;
    let mut found = Found::default();
    if records.len() > skip + size {
        found.next = Some((skip + size).to_string());
    }
    found.records = records.into_iter().skip(skip).take(size).collect();
    Ok(found)
}
