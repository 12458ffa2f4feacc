//! `posthaste stats`: the totals of all lanes together, and of each.

use std::collections::BTreeSet;
use std::slice;

use serde::Serialize;

use super::context::Context;
use super::{lane, output};
use crate::exit::Failure;
use crate::http::wire::{LaneDocument, LanePage};

/// What `stats` answers.
#[derive(Serialize)]
struct StatsDocument {
    total: Total,
    lanes: Vec<LaneDocument>,
}

/// The sum over all lanes.
#[derive(Default, Serialize)]
struct Total {
    unread: u64,
    unread_is_estimate: bool,
    accepted: u64,
    delivered: u64,
    waiting: u64,
    dead: u64,
    discarded: u64,
    replayed: u64,
    /// Which of these beside unread are estimates.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    estimated: BTreeSet<String>,
}

impl Total {
    fn of(lanes: &[LaneDocument]) -> Self {
        lanes.iter().fold(Self::default(), |sum, lane| Self {
            unread: sum.unread + lane.unread,
            unread_is_estimate: sum.unread_is_estimate || lane.unread_is_estimate,
            accepted: sum.accepted + lane.accepted,
            delivered: sum.delivered + lane.delivered,
            waiting: sum.waiting + lane.waiting,
            dead: sum.dead + lane.dead,
            discarded: sum.discarded + lane.discarded,
            replayed: sum.replayed + lane.replayed,
            estimated: sum.estimated.into_iter().chain(lane.estimated.iter().cloned()).collect(),
        })
    }
}

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    let LanePage { lanes } = lane::list::fetch(context).await?;
    let total = Total::of(&lanes);
    if context.json() {
        return output::json(&StatsDocument { total, lanes });
    }
    let head = ["LANE", "ACCEPTED", "DELIVERED", "WAITING", "DEAD", "DISCARDED", "REPLAYED", "UNREAD"];
    let mut rows: Vec<_> =
        lanes.iter().map(|lane| cells(&lane.lane, &Total::of(slice::from_ref(lane)))).collect();
    if rows.len() > 1 {
        rows.push(cells("(all)", &total));
    }
    output::table(&head, rows, "no lanes; a relay makes them when it first drives them")?;
    lane::list::tell_reasons(&lanes)
}

/// A row for people: `~` stands before what is an estimate.
fn cells(name: &str, total: &Total) -> Vec<String> {
    let Total {
        unread,
        unread_is_estimate,
        accepted,
        delivered,
        waiting,
        dead,
        discarded,
        replayed,
        estimated,
    } = total;
    let is = |name: &str| estimated.contains(name);
    let totals = [
        (accepted, is("accepted")),
        (delivered, is("delivered")),
        (waiting, is("waiting")),
        (dead, is("dead")),
        (discarded, is("discarded")),
        (replayed, false),
        (unread, *unread_is_estimate),
    ];
    let shown = totals.map(|(total, is_estimate)| format!("{}{total}", if is_estimate { "~" } else { "" }));
    std::iter::once(name.to_owned()).chain(shown).collect()
}
