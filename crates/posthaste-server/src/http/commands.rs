//! `POST /v1/commands/{verb}`: what an operator does, in the words of the command line. Only keys with the scope `operate` may.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use posthaste::ErrorKind;
use posthaste::admin::{Actor, Admin, Applied, Command, EventState, Filter, Pace, Seek};
use posthaste::schema::Backend;
use posthaste::time::Moment;
use serde::Deserialize;
use tokio::time::timeout;

use super::app::App;
use super::auth::KeyName;
use super::jobs::{Job, Outcome};
use super::letters::{self, Letters};
use super::problem::{Kind, Problem, is_own_words};
use super::query::{FilterText, query_and_ids, time};
use super::server::Peer;
use super::wire::{AppliedDocument, EventDocument};
use crate::config::unit;
use crate::record::Keeper;
use crate::sample::sample;

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
    /// Instead of a lane, a target and a group there: redrive and discard.
    broker: Option<String>,
    group: Option<String>,
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

/// Does it, and answers to how many; if it takes longer than a request may, it goes on, and the answer says as which job.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    Extension(KeyName(name)): Extension<KeyName>,
    peer: Option<Extension<Peer>>,
    Path(verb): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let (asked, ids) = query_and_ids::<CommandQuery>(&uri)?;
    let (dry_run, yes) = (asked.dry_run, asked.yes);
    let order = asked.understood(&verb, ids, &app.letters)?;
    let by = Actor::new(&*name, via(peer.map(|Extension(peer)| peer)));
    let work = Work { store: Arc::clone(&app.store), is_table: app.is_table, order, by, dry_run, yes };
    let job = app.jobs.begin((&verb, &name), dry_run, |job| async move { work.carried_out(&job).await })?;
    match timeout(app.patience(), job.ended()).await {
        Ok(outcome) => Ok(Json(outcome?).into_response()),
        Err(_) => {
            let document = job.document();
            let location = [(header::LOCATION, format!("/v1/jobs/{}", document.job))];
            Ok((StatusCode::ACCEPTED, location, Json(document)).into_response())
        }
    }
}

/// Where a command comes from, in the record: the address of whoever is connected, which may be a proxy.
fn via(peer: Option<Peer>) -> String {
    peer.map_or_else(|| "rest".to_owned(), |Peer(address)| format!("rest {}", address.ip().to_canonical()))
}

/// A command with all that it needs, so that it can go on without its request.
struct Work {
    store: Arc<dyn Backend>,
    is_table: bool,
    order: Order,
    by: Actor,
    dry_run: bool,
    yes: bool,
}

impl Work {
    async fn carried_out(self, job: &Job) -> Outcome {
        let Self { order, dry_run, .. } = &self;
        let is_only_counted = *dry_run || (order.is_for_good && !self.yes);
        let command = (order.command)(is_only_counted);
        let (applied, stopped) = self.applied(command.clone(), job).await?;
        let verb = command.name();
        if is_only_counted && !dry_run {
            let at_least = if applied.is_partial { "at least " } else { "" };
            let detail = format!(
                "{verb} {at_least}{} that match: this cannot be undone; add yes=true to do it",
                applied.matched
            );
            return Err(Problem::new(Kind::ConsentNeeded, detail));
        }
        let mut document = AppliedDocument::of(verb, applied, *dry_run);
        document.stopped = stopped;
        if *dry_run {
            let few = sample(self.admin(), &order.filter, &command, self.is_table).await;
            let few = few.map_err(|error| self.refused(error))?;
            document.sample = few.iter().map(EventDocument::of).collect();
        }
        Ok(document)
    }

    /// Does it, and answers whether somebody stopped it.
    async fn applied(&self, command: Command, job: &Job) -> Result<(Applied, bool), Problem> {
        let stopped = AtomicBool::new(false);
        let so_far = |applied| {
            let goes_on = job.at(applied);
            stopped.fetch_or(goes_on.is_break(), Ordering::SeqCst);
            goes_on
        };
        let pace = Pace::telling(&so_far).at_most(self.order.rate);
        let (filter, by) = (&self.order.filter, &self.by);
        let applied = match &self.order.letters {
            Some((broker, letters)) => {
                let record = Keeper::within(Arc::clone(&self.store), broker);
                record.apply(&**letters, filter, command, by, &pace).await
            }
            None => self.store.apply_paced(filter, command, by, &pace).await,
        };
        Ok((applied.map_err(|error| self.refused(error))?, stopped.load(Ordering::SeqCst)))
    }

    fn admin(&self) -> &dyn Admin {
        match &self.order.letters {
            Some((_, letters)) => &**letters,
            None => &*self.store,
        }
    }

    fn refused(&self, error: posthaste::Error) -> Problem {
        if self.order.letters.is_some() { letters::refused(error) } else { refused(error) }
    }
}

/// Makes a command, dry or not.
type Make = Box<dyn Fn(bool) -> Command + Send + Sync>;

/// A command that was understood.
struct Order {
    filter: Filter,
    /// The broker's name and its dead letters that it is about, if it is not about the store.
    letters: Option<(String, Arc<dyn Admin>)>,
    command: Make,
    /// Whether it cannot be undone.
    is_for_good: bool,
    /// How many a second at most.
    rate: Option<NonZeroU32>,
}

impl CommandQuery {
    fn understood(self, verb: &str, ids: Vec<String>, known: &Letters) -> Result<Order, Problem> {
        let (is_for_good, command) = self.command(verb)?;
        // Handlers run again, in other processes.
        let is_for_good = is_for_good || self.broker.is_some();
        self.refuse_what_does_not_belong_to(verb, &ids)?;
        self.demand_a_lane_for(verb)?;
        let rate = self.rate.as_deref().map(unit::rate).transpose();
        let rate = rate.map_err(|error| malformed(format!("rate: {error}")))?;
        let (broker, group) = (self.broker.clone(), self.group.clone());
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
        let letters = known.asked((broker.as_deref(), group.as_deref()), &mut filter)?;
        let letters = broker.zip(letters);
        Ok(Order { filter, letters, command, is_for_good, rate })
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
            "prune" => (true, Box::new(move |dry_run| Command::Prune { delivered_age, dead_age, dry_run })),
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
        if needs_one && self.lane.is_none() && self.broker.is_none() {
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
        let takes_broker = matches!(verb, "redrive" | "discard");
        given.extend([
            // These two would be done, where somebody wanted to see what they do.
            ("dry_run", self.dry_run, !matches!(verb, "pause" | "resume")),
            ("broker", self.broker.is_some(), takes_broker),
            ("group", self.group.is_some(), takes_broker),
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
        ErrorKind::Rejected if is_own_words(&error) => malformed(error.to_string()),
        ErrorKind::NotFound => {
            Problem::new(Kind::NotFound, "there is no such lane; GET /v1/lanes lists them")
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_driver_says_of_a_refused_command_is_not_answered() {
        let driver = std::io::Error::other("new row violates check \"secret\"");
        let told = refused(posthaste::Error::rejected("/var/lib/x.db refuses a value").because(driver));
        assert_eq!(told.kind(), Kind::Internal);
        let detail = told.document().detail;
        assert!(!detail.contains("secret") && !detail.contains("/var/lib"), "{detail}");
        let told = refused(posthaste::Error::rejected("a prune takes no filter"));
        assert_eq!(
            (told.kind(), told.document().detail),
            (Kind::Malformed, "a prune takes no filter".to_owned())
        );
    }
}
