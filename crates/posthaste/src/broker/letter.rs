//! Dead letters of a broker as an operator sees them.
//!
//! A broker says where the dead letters of a group are and walks over them ([`DeadLetters`]); everything
//! else of its [`Admin`](posthaste_core::admin::Admin) is here.

use std::ops::ControlFlow;

use posthaste_core::admin::{
    Actor, Applied, Command, EventState, Facts, Filter, Found, LaneStats, LaneView, Lanes, Pace, Page, Record,
};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::LaneName;
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::story::{Dead, Story};

/// Messages of one queue that a look takes at most.
pub(super) const LOOK_MAX: u32 = 10_000;
/// Bytes of one queue that a look takes at most.
pub(super) const LOOK_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where a broker keeps the dead letters of its groups.
pub(super) trait DeadLetters: Sync {
    /// The broker's name, for people.
    const BROKER: &'static str;
    /// Where dead letters of a group are: a queue, a stream or a topic.
    type Place: Send + Sync;

    /// The groups whose feeds were opened through this value: what waits for them, and what is dead.
    fn groups(&self) -> impl Future<Output = Result<Vec<LaneStats>>> + Send;

    /// The places of a group. What the filter says may help where the broker does not know them.
    fn places(
        &self,
        group: &LaneName,
        filter: &Filter,
    ) -> impl Future<Output = Result<Vec<Self::Place>>> + Send;

    /// What a log line calls a place.
    fn name_of(place: &Self::Place) -> &str;

    /// Visits every dead letter of a place, the oldest first, applies to those that match what `tell` says,
    /// at this pace, and leaves the others where they are. Counts in `applied`. Visits at most [`LOOK_MAX`]
    /// letters and [`LOOK_BYTES_MAX`] bytes if it is bounded. Letters that die meanwhile are not visited:
    /// the walk would have no end. Breaks when the pace was told to.
    fn walk(
        &self,
        filter: &Filter,
        place: &Self::Place,
        bounded: bool,
        applied: &mut Applied,
        pace: &Pace<'_>,
        tell: impl FnMut(Record) -> Fate + Send,
    ) -> impl Future<Output = Result<ControlFlow<()>>> + Send;
}

/// Makes a broker with [`DeadLetters`] an operator's [`Admin`](posthaste_core::admin::Admin): its groups are
/// the lanes.
macro_rules! admin_of_dead_letters {
    ($broker:ty) => {
        impl posthaste_core::admin::Admin for $broker {
            fn lanes(
                &self,
                page: posthaste_core::admin::Page,
            ) -> posthaste_core::BoxFuture<'_, posthaste_core::Result<posthaste_core::admin::Lanes>> {
                Box::pin($crate::broker::letter::lanes(self, page))
            }

            fn find<'a>(
                &'a self,
                filter: &'a posthaste_core::admin::Filter,
                page: posthaste_core::admin::Page,
            ) -> posthaste_core::BoxFuture<'a, posthaste_core::Result<posthaste_core::admin::Found>> {
                Box::pin($crate::broker::letter::find(self, filter, page))
            }

            fn apply<'a>(
                &'a self,
                filter: &'a posthaste_core::admin::Filter,
                command: posthaste_core::admin::Command,
                by: &'a posthaste_core::admin::Actor,
                pace: &'a posthaste_core::admin::Pace<'a>,
            ) -> posthaste_core::BoxFuture<'a, posthaste_core::Result<posthaste_core::admin::Applied>> {
                Box::pin($crate::broker::letter::apply(self, filter, command, by, pace))
            }
        }
    };
}

pub(super) use admin_of_dead_letters;

/// A page of the groups.
pub(super) async fn lanes(broker: &impl DeadLetters, page: Page) -> Result<Lanes> {
    Ok(Lanes::page(broker.groups().await?, &page))
}

/// Dead letters of the filter's lane, which is a group; the newest first.
pub(super) async fn find(broker: &impl DeadLetters, filter: &Filter, page: Page) -> Result<Found> {
    let mut records = Vec::new();
    for place in places(broker, filter).await? {
        let (mut looked, pace) = (Applied::default(), Pace::full());
        let looking = broker.walk(filter, &place, true, &mut looked, &pace, |mut record| {
            if !page.with_payload {
                record.envelope.payload.clear();
            }
            records.push(record);
            Fate::Keep
        });
        let _ = looking.await?;
    }
    self::page(records, &page)
}

/// Redrives or discards dead letters of the filter's lane, which is a group; the oldest first. The pace is
/// told of every dead letter.
pub(super) async fn apply<B: DeadLetters>(
    broker: &B,
    filter: &Filter,
    command: Command,
    by: &Actor,
    pace: &Pace<'_>,
) -> Result<Applied> {
    let (redrive, dry_run) = command.on_dead_letters(B::BROKER)?;
    let fate = Fate::of(redrive, dry_run);
    let mut applied = Applied::default();
    for place in places(broker, filter).await? {
        let before = applied;
        let goes_on = broker.walk(filter, &place, dry_run, &mut applied, pace, |_| fate).await?;
        tracing::info!(
            actor = by.name,
            via = by.via,
            command = command.name(),
            place = B::name_of(&place),
            matched = applied.matched - before.matched,
            changed = applied.changed - before.changed,
            "on dead letters"
        );
        if goes_on.is_break() {
            break;
        }
    }
    Ok(applied)
}

/// The places of the filter's group; none where the filter asks for letters that are not dead.
async fn places<B: DeadLetters>(broker: &B, filter: &Filter) -> Result<Vec<B::Place>> {
    let group = filter.lane.as_ref();
    let group = group.ok_or_else(|| Error::rejected("dead letters are kept by group; name the group"))?;
    if filter.state.is_some_and(|state| state != EventState::Dead) {
        return Ok(Vec::new());
    }
    broker.places(group, filter).await
}

/// What to do with a dead letter.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Keep,
    Redrive,
    Discard,
}

impl Fate {
    /// What a command means for each dead letter that it is about.
    pub(super) fn of(redrive: bool, dry_run: bool) -> Self {
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
pub(super) fn record(
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
pub(super) fn is_meant(filter: &Filter, record: &Record) -> bool {
    filter.means(&Facts::of(&record.envelope, record.created_at))
        && record.lanes.first().is_some_and(|view| filter.fits(view))
}

/// One page of these, the newest first; the token of the next page counts what was shown.
///
/// # Errors
/// `Rejected` for a token that is none of ours.
fn page(mut records: Vec<Record>, page: &Page) -> Result<Found> {
    let skip = page.after.as_deref().map_or(Ok(0), str::parse::<usize>);
    let skip = skip.map_err(|_| Error::rejected("the page token is not one of this broker"))?;
    records.sort_by_key(|record| std::cmp::Reverse(record.created_at));
    let size = page.size() as usize;
    let mut found = Found::default();
    if records.len() > skip + size {
        found.next = Some((skip + size).to_string());
    }
    found.records = records.into_iter().skip(skip).take(size).collect();
    Ok(found)
}
