//! `POST /v1/commands/{verb}`: what an operator does, in the words of the command line. Only keys with the scope `operate` may.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use posthaste::ErrorKind;
use posthaste::admin::field::Need;
use posthaste::admin::{Actor, Admin, Applied, Command, CommandKind, Filter, LaneNeed, Pace};
use posthaste::schema::Backend;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::app::App;
use super::auth::KeyName;
use super::jobs::{Job, Outcome};
use super::letters::{self, Letters};
use super::problem::{Kind, Problem, is_own_words};
use super::query::{Asked, bad, choosing, malformed};
use super::server::Peer;
use super::wire::{AppliedDocument, EventDocument};
use crate::config::unit;
use crate::record::Keeper;
use crate::sample::sample;

/// Does it, and answers to how many; if it takes longer than a request may, it goes on, and the answer says as which job.
pub(super) async fn give(
    State(app): State<Arc<App>>,
    Extension(KeyName(name)): Extension<KeyName>,
    peer: Option<Extension<Peer>>,
    Path(verb): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let order = Order::of(&verb, Asked::of(&uri)?, &app.letters)?;
    let by = Actor::new(&*name, via(peer.map(|Extension(peer)| peer)));
    let dry_run = order.dry_run;
    let work = Work { store: Arc::clone(&app.store), is_table: app.is_table, order, by };
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
}

impl Work {
    async fn carried_out(self, job: &Job) -> Outcome {
        let (order, dry_run) = (&self.order, self.order.dry_run);
        let is_only_counted = dry_run || (order.is_for_good() && !order.yes);
        let command = order.command(is_only_counted)?;
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
        let mut document = AppliedDocument::of(verb, applied, dry_run);
        document.stopped = stopped;
        if dry_run {
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
            None => self.store.apply(filter, command, by, &pace).await,
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

/// A command that was understood.
struct Order {
    kind: &'static CommandKind,
    /// What it is told, by the names of its settings in JSON.
    told: Map<String, Value>,
    filter: Filter,
    /// The broker's name and its dead letters that it is about, if it is not about the store.
    letters: Option<(String, Arc<dyn Admin>)>,
    /// The number of events per second that it changes at most.
    rate: Option<NonZeroU32>,
    dry_run: bool,
    /// Whether it was said that it shall be done although it cannot be undone.
    yes: bool,
}

impl Order {
    fn of(verb: &str, mut asked: Asked, known: &Letters) -> Result<Self, Problem> {
        let kind = CommandKind::given().find(|kind| kind.name == verb).ok_or_else(|| {
            let verbs: Vec<_> = CommandKind::given().map(|kind| kind.name).collect();
            let detail = format!("there is no such command; there are {}", verbs.join(", "));
            Problem::new(Kind::NotFound, detail)
        })?;
        let [dry_run, yes, all] = ["dry_run", "yes", "all"].map(|flag| asked.flag(flag));
        let (dry_run, yes, all) = (dry_run?, yes?, all?);
        refuse_what_does_not_belong(kind, &asked, dry_run, all)?;
        let rate = asked.text("rate")?.as_deref().map(unit::rate).transpose().map_err(bad("rate"))?;
        let (broker, group) = (asked.text("broker")?, asked.text("group")?);
        let mut filter = asked.filter(choosing())?;
        let told = settings(kind, &mut asked)?;
        asked.end()?;
        demand_a_lane(kind, filter.lane.is_some() || broker.is_some(), all)?;
        if kind.takes_filter && kind.lanes == LaneNeed::Any && filter.is_empty() {
            let names: Vec<_> = choosing().map(|field| field.name).collect();
            return Err(malformed(format!("{verb} needs to be told which events, by {}", names.join(", "))));
        }
        filter.state = kind.state;
        let letters = known.asked((broker.as_deref(), group.as_deref()), &mut filter)?;
        Ok(Self { kind, told, filter, letters: broker.zip(letters), rate, dry_run, yes })
    }

    /// Whether it cannot be undone. Redriving what a broker has cannot: handlers run again, in other
    /// processes.
    fn is_for_good(&self) -> bool {
        self.kind.is_for_good || self.letters.is_some()
    }

    fn command(&self, dry_run: bool) -> Result<Command, Problem> {
        Command::from_told(self.kind, self.told.clone(), dry_run)
            .map_err(|error| malformed(error.to_string()))
    }
}

/// A parameter that would be passed over might have been meant to spare something.
fn refuse_what_does_not_belong(
    kind: &CommandKind,
    asked: &Asked,
    dry_run: bool,
    all: bool,
) -> Result<(), Problem> {
    let flags = [("dry_run", dry_run), ("all", all)];
    let flags = flags.into_iter().filter_map(|(name, is_set)| is_set.then_some(name));
    let is_known = |name: &str| CommandKind::given().any(|kind| takes(kind, name));
    let is_foreign = |name: &str| is_known(name) && (!takes(kind, name) || (all && name == "lane"));
    match asked.names().chain(flags).find(|name| is_foreign(name)) {
        Some(name) => Err(malformed(format!("{name} does not belong to {}", kind.name))),
        None => Ok(()),
    }
}

/// Whether a command takes a parameter.
fn takes(kind: &CommandKind, name: &str) -> bool {
    match name {
        "dry_run" => kind.takes_dry_run,
        "yes" => true,
        "all" => kind.lanes == LaneNeed::OneOrAll,
        "rate" => kind.takes_rate,
        "broker" | "group" => kind.is_for_dead_letters,
        "lane" => kind.lanes != LaneNeed::All,
        name => {
            kind.settings.iter().any(|setting| setting.name == name)
                || (kind.takes_filter && choosing().any(|field| field.name == name))
        }
    }
}

/// What a command is told; what must be there is demanded, and what is left out has its default.
fn settings(kind: &CommandKind, asked: &mut Asked) -> Result<Map<String, Value>, Problem> {
    let mut told = asked.told(kind.settings.iter())?;
    for setting in kind.settings {
        if told.contains_key(setting.json) {
            continue;
        }
        match setting.need {
            Need::Optional => {}
            Need::Default(value) => drop(told.insert(setting.json.to_owned(), value.into())),
            Need::Required => {
                let about = setting.about;
                return Err(malformed(format!("{} needs {}: {about}", kind.name, setting.name)));
            }
            Need::OneOf if told.is_empty() => {
                let names: Vec<_> = kind.settings.iter().map(|setting| setting.name).collect();
                let names = names.join(" or ");
                return Err(malformed(format!("{} needs {names}: {}", kind.name, setting.about)));
            }
            Need::OneOf => {}
        }
    }
    Ok(told)
}

fn demand_a_lane(kind: &CommandKind, is_named: bool, all: bool) -> Result<(), Problem> {
    let needs_one = match kind.lanes {
        LaneNeed::One => true,
        LaneNeed::OneOrAll => !all,
        LaneNeed::Any | LaneNeed::All => false,
    };
    if needs_one && !is_named {
        return Err(malformed(format!("{} needs lane; GET /v1/lanes lists them", kind.name)));
    }
    Ok(())
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
