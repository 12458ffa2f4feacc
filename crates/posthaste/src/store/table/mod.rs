//! The table engine: an outbox table that already exists, whose rows carry their state.
//!
//! Any number of relays work on one table. A claim leases rows under a token of its own; every outcome is guarded by that
//! token, so a relay that lost a row changes nothing. There is no row for a lane: whoever acquires gets a lease of its own,
//! and a table has one lane.
//!
//! The engine is written once ([`engine`], for operators [`admin`], [`command`] and [`review`]); a database does for it what
//! [`driver`] names. What has no I/O stands apart: what a lease holds ([`cursor`]), how a row becomes an event ([`row`]), and what
//! operators see of it ([`look`]) and leave in the record ([`ledger`]). What a table refuses to record is dealt with in [`refusal`],
//! what it will not have claimed in [`claim`], and what no relay holds any more, or none should, is taken back in [`sweep`].
//!
//! A driver's own part stands inside the store of the same database, and uses its connections, limits and
//! writer. A ticket is a row under a token: when a relay claims a row again, the old ticket is void.

mod admin;
mod claim;
mod command;
pub(in crate::store) mod count;
pub(in crate::store) mod cursor;
pub(in crate::store) mod driver;
pub(in crate::store) mod engine;
pub(in crate::store) mod examine;
pub(in crate::store) mod ledger;
pub(in crate::store) mod look;
pub(in crate::store) mod refusal;
mod review;
pub(in crate::store) mod row;
mod sweep;

use std::time::Duration;

use posthaste_core::admin::Command;
use posthaste_core::lane::{LaneSpec, OnDead, Start};
use posthaste_core::publisher::Published;
use posthaste_core::signal::Signal;
use posthaste_core::table::Profile;
use posthaste_core::{Error, Result};

/// How much later a row's lease ends than its relay believes: the relay renews by settling, and a settle renews only claims
/// that are older than this share of the lease.
const RENEW_SHARE: u32 = 3;

/// How long a relay may count on its rows after each settle.
pub(in crate::store) fn counted_on(lease: Duration) -> Duration {
    lease - lease / RENEW_SHARE
}

/// From which age on a claim is renewed by the next settle.
pub(in crate::store) fn renew_after(lease: Duration) -> Duration {
    lease / RENEW_SHARE
}

/// How often leases that have ended are looked for.
pub(in crate::store) fn sweep_every(lease: Duration) -> Duration {
    (lease / 6).clamp(Duration::from_millis(20), Duration::from_secs(30))
}

/// A table has one lane, of all its rows, and nothing that only a log can keep.
pub(in crate::store) fn check_lane(lane: &LaneSpec) -> Result<()> {
    let takes_all = lane.topics.iter().any(|pattern| pattern.as_str() == "#");
    let (wish, why) = if !takes_all {
        ("topics", "a row of an outbox table has one state and so goes down one lane: write topics = [\"#\"]")
    } else if lane.on_dead != OnDead::GoOn {
        (
            "on_dead = \"block\"",
            "a dead row of an outbox table holds nobody back: write on_dead = \"go on\", or leave it away",
        )
    } else if lane.start != Start::Beginning {
        (
            "a start",
            "every row of an outbox table that is pending is delivered: write start = \"beginning\", or leave it away",
        )
    } else {
        return Ok(());
    };
    Err(Error::config(format!("lane {} has {wish}, but {why}", lane.name)))
}

/// Rings if something new was published.
pub(in crate::store) fn ring(bell: &Signal, published: &[Published]) {
    if published.contains(&Published::Now) {
        bell.ring();
    }
}

/// A list as JSON, as statements take it where a database has no lists.
#[cfg(any(feature = "sqlite", feature = "mysql"))]
pub(in crate::store) fn list(items: &[String]) -> String {
    serde_json::to_string(items).expect("a list of strings is always JSON")
}

/// How many milliseconds a span has, as statements take it.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(in crate::store) fn millis(span: Duration) -> i64 {
    posthaste_core::time::micros(span) / 1_000
}

/// A table of somebody else is not changed.
pub(in crate::store) fn not_ours(profile: &Profile) -> Error {
    Error::config(format!(
        "the table {} is not Posthaste's and is never changed by it; posthaste migrate print --profile {} shows what is needed",
        profile.table,
        profile.name()
    ))
}

/// What is said about a command that a table cannot do.
pub(in crate::store) fn cannot(command: &Command) -> Error {
    let instead = match command {
        Command::Pause | Command::Resume => "stop its relays, or start them again",
        Command::Discard { .. } => {
            "it has no column for why; dead rows stay until posthaste prune --dead-older-than removes them"
        }
        Command::Erase { .. } => {
            "it could not say that the payload is gone, and a redrive would send something else; change or remove its row yourself"
        }
        Command::Seek { .. } => {
            "a row has a state and no place; posthaste replay and posthaste dead redrive make rows come again"
        }
        Command::PruneInbox { .. } => "the tables of consumers are the log engine's: leave store.engine away",
        _ => "it belongs to the log engine",
    };
    Error::rejected(format!("{} is not for an outbox table of another owner; {instead}", command.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_log_can_do_is_refused_by_name() {
        let refused = |change: fn(&mut LaneSpec)| {
            let mut lane = LaneSpec::new("main".parse().unwrap());
            change(&mut lane);
            check_lane(&lane).map_err(|error| error.to_string())
        };
        assert_eq!(refused(|_| ()), Ok(()));
        assert!(refused(|lane| lane.on_dead = OnDead::Block).unwrap_err().contains("on_dead = \"block\""));
        assert!(refused(|lane| lane.start = Start::Now).unwrap_err().contains("start = \"beginning\""));
        assert!(refused(|lane| lane.topics = vec!["a".parse().unwrap()]).unwrap_err().contains("topics"));
    }
}
