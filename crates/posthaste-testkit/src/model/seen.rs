//! What can be observed of a store, in a form that can be compared.

use std::collections::BTreeMap;

use posthaste_core::admin::{Filter, LaneStats, LaneView, all_lanes};
use posthaste_core::store::Claimed;

use crate::drive::StoreBench;
use crate::law::Verdict;

/// Everything an operator can see.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    lanes: Vec<String>,
    /// An upper bound: where retention left holes in the log, a store may count them.
    unread: Vec<u64>,
    events: Vec<String>,
}

impl Seen {
    pub(super) async fn of(bench: &StoreBench) -> Result<Self, Verdict> {
        let mut lanes = all_lanes(&*bench.store).await?;
        lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
        for lane in &lanes {
            crate::ensure!(lane.adds_up(), "totals do not add up: {lane:?}");
        }
        let events = bench.find(&Filter::default()).await?.into_iter().map(|mut record| {
            record.lanes.sort_by(|a, b| a.lane.cmp(&b.lane));
            let views: Vec<String> = record.lanes.iter().map(view).collect();
            format!("{}: {}", record.envelope.id, views.join(" | "))
        });
        Ok(Self {
            events: events.collect(),
            lanes: lanes.iter().map(stats).collect(),
            unread: lanes.iter().map(|lane| lane.unread).collect(),
        })
    }

    /// The first thing in which a real store differs from this, the model.
    pub(super) fn difference(&self, real: &Self) -> Option<String> {
        let bounded = |(model, real): (&u64, &u64)| real >= model && (*real == 0) == (*model == 0);
        if !self.unread.iter().zip(&real.unread).all(bounded) {
            return Some(format!("unread\n  model: {:?}\n  real:  {:?}", self.unread, real.unread));
        }
        let both = |name: &str, a: &[String], b: &[String]| {
            let longest = a.len().max(b.len());
            let differs = (0..longest).find(|&n| a.get(n) != b.get(n))?;
            Some(format!("{name}\n  model: {:?}\n  real:  {:?}", a.get(differs), b.get(differs)))
        };
        both("a lane", &self.lanes, &real.lanes).or_else(|| both("an event", &self.events, &real.events))
    }
}

fn stats(lane: &LaneStats) -> String {
    format!(
        "{} {} {:?} owner {:?} epoch {} accepted {} delivered {} waiting {} dead {} discarded {} replayed {} oldest {:?} retrying {:?} oldest of them {:?}",
        lane.lane,
        lane.state.name(),
        lane.reason,
        lane.owner,
        lane.epoch,
        lane.accepted,
        lane.delivered,
        lane.waiting,
        lane.dead,
        lane.discarded,
        lane.replayed,
        lane.oldest_unread_at,
        lane.retrying,
        lane.oldest_waiting_at,
    )
}

fn view(view: &LaneView) -> String {
    format!(
        "{} {} attempts {} due {:?} code {:?} error {:?} failed {:?} died {:?} replay {}",
        view.lane,
        view.state.name(),
        view.attempts,
        view.available_at,
        view.code,
        view.last_error,
        view.first_failed_at,
        view.dead_at,
        view.replay,
    )
}

/// What a claim promises: which events on which attempt, and the order of each key. The order between keys is nobody's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Handed {
    events: BTreeMap<String, (u32, bool)>,
    keys: BTreeMap<String, Vec<String>>,
}

impl Handed {
    pub(super) fn of(claimed: &[Claimed]) -> Self {
        let mut handed = Self { events: BTreeMap::new(), keys: BTreeMap::new() };
        for claimed in claimed {
            let (parcel, envelope) = (&claimed.parcel, &claimed.parcel.envelope);
            handed.events.insert(envelope.id.clone(), (parcel.attempt, parcel.replay));
            if let Some(key) = envelope.key.clone().filter(|_| !parcel.replay) {
                handed.keys.entry(key).or_default().push(envelope.id.clone());
            }
        }
        handed
    }
}
