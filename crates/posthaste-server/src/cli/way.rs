//! The way of a command: straight to the store, through a server, or to a broker.

use std::num::NonZeroU32;
use std::sync::Arc;

use posthaste::admin::{Actor, Admin, Applied, Command, Filter, Pace, Seek};
use posthaste::schema::Backend;

use super::client::Client;
use super::filter::{filter_pairs, with_query};
use super::moment::resolved;
use super::record::Keeper;
use crate::config::unit;
use crate::exit::Failure;
use crate::http::wire::{AppliedDocument, EventDocument};
use crate::sample::sample;

/// The way of a command.
pub(super) enum Way {
    /// Straight to the store: a log, or an outbox table.
    Store { store: Arc<dyn Backend>, is_table: bool },
    /// Through a server.
    Server(Client),
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
            Self::Server(client) => {
                let counted = give(client, filter, &command, true, None).await?;
                return Ok((Applied::new(counted.matched, counted.changed), counted.sample));
            }
        };
        let told = |error: posthaste::Error| self.told(error, command.name());
        let counted = admin.apply(filter, command.clone(), by).await.map_err(told)?;
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
            Self::Store { store, .. } => store.apply_paced(filter, command, by, pace).await,
            Self::Broker { admin, record } => record.apply(&**admin, filter, command, by, pace).await,
            Self::Server(client) => return through(client, filter, &command, pace).await,
        };
        applied.map_err(|error| self.told(error, name))
    }

    /// Whose failure it is: the store's, or a broker's.
    fn told(&self, error: posthaste::Error, name: &str) -> Failure {
        let error = error.during(name);
        if matches!(self, Self::Broker { .. }) { Failure::target(&error) } else { error.into() }
    }
}

/// A server stops a command when the time for a request is over; what is left is done by the next one.
async fn through(
    client: &Client,
    filter: &Filter,
    command: &Command,
    pace: &Pace<'_>,
) -> Result<Applied, Failure> {
    let mut applied = Applied::default();
    loop {
        let step = give(client, filter, command, false, pace.per_second()).await?;
        applied = Applied::new(applied.matched + step.matched, applied.changed + step.changed);
        if !step.stopped {
            return Ok(applied);
        }
        // What these have changed they would change once more.
        if matches!(command, Command::Replay { .. } | Command::Schedule { .. }) {
            return Err(Failure::other(format!(
                "{}: the server did {} and had no time for more; choose fewer by --since and --until, or use --store URL",
                command.name(),
                applied.changed
            )));
        }
        if (pace.so_far())(applied).is_break() {
            return Ok(applied);
        }
    }
}

/// Asks a server to carry a command out, or only to count.
async fn give(
    client: &Client,
    filter: &Filter,
    command: &Command,
    dry_run: bool,
    rate: Option<NonZeroU32>,
) -> Result<AppliedDocument, Failure> {
    client.post(&path(filter, command, dry_run, rate), Vec::new()).await
}

/// Where a server takes a command, with all that it is to know.
fn path(filter: &Filter, command: &Command, dry_run: bool, rate: Option<NonZeroU32>) -> String {
    // Whether somebody said --yes was asked here.
    let path = format!("/v1/commands/{}?dry_run={dry_run}&yes={}", command.name(), !dry_run);
    let mut pairs = filter_pairs(filter);
    pairs.push(("rate", rate.map(|rate| rate.to_string())));
    match command {
        Command::Discard { reason, .. } | Command::Bury { reason, .. } => {
            pairs.push(("reason", Some(reason.clone())));
        }
        Command::Schedule { at, .. } => pairs.push(("at", Some(resolved(*at).to_string()))),
        Command::Seek { to, .. } => {
            let to = match to {
                Seek::Beginning => "beginning".to_owned(),
                Seek::Time(time) => time.to_string(),
                _ => "end".to_owned(),
            };
            pairs.push(("to", Some(to)));
        }
        Command::Pause | Command::Resume if filter.lane.is_none() => {
            pairs.push(("all", Some("true".to_owned())));
        }
        Command::Prune { delivered_age, dead_age, .. } => {
            pairs.push(("older_than", delivered_age.map(unit::show_duration)));
            pairs.push(("dead_older_than", dead_age.map(unit::show_duration)));
        }
        Command::PruneInbox { age, .. } => pairs.push(("older_than", Some(unit::show_duration(*age)))),
        Command::Rebase { upgraded, .. } => pairs.push(("upgraded", Some(upgraded.to_string()))),
        _ => {}
    }
    with_query(&path, pairs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_server_is_told_all_that_a_command_says() {
        let mut filter = Filter::default();
        filter.lane = Some("main".parse().unwrap());
        filter.ids = vec!["a".to_owned(), "b c".to_owned()];
        let discard = Command::Discard { reason: "left".to_owned(), dry_run: false };
        assert_eq!(
            path(&filter, &discard, false, NonZeroU32::new(7)),
            "/v1/commands/discard?dry_run=false&yes=true&lane=main&id=a&id=b%20c&rate=7&reason=left"
        );
        let prune = Command::Prune {
            delivered_age: Some(Duration::from_secs(7 * 86_400)),
            dead_age: None,
            dry_run: true,
        };
        assert_eq!(
            path(&Filter::default(), &prune, true, None),
            "/v1/commands/prune?dry_run=true&yes=false&older_than=7d"
        );
        assert_eq!(
            path(&Filter::default(), &Command::Pause, false, None),
            "/v1/commands/pause?dry_run=false&yes=true&all=true"
        );
    }
}
