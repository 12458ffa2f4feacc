//! The way of a command: straight to the store, through a server, or to a broker.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Actor, Admin, Applied, Command, Filter, LaneNeed, Pace};
use posthaste::schema::Backend;
use posthaste::time::Moment;

use super::client::{Client, Given};
use super::filter::with_query;
use super::moment::resolved;
use crate::exit::Failure;
use crate::http::query::{self, choosing};
use crate::http::wire::{AppliedDocument, EventDocument};
use crate::record::Keeper;
use crate::sample::sample;

/// How often to ask a server how far a command is.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The way of a command.
pub(super) enum Way {
    /// Straight to the store: a log, or an outbox table.
    Store { store: Arc<dyn Backend>, is_table: bool },
    /// Through a server.
    Server {
        client: Client,
        /// To the dead letters of this target of the server.
        broker: Option<String>,
    },
    /// To the dead letters of a broker, and where the record of it goes.
    Broker { admin: Arc<dyn Admin>, record: Keeper },
}

impl Way {
    /// Counts what a command would change, with a few of the events.
    pub(super) async fn count(
        &self,
        filter: &Filter,
        command: Command,
        by: &Actor,
    ) -> Result<(Applied, Vec<EventDocument>), Failure> {
        let (admin, is_table): (&dyn Admin, bool) = match self {
            Self::Store { store, is_table } => (&**store, *is_table),
            Self::Broker { admin, .. } => (&**admin, false),
            Self::Server { client, broker } => {
                let path = path(filter, broker.as_deref(), &command, true, None);
                let counted = through(client, &path, &|_| ControlFlow::Continue(())).await?;
                return Ok((applied(&counted), counted.sample));
            }
        };
        let told = |error: posthaste::Error| self.told(error, command.name());
        let counted = admin.apply(filter, command.clone(), by, &Pace::full()).await.map_err(told)?;
        let few = sample(admin, filter, &command, is_table).await.map_err(told)?;
        Ok((counted, few.iter().map(EventDocument::of).collect()))
    }

    /// Carries a command out.
    pub(super) async fn apply(
        &self,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied, Failure> {
        let name = command.name();
        let applied = match self {
            Self::Store { store, .. } => store.apply(filter, command, by, pace).await,
            Self::Broker { admin, record } => record.apply(&**admin, filter, command, by, pace).await,
            Self::Server { client, broker } => {
                let path = path(filter, broker.as_deref(), &command, false, pace.per_second());
                return Ok(applied(&through(client, &path, pace.so_far()).await?));
            }
        };
        applied.map_err(|error| self.told(error, name))
    }

    /// The target of a server whose dead letters it leads to.
    pub(super) fn broker(&self) -> Option<&str> {
        match self {
            Self::Server { broker, .. } => broker.as_deref(),
            _ => None,
        }
    }

    /// Whether it leads to dead letters of a broker, here or by a server.
    pub(super) fn is_to_broker(&self) -> bool {
        matches!(self, Self::Broker { .. }) || self.broker().is_some()
    }

    /// Whose failure it is: the store's, or a broker's.
    fn told(&self, error: posthaste::Error, name: &str) -> Failure {
        let error = error.during(name);
        if matches!(self, Self::Broker { .. }) { Failure::target(&error) } else { error.into() }
    }
}

/// Asks a server to carry a command out, or only to count. What takes longer than a request may is watched until it has ended, and
/// stopped when whoever is told breaks it off.
async fn through(
    client: &Client,
    path: &str,
    so_far: &(dyn Fn(Applied) -> ControlFlow<()> + Send + Sync),
) -> Result<AppliedDocument, Failure> {
    let mut job = match client.give(path).await? {
        Given::Done(applied) => return Ok(applied),
        Given::Job(job) => job,
    };
    while job.state == "running" {
        let goes_on = so_far(Applied::new(job.applied.matched, job.applied.changed)).is_continue();
        if goes_on {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        job = client.job(&job.job, !goes_on).await?;
    }
    match job.problem {
        Some(problem) => Err(Failure::other(format!("{}: {}", job.applied.command, problem.detail))),
        None => Ok(job.applied),
    }
}

fn applied(document: &AppliedDocument) -> Applied {
    let mut applied = Applied::new(document.matched, document.changed);
    applied.is_partial = document.partial;
    applied
}

/// A filter as a server is told of it, but for the state, which is the verb's own; at a broker its lane is a
/// group.
pub(super) fn told_to_server(filter: &Filter, broker: Option<&str>) -> Vec<(&'static str, Option<String>)> {
    let mut pairs = query::pairs(choosing(), &filter.given());
    if let Some(broker) = broker {
        pairs.iter_mut().filter(|(name, _)| *name == "lane").for_each(|(name, _)| *name = "group");
        pairs.insert(0, ("broker", Some(broker.to_owned())));
    }
    pairs
}

/// Where a server takes a command, with all that it is to know.
fn path(
    filter: &Filter,
    broker: Option<&str>,
    command: &Command,
    dry_run: bool,
    rate: Option<NonZeroU32>,
) -> String {
    let kind = command.kind();
    // Whether somebody said --yes was asked here.
    let path = format!("/v1/commands/{}?dry_run={dry_run}&yes={}", kind.name, !dry_run);
    let mut pairs = told_to_server(filter, broker);
    pairs.push(("rate", rate.map(|rate| rate.to_string())));
    if kind.lanes == LaneNeed::OneOrAll && filter.lane.is_none() {
        pairs.push(("all", Some("true".to_owned())));
    }
    pairs.extend(query::pairs(kind.settings.iter(), &at_a_time(command).told()));
    with_query(&path, pairs)
}

/// The same command with a time in the place of a distance from now; a server takes nothing else.
fn at_a_time(command: &Command) -> Command {
    match command.clone() {
        Command::Schedule { at, dry_run } => Command::Schedule { at: Moment::At(resolved(at)), dry_run },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_all_that_a_command_says() {
        let mut filter = Filter::default();
        filter.lane = Some("main".parse().unwrap());
        filter.ids = vec!["a".to_owned(), "b c".to_owned()];
        let discard = Command::Discard { reason: "left".to_owned(), dry_run: false };
        assert_eq!(
            path(&filter, None, &discard, false, NonZeroU32::new(7)),
            "/v1/commands/discard?dry_run=false&yes=true&lane=main&id=a&id=b%20c&rate=7&reason=left"
        );
        let prune = Command::Prune {
            delivered_age: Some(Duration::from_secs(7 * 86_400)),
            dead_age: None,
            dry_run: true,
        };
        assert_eq!(
            path(&Filter::default(), None, &prune, true, None),
            "/v1/commands/prune?dry_run=true&yes=false&older_than=7d"
        );
        assert_eq!(
            path(&Filter::default(), None, &Command::Pause, false, None),
            "/v1/commands/pause?dry_run=false&yes=true&all=true"
        );
        let (mut filter, redrive) = (Filter::default(), Command::Redrive { dry_run: true });
        filter.lane = Some("mail".parse().unwrap());
        assert_eq!(
            path(&filter, Some("broker"), &redrive, true, None),
            "/v1/commands/redrive?dry_run=true&yes=false&broker=broker&group=mail"
        );
    }
}
