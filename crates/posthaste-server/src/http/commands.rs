//! `POST /v1/commands/{verb}`: what an operator does, in the words of the command line. Only keys with the scope `operate` may.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::Uri;
use posthaste::ErrorKind;
use posthaste::admin::{Actor, Applied, Command, EventState, Filter, Pace, Seek};
use posthaste::time::Moment;
use serde::Deserialize;
use tokio::time::Instant;

use super::app::App;
use super::auth::KeyName;
use super::problem::{Kind, Problem};
use super::query::{FilterText, query_and_ids, time};
use super::wire::{AppliedDocument, EventDocument};
use crate::config::unit;
use crate::sample::sample;

/// Where commands come from, in the record.
const VIA: &str = "rest";
const VERBS: &str = "redrive, replay, discard, bury, schedule, pause, resume, seek, remove, prune, prune-inbox, rebase, erase";

/// What a command takes; what does not belong to it is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CommandQuery {
    lane: Option<String>,
    #[serde(rename = "type")]
    event_type: Option<String>,
    topic: Option<String>,
    key: Option<String>,
    since: Option<String>,
    until: Option<String>,
    code: Option<String>,
    error: Option<String>,
    /// Why, for the record: discard and bury.
    reason: Option<String>,
    /// When: schedule.
    at: Option<String>,
    /// Where: seek.
    to: Option<String>,
    /// All lanes: pause and resume.
    all: bool,
    /// Ages: prune, prune-inbox.
    older_than: Option<String>,
    dead_older_than: Option<String>,
    /// By `pg_upgrade`: rebase.
    upgraded: bool,
    /// How many a second at most: what is done in steps.
    rate: Option<String>,
    /// Only count.
    dry_run: bool,
    /// Do it: this cannot be undone.
    yes: bool,
}

/// Does it, and answers to how many.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    Extension(KeyName(name)): Extension<KeyName>,
    Path(verb): Path<String>,
    uri: Uri,
) -> Result<Json<AppliedDocument>, Problem> {
    let (mut asked, ids) = query_and_ids::<CommandQuery>(&uri)?;
    let (dry_run, yes) = (std::mem::take(&mut asked.dry_run), std::mem::take(&mut asked.yes));
    let order = asked.understood(&verb, ids)?;
    let is_only_counted = dry_run || (order.is_for_good && !yes);
    let command = (order.command)(is_only_counted);
    let (applied, stopped) = carried_out(&app, &order, command.clone(), &Actor::new(&*name, VIA)).await?;
    if is_only_counted && !dry_run {
        let detail =
            format!("{verb} {} that match: this cannot be undone; add yes=true to do it", applied.matched);
        return Err(Problem::new(Kind::ConsentNeeded, detail));
    }
    let mut few = Vec::new();
    if dry_run {
        let is_table = app.is_table;
        few = sample(&*app.store, &order.filter, &command, is_table).await.map_err(refused)?;
    }
    let sample = few.iter().map(EventDocument::of).collect();
    let (matched, changed) = (applied.matched, applied.changed);
    Ok(Json(AppliedDocument { command: verb, matched, changed, dry_run, stopped, sample }))
}

/// Stops it while there is still time to answer; answers whether it did.
async fn carried_out(
    app: &App,
    order: &Order,
    command: Command,
    by: &Actor,
) -> Result<(Applied, bool), Problem> {
    let (end, stopped) = (Instant::now() + app.limits.request_timeout * 3 / 4, AtomicBool::new(false));
    let so_far = |_| {
        if Instant::now() < end {
            return ControlFlow::Continue(());
        }
        stopped.store(true, Ordering::SeqCst);
        ControlFlow::Break(())
    };
    let pace = Pace::telling(&so_far).at_most(order.rate);
    let applied = app.store.apply_paced(&order.filter, command, by, &pace).await.map_err(refused)?;
    Ok((applied, stopped.load(Ordering::SeqCst)))
}

/// Makes a command, dry or not.
type Make = Box<dyn Fn(bool) -> Command + Send + Sync>;

/// A command that was understood.
struct Order {
    filter: Filter,
    command: Make,
    /// Whether it cannot be undone.
    is_for_good: bool,
    /// How many a second at most.
    rate: Option<NonZeroU32>,
}

impl CommandQuery {
    fn understood(self, verb: &str, ids: Vec<String>) -> Result<Order, Problem> {
        let (is_for_good, command) = self.command(verb)?;
        self.refuse_what_does_not_belong_to(verb, &ids)?;
        self.demand_a_lane_for(verb)?;
        let rate = self.rate.as_deref().map(unit::rate).transpose();
        let rate = rate.map_err(|error| malformed(format!("rate: {error}")))?;
        let mut filter = self.filter(ids)?;
        if verb == "erase" && filter.is_empty() {
            let detail = "erase needs to be told which events: id, lane, type, topic, key, since or until";
            return Err(malformed(detail));
        }
        filter.state = match verb {
            "redrive" | "discard" => Some(EventState::Dead),
            "replay" => Some(EventState::Delivered),
            _ => None,
        };
        Ok(Order { filter, command, is_for_good, rate })
    }

