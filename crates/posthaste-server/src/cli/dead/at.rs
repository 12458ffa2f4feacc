//! Whose dead events: of a lane in the store, or of a group at a broker.

use std::sync::Arc;

use posthaste::admin::{Admin, Command, EventState, Filter};
use posthaste::lane::LaneName;

use super::super::act::Action;
use super::super::context::Context;
use super::super::filter::{self, FilterArgs};
use super::super::record::Keeper;
use super::super::way::Way;
use crate::exit::Failure;

/// At which broker, in which group.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BrokerArgs {
    /// Look at the dead letters of this broker, like amqp://localhost or redis://localhost
    #[arg(long, value_name = "URL", requires = "group")]
    pub(super) broker: Option<String>,
    /// Of this group: the name of a consumer
    #[arg(long, value_name = "GROUP", requires = "broker", value_parser = filter::lane)]
    pub(super) group: Option<LaneName>,
}

/// A broker's dead letters, and which of them.
pub(super) struct Letters {
    pub(super) admin: Arc<dyn Admin>,
    way: Way,
    pub(super) filter: Filter,
}

impl BrokerArgs {
    /// The dead letters at the broker, if one was named.
    pub(super) fn letters(&self, args: &FilterArgs, context: &Context) -> Result<Option<Letters>, Failure> {
        let Some(url) = &self.broker else { return Ok(None) };
        if args.lane.is_some() {
            return Err(Failure::usage(
                "choose dead events: a lane is in the store; at a broker say --group GROUP",
            ));
        }
        let mut filter = args.filter(Some(EventState::Dead));
        filter.lane.clone_from(&self.group);
        let admin = open(url)?;
        let record = Keeper::new(Arc::clone(&context.config), url);
        Ok(Some(Letters { way: Way::Broker { admin: Arc::clone(&admin), record }, admin, filter }))
    }
}

impl Letters {
    /// What is done to them, and said about it.
    pub(super) fn action<'a>(&'a self, context: &'a Context) -> Action<'a> {
        Action::on_events(context, &self.way, &self.filter, "dead events")
    }
}

fn open(url: &str) -> Result<Arc<dyn Admin>, Failure> {
    Ok(posthaste::broker::dead_letters(url).map_err(|error| error.during("open the broker"))?)
}

/// Redriving what a broker has is asked for with `--yes`: handlers run again, in other processes.
pub(super) fn redrive(dry_run: bool) -> Command {
    Command::Redrive { dry_run }
}
