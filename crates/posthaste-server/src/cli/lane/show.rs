//! `posthaste lane show`: one lane with everything that is known about it.

use posthaste::lane::LaneName;

use super::super::context::Context;
use super::super::{filter, output};
use super::list;
use crate::exit::Failure;
use crate::http::wire::LaneDocument;

/// What `lane show` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which lane
    #[arg(value_parser = filter::lane)]
    lane: LaneName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let page = list::fetch(context).await?;
    let lane = page.lanes.into_iter().find(|lane| lane.lane == args.lane.as_str());
    let lane = lane.ok_or_else(|| Failure::nothing(format!("find the lane {}", args.lane)))?;
    if context.json() {
        return output::json(&lane);
    }
    output::write(text(&lane).as_bytes())
}

fn text(lane: &LaneDocument) -> String {
    let numbers = [
        ("epoch", lane.epoch.to_string()),
        ("place", lane.position.to_string()),
        ("unread", lane.unread_text()),
        ("accepted", lane.shown("accepted", lane.accepted)),
        ("delivered", lane.shown("delivered", lane.delivered)),
        ("waiting", lane.shown("waiting", lane.waiting)),
        ("dead", lane.shown("dead", lane.dead)),
        ("discarded", lane.shown("discarded", lane.discarded)),
        ("replayed", lane.replayed.to_string()),
    ];
    let words = [
        ("lane", Some(lane.lane.clone())),
        ("state", Some(lane.state.clone())),
        ("reason", lane.reason.clone()),
        ("owner", lane.owner.clone()),
        ("oldest unread", lane.oldest_unread_at.as_deref().map(output::time)),
        ("oldest waiting", lane.oldest_waiting_at.as_deref().map(output::time)),
    ];
    let words = words.into_iter().filter_map(|(name, value)| Some((name, value?)));
    words.chain(numbers).map(|(name, value)| format!("{name:<16}{}\n", output::plain(&value))).collect()
}
