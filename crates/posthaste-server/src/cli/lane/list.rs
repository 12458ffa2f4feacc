//! `posthaste lane list`: every lane with its totals.

use posthaste::admin::all_lanes;

use super::super::context::{Access, Context};
use super::super::output;
use crate::exit::Failure;
use crate::http::wire::{LaneDocument, LanePage};

const HEAD: [&str; 9] =
    ["LANE", "STATE", "OWNER", "UNREAD", "DELIVERED", "WAITING", "DEAD", "DISCARDED", "OLDEST UNREAD (UTC)"];

pub(in crate::cli) async fn run(context: &Context) -> Result<(), Failure> {
    let page = fetch(context).await?;
    if context.json() {
        return output::json(&page);
    }
    output::table(
        &HEAD,
        page.lanes.iter().map(row).collect(),
        "no lanes; a relay makes them when it first drives them",
    )?;
    tell_reasons(&page.lanes)
}

/// Why lanes are as they are: below the table, where a sentence has room.
pub(in crate::cli) fn tell_reasons(lanes: &[LaneDocument]) -> Result<(), Failure> {
    for lane in lanes {
        if let Some(reason) = &lane.reason {
            output::line(&format!("{} is {}: {}", lane.lane, lane.state, output::plain(reason)))?;
        }
    }
    Ok(())
}

/// Every lane, by the server or from the store.
pub(in crate::cli) async fn fetch(context: &Context) -> Result<LanePage, Failure> {
    match context.access(false).await? {
        Access::Server(client) => {
            let page = client.get("/v1/lanes").await?;
            page.ok_or_else(|| Failure::other("list lanes: the server does not know /v1/lanes"))
        }
        Access::Store(store) => {
            Ok(LanePage::of(&all_lanes(&*store).await.map_err(|error| error.during("list lanes"))?))
        }
    }
}

fn row(lane: &LaneDocument) -> Vec<String> {
    vec![
        lane.lane.clone(),
        lane.state.clone(),
        lane.owner.clone().unwrap_or_default(),
        lane.unread_text(),
        lane.shown("delivered", lane.delivered),
        lane.shown("waiting", lane.waiting),
        lane.shown("dead", lane.dead),
        lane.shown("discarded", lane.discarded),
        lane.oldest_unread_at.as_deref().map(output::time).unwrap_or_default(),
    ]
}
