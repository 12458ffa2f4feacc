//! The operator's side of a store: look, and act. Command line and REST are written against this and nothing else.

mod command;
mod event;
pub mod field;
mod filter;
mod lane;
mod pace;

pub use command::{Command, CommandKind, LaneNeed, Sampled, Seek, Subject};
pub use event::{EventState, LaneView, Record};
pub use filter::{Facts, Filter};
pub use lane::{LaneState, LaneStats, Lanes, PageOfLanes};
pub use pace::Pace;

use crate::{BoxFuture, Result};

/// Looks at a store and changes it; every change is recorded with its actor.
pub trait Admin: Send + Sync {
    /// Lanes with their totals, ordered by name, a page at a time, without scanning the log.
    ///
    /// # Errors
    /// What the store says.
    fn lanes(&self, page: Page) -> BoxFuture<'_, Result<Lanes>>;

    /// Events that match, the newest first, a page at a time. Changes nothing.
    ///
    /// A page looks at a limited number of events: one without records that says where the next begins has
    /// found none *so far*.
    ///
    /// # Errors
    /// `NotFound` for a lane that does not exist, `Rejected` for a page that is not one of this store.
    fn find<'a>(&'a self, filter: &'a Filter, page: Page) -> BoxFuture<'a, Result<Found>>;

    /// Does this to what matches, in small steps, and records who did it. With `dry_run` it only counts.
    ///
    /// It keeps to the pace, and stops between two steps when the pace is told to break. What was done until
    /// then is in the record, which says that the command was stopped.
    ///
    /// # Errors
    /// `NotFound` for a lane that does not exist, `Rejected` when the command does not fit the filter (see [`Command`]).
    fn apply<'a>(
        &'a self,
        filter: &'a Filter,
        command: Command,
        by: &'a Actor,
        pace: &'a Pace<'a>,
    ) -> BoxFuture<'a, Result<Applied>>;
}

/// Every lane with its totals, page by page.
///
/// # Errors
/// What the store says.
pub async fn all_lanes(admin: &(impl Admin + ?Sized)) -> Result<Vec<LaneStats>> {
    let (mut all, mut page) = (Vec::new(), Page::first(Page::SIZE_MAX));
    loop {
        let found = admin.lanes(page.clone()).await?;
        all.extend(found.lanes);
        if found.next.is_none() {
            return Ok(all);
        }
        page.after = found.next;
    }
}

/// Where a page begins and how many records it has at most.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page {
    /// What [`Found::next`] of the page before said; `None`: the first.
    pub after: Option<String>,
    /// At most this many, and never more than 1,000.
    pub size: u32,
    /// Whether records carry their payload.
    pub with_payload: bool,
}

impl Page {
    /// The number of records that a page has at most, whatever it asks for.
    pub const SIZE_MAX: u32 = 1_000;

    /// The first page of this size, without payloads.
    pub fn first(size: u32) -> Self {
        Self { after: None, size, with_payload: false }
    }

    /// The number of records that it has at most.
    pub fn size(&self) -> u32 {
        self.size.clamp(1, Self::SIZE_MAX)
    }
}

/// A page of records.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// The records.
    pub records: Vec<Record>,
    /// Where the next page begins, if there may be one.
    pub next: Option<String>,
}

/// What a command did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// How many events (or lanes) matched.
    pub matched: u64,
    /// How many were changed; zero in a dry run.
    pub changed: u64,
    /// Whether not all were looked at, as a look has its limits: so many matched at least.
    pub is_partial: bool,
}

impl Applied {
    /// So many matched, so many were changed.
    pub fn new(matched: u64, changed: u64) -> Self {
        Self { matched, changed, is_partial: false }
    }
}

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actor {
    /// A key's name or an operating system's user.
    pub name: String,
    /// From where: `cli@HOST`, `rest ADDRESS`, `relay`, `serve`.
    pub via: String,
}

impl Actor {
    /// Somebody, from somewhere.
    pub fn new(name: impl Into<String>, via: impl Into<String>) -> Self {
        Self { name: name.into(), via: via.into() }
    }
}
