//! `posthaste stats`: the totals of all lanes together, and of each.

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
    let row = |name: &str, totals: [u64; 6], unread: String| {
        let cells = totals.iter().map(ToString::to_string);
        std::iter::once(name.to_owned()).chain(cells).chain([unread]).collect::<Vec<_>>()
    };
    let of_lane = |lane: &LaneDocument| {
        let totals = [lane.accepted, lane.delivered, lane.waiting, lane.dead, lane.discarded, lane.replayed];
        row(&lane.lane, totals, lane.unread_text())
    };
    let mut rows: Vec<_> = lanes.iter().map(of_lane).collect();
    if rows.len() > 1 {
        let Total { unread, unread_is_estimate, accepted, delivered, waiting, dead, discarded, replayed } =
            total;
        let unread = format!("{}{unread}", if unread_is_estimate { "~" } else { "" });
        rows.push(row("(all)", [accepted, delivered, waiting, dead, discarded, replayed], unread));
    }
    output::table(&head, rows, "no lanes; a relay makes them when it first drives them")?;
    lane::list::tell_reasons(&lanes)
}
