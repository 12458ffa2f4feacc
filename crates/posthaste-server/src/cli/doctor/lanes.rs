//! The lanes: whether somebody drives them, and what keeps them from going on.

use posthaste::admin::{LaneState, LaneStats};
use posthaste::findings::{Finding, Mend};

use super::super::words::counted;
use crate::config::{Config, unit};

/// One finding for each lane, and for what is dead in it.
pub(super) fn examine(lanes: &[LaneStats], config: &Config) -> Vec<Finding> {
    let mut found: Vec<Finding> = lanes.iter().map(|lane| judge(lane, config)).collect();
    found.extend(lanes.iter().filter(|lane| lane.dead > 0).map(dead));
    found.extend(lanes.iter().filter(|lane| !lane.adds_up()).map(|lane| {
        let seen = "its totals do not add up: accepted is not delivered + waiting + dead + discarded";
        let mend = Mend::words("somebody changed the tables by hand; compare with a backup");
        Finding::failure(named(lane), seen, mend)
    }));
    if lanes.is_empty() {
        found.push(Finding::ok("lanes", "none yet; a relay makes them when it first drives them"));
    }
    found
}

fn named(lane: &LaneStats) -> String {
    format!("lane {}", lane.lane)
}

fn judge(lane: &LaneStats, config: &Config) -> Finding {
    let (check, name) = (named(lane), &lane.lane);
    let unread = counted(lane.unread, "unread events");
    let reason = lane.reason.as_deref().unwrap_or("no reason is known");
    // A relay of another process is not known to a table, whose rows tell who has them.
    let is_table = config.store.table.is_some();
    let is_configured = is_table || config.lanes.contains_key(name);
    match lane.state {
        LaneState::Error => Finding::failure(
            check,
            format!("error: {reason}"),
            Mend::words("fix what it says; then relays go on"),
        ),
        LaneState::Retired => {
            let seen = format!("its address is gone: {reason}; {unread}");
            Finding::failure(check, seen, Mend::command(format!("posthaste lane resume {name}")))
        }
        LaneState::Unavailable => {
            let seen = format!("its target takes nothing: {reason}; {unread}");
            Finding::failure(check, seen, Mend::words("fix the target; the lane goes on by itself"))
        }
        LaneState::Paused => {
            let seen = format!("an operator paused it; {unread}");
            Finding::warning(check, seen, Mend::command(format!("posthaste lane resume {name}")))
        }
        _ if !is_configured && lane.owner.is_none() => {
            let max = unit::show_duration(config.store.retain_max);
            let seen = format!(
                "no relay drives it and the configuration does not name it: {unread}, and what it has not read is \
                 kept for up to {max} (store.retain_max)"
            );
            Finding::warning(check, seen, Mend::command(format!("posthaste lane remove {name} --yes")))
        }
        _ if !is_table && lane.owner.is_none() && (lane.unread > 0 || lane.waiting > 0) => {
            let seen = format!("no relay drives it; {unread}, {}", counted(lane.waiting, "waiting events"));
            Finding::warning(check, seen, Mend::command("posthaste relay"))
        }
        _ if lane.reason.is_some() => {
            Finding::warning(check, reason, Mend::words("look at it before it is forgotten"))
        }
        _ => {
            let owner = lane.owner.as_ref().map_or(String::new(), |owner| format!("driven by {owner}, "));
            Finding::ok(check, format!("{owner}{unread}"))
        }
    }
}

fn dead(lane: &LaneStats) -> Finding {
    let seen = counted(lane.dead, "dead events");
    Finding::warning(named(lane), seen, Mend::command(format!("posthaste dead list --lane {}", lane.lane)))
}