    /// Whether it cannot be undone, and the command.
    fn command(&self, verb: &str) -> Result<(bool, Make), Problem> {
        let delivered_age = age("older_than", self.older_than.as_deref())?;
        let dead_age = age("dead_older_than", self.dead_older_than.as_deref())?;
        Ok(match verb {
            "redrive" => (false, Box::new(|dry_run| Command::Redrive { dry_run })),
            "replay" => (false, Box::new(|dry_run| Command::Replay { dry_run })),
            "discard" => {
                let reason = self.reason.clone().unwrap_or_else(|| "discarded by an operator".to_owned());
                (true, Box::new(move |dry_run| Command::Discard { reason: reason.clone(), dry_run }))
            }
            "bury" => {
                let reason = self.reason.clone().unwrap_or_else(|| "buried by an operator".to_owned());
                (false, Box::new(move |dry_run| Command::Bury { reason: reason.clone(), dry_run }))
            }
            "schedule" => {
                let at = time("at", self.at.clone())?.map(Moment::At);
                let at = at.ok_or_else(|| malformed("schedule needs at: a time"))?;
                (false, Box::new(move |dry_run| Command::Schedule { at, dry_run }))
            }
            "pause" => (false, Box::new(|_| Command::Pause)),
            "resume" => (false, Box::new(|_| Command::Resume)),
            "seek" => {
                let to = self.to.as_deref().map(place).transpose()?;
                let to = to.ok_or_else(|| malformed("seek needs to: beginning, end or a time"))?;
                (true, Box::new(move |dry_run| Command::Seek { to, dry_run }))
            }
            "remove" => (true, Box::new(|dry_run| Command::Remove { dry_run })),
            "prune" if delivered_age.is_none() && dead_age.is_none() => {
                return Err(malformed("prune needs older_than or dead_older_than, like 7d"));
            }
            "prune" => {
                let prune = move |dry_run| Command::Prune { delivered_age, dead_age, dry_run };
                (dead_age.is_some(), Box::new(prune))
            }
            "prune-inbox" => {
                let age = delivered_age.ok_or_else(|| malformed("prune-inbox needs older_than, like 30d"))?;
                (true, Box::new(move |dry_run| Command::PruneInbox { age, dry_run }))
            }
            "rebase" => {
                let upgraded = self.upgraded;
                (true, Box::new(move |dry_run| Command::Rebase { upgraded, dry_run }))
            }
            "erase" => (true, Box::new(|dry_run| Command::Erase { dry_run })),
            _ => {
                let detail = format!("there is no such command; there are {VERBS}");
                return Err(Problem::new(Kind::NotFound, detail));
            }
        })
    }

    fn demand_a_lane_for(&self, verb: &str) -> Result<(), Problem> {
        let needs_one = match verb {
            "redrive" | "replay" | "discard" | "bury" | "schedule" | "seek" | "remove" => true,
            "pause" | "resume" => !self.all,
            _ => false,
        };
        if needs_one && self.lane.is_none() {
            return Err(malformed(format!("{verb} needs lane; GET /v1/lanes lists them")));
        }
        Ok(())
    }

    /// A parameter that would be passed over might have been meant to spare something.
    fn refuse_what_does_not_belong_to(&self, verb: &str, ids: &[String]) -> Result<(), Problem> {
        let takes_events = matches!(verb, "redrive" | "replay" | "discard" | "bury" | "schedule" | "erase");
        let chosen = [
            ("type", &self.event_type),
            ("topic", &self.topic),
            ("key", &self.key),
            ("since", &self.since),
            ("until", &self.until),
            ("code", &self.code),
            ("error", &self.error),
        ];
        let mut given: Vec<(&str, bool, bool)> =
            chosen.iter().map(|(name, value)| (*name, value.is_some(), takes_events)).collect();
        let takes_no_lane = matches!(verb, "prune" | "prune-inbox" | "rebase");
        given.extend([
            ("id", !ids.is_empty(), takes_events),
            ("rate", self.rate.is_some(), takes_events || matches!(verb, "prune" | "prune-inbox")),
            ("lane", self.lane.is_some(), !takes_no_lane && !self.all),
            ("reason", self.reason.is_some(), matches!(verb, "discard" | "bury")),
            ("at", self.at.is_some(), verb == "schedule"),
            ("to", self.to.is_some(), verb == "seek"),
            ("all", self.all, matches!(verb, "pause" | "resume")),
            ("older_than", self.older_than.is_some(), matches!(verb, "prune" | "prune-inbox")),
            ("dead_older_than", self.dead_older_than.is_some(), verb == "prune"),
            ("upgraded", self.upgraded, verb == "rebase"),
        ]);
        match given.into_iter().find(|(_, is_given, belongs)| *is_given && !belongs) {
            Some((name, ..)) => Err(malformed(format!("{name} does not belong to {verb}"))),
            None => Ok(()),
        }
    }

    fn filter(self, ids: Vec<String>) -> Result<Filter, Problem> {
        let Self { lane, event_type, topic, key, since, until, code, error, .. } = self;
        FilterText { lane, ids, event_type, topic, key, since, until, code, error, state: None }.understood()
    }
}

fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Malformed, detail)
}

fn age(name: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    text.map(unit::duration).transpose().map_err(|error| malformed(format!("{name}: {error}")))
}

fn place(text: &str) -> Result<Seek, Problem> {
    Ok(match text {
        "beginning" => Seek::Beginning,
        "end" => Seek::End,
        other => match time("to", Some(other.to_owned()))? {
            Some(time) => Seek::Time(time),
            None => Seek::End,
        },
    })
}

/// What a store refuses here is the command, and not an event.
fn refused(error: posthaste::Error) -> Problem {
    match error.kind() {
        ErrorKind::Rejected => malformed(error.to_string()),
        ErrorKind::NotFound => {
            Problem::new(Kind::NotFound, "there is no such lane; GET /v1/lanes lists them")
        }
        _ => error.into(),
    }
}
