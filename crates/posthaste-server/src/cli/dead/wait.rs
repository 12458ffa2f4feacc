//! `posthaste dead redrive --wait`: what becomes of events that were sent again.
//!
//! Events are remembered by source and id before they are redriven, because afterwards nothing tells them
//! from others of their lane. Each look asks for a few of them, so that a look is cheap however many there
//! are.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use posthaste::admin::{Applied, EventState, Filter, Page};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::super::context::Context;
use super::super::filter::events_query;
use super::super::output;
use super::super::serve::ended;
use super::super::way::Way;
use super::super::words::counted;
use crate::exit::{Code, Failure};
use crate::http::wire::{AppliedDocument, EventPage};
use crate::shutdown::{Shutdown, until_signalled};

/// The number of events that are waited for, at most.
const EVENTS_MAX: usize = 100_000;
const PAGE: u32 = 1_000;
/// The number of events that one question names: they stand in the path of a request.
const ASKED_AT_ONCE: usize = 50;
/// The number of questions of one look, at most.
const QUESTIONS_MAX: usize = 20;
/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(300);

/// Source and id of an event.
type Name = (String, String);

/// Events that are waited for.
pub(super) struct Awaited {
    filter: Filter,
    open: VecDeque<Name>,
}

/// What became of events that were waited for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    delivered: u64,
    dead: u64,
    discarded: u64,
    open: u64,
}

/// What `redrive --wait` answers as JSON.
#[derive(Serialize)]
struct WaitedDocument {
    #[serde(flatten)]
    applied: AppliedDocument,
    delivered: u64,
    dead_again: u64,
    discarded: u64,
    still_waiting: u64,
}

impl Awaited {
    /// The dead events that a filter matches.
    ///
    /// # Errors
    /// Too many of them cannot be waited for.
    pub(super) async fn find(way: &Way, filter: &Filter) -> Result<Self, Failure> {
        let mut open = VecDeque::new();
        let mut after = None;
        loop {
            let page = look(way, filter, Some(EventState::Dead), after.as_deref()).await?;
            open.extend(page.events.into_iter().map(|event| (event.source, event.id)));
            if open.len() > EVENTS_MAX {
                return Err(Failure::usage(format!(
                    "redrive: more than {EVENTS_MAX} events match, which is too many to wait for; choose fewer, or leave --wait out"
                )));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut by_id = Filter::default();
        by_id.lane.clone_from(&filter.lane);
        Ok(Self { filter: by_id, open })
    }

    /// Waits until each of them is delivered, dead or discarded, or time is up, or a signal comes; answers
    /// how many are what, and `None` after a second signal.
    pub(super) async fn wait(mut self, way: &Way, within: Duration) -> Result<Option<Settled>, Failure> {
        let progress = output::progress("wait", "events are delivered or dead", Some(self.open.len() as u64));
        let end = Instant::now() + within;
        let work = async |shutdown: Shutdown| {
            let mut settled = Settled::default();
            loop {
                self.look(way, &mut settled).await?;
                progress.at(settled.delivered + settled.dead + settled.discarded);
                settled.open = self.open.len() as u64;
                if self.open.is_empty() || Instant::now() >= end || shutdown.has_begun() {
                    return Ok(settled);
                }
                // Whichever comes first: the next look, the end of the time, or a signal.
                let _ = timeout_at(end.min(Instant::now() + PAUSE), shutdown.begun()).await;
            }
        };
        let settled = ended(until_signalled(work).await);
        progress.finish();
        settled
    }

    /// Asks for the events that were not asked for the longest; those that are settled are waited for no
    /// more.
    async fn look(&mut self, way: &Way, settled: &mut Settled) -> Result<(), Failure> {
        for _ in 0..self.open.len().div_ceil(ASKED_AT_ONCE).min(QUESTIONS_MAX) {
            let asked: Vec<Name> = self.open.drain(..self.open.len().min(ASKED_AT_ONCE)).collect();
            let mut filter = self.filter.clone();
            filter.ids = asked.iter().map(|(_, id)| id.clone()).collect();
            let page = look(way, &filter, None, None).await?;
            let lane = filter.lane.as_ref().map(|lane| lane.as_str()).unwrap_or_default();
            let states: HashMap<Name, String> = page
                .events
                .into_iter()
                .filter_map(|event| {
                    let view = event.lanes.into_iter().find(|view| view.lane == lane)?;
                    Some(((event.source, event.id), view.state))
                })
                .collect();
            for name in asked {
                match states.get(&name).and_then(|state| EventState::named(state)) {
                    // What is gone was passed by every lane before it was pruned.
                    Some(EventState::Delivered) | None => settled.delivered += 1,
                    Some(EventState::Dead) => settled.dead += 1,
                    Some(EventState::Discarded) => settled.discarded += 1,
                    Some(_) => self.open.push_back(name),
                }
            }
        }
        Ok(())
    }
}

/// A page of events, from the store or by a server.
async fn look(
    way: &Way,
    filter: &Filter,
    state: Option<EventState>,
    after: Option<&str>,
) -> Result<EventPage, Failure> {
    let mut filter = filter.clone();
    filter.state = state;
    match way {
        Way::Server { client, .. } => {
            let page = client.get(&events_query(&filter, PAGE, after)).await?;
            page.ok_or_else(|| Failure::nothing("wait for events: the server has no such lane"))
        }
        Way::Store { store, .. } => {
            let mut page = Page::first(PAGE);
            page.after = after.map(str::to_owned);
            let found = store.find(&filter, page).await;
            Ok(EventPage::of(&found.map_err(|error| error.during("wait for events"))?))
        }
        Way::Broker { .. } => {
            Err(Failure::other("wait for events: a broker does not know what becomes of them"))
        }
    }
}

impl Settled {
    /// Says what became of them; fails if not all were delivered.
    pub(super) fn tell(self, applied: Applied, is_stopped: bool, context: &Context) -> Result<(), Failure> {
        let Self { delivered, dead, discarded, open } = self;
        if context.json() {
            let applied =
                AppliedDocument { stopped: is_stopped, ..AppliedDocument::of("redrive", applied, false) };
            let (dead_again, still_waiting) = (dead, open);
            output::json(&WaitedDocument { applied, delivered, dead_again, discarded, still_waiting })?;
        } else {
            output::line(&format!("delivered {delivered}, dead again {dead}, still waiting {open}"))?;
        }
        self.verdict()
    }

    fn verdict(&self) -> Result<(), Failure> {
        let Self { dead, discarded, open, .. } = *self;
        let mut left = Vec::new();
        if dead > 0 {
            left.push(format!("{} dead again; posthaste dead list says why", counted(dead, "events")));
        }
        if discarded > 0 {
            left.push(format!("{} discarded meanwhile", counted(discarded, "events")));
        }
        if open > 0 {
            let open = counted(open, "events");
            left.push(format!("{open} not delivered yet; posthaste lane list says whether a relay runs"));
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Code::Unfinished, format!("see all of them delivered: {}", left.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_when_all_are_delivered_it_succeeded() {
        let settled = |dead, open| Settled { delivered: 3, dead, discarded: 0, open };
        assert!(settled(0, 0).verdict().is_ok());
        let failure = settled(1, 2).verdict().unwrap_err();
        assert_eq!(failure.code(), Code::Unfinished);
        assert!(failure.to_string().contains("1 event dead again"), "{failure}");
        assert!(failure.to_string().contains("2 events not delivered yet"), "{failure}");
    }
}
