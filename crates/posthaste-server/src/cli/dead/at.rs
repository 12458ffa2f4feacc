//! Whose dead events: of a lane in the store, or of a group at a broker, which is asked here or by a server.

use posthaste::admin::{Command, EventState, Filter, Found, Page};
use posthaste::lane::LaneName;
use posthaste::review::DeadCodes;

use super::super::act::Action;
use super::super::context::Context;
use super::super::event::show::only;
use super::super::filter::{self, encoded, with_query};
use super::super::way::{Way, told_to_server};
use crate::exit::Failure;
use crate::http::dead::LETTERS_MAX;
use crate::http::events::page_of_one;
use crate::http::history;
use crate::http::wire::{DeadCodePage, EventDocument, EventPage};

/// At which broker, in which group.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BrokerArgs {
    /// Look at the dead letters of this broker: the name of a target in the configuration, or a URL like amqp://localhost
    #[arg(long, value_name = "TARGET", requires = "group")]
    pub(super) broker: Option<String>,
    /// Of this group: the name of a consumer
    #[arg(long, value_name = "GROUP", requires = "broker", value_parser = filter::lane)]
    pub(super) group: Option<LaneName>,
}

/// A broker's dead letters, and which of them.
pub(super) struct Letters {
    way: Way,
    filter: Filter,
}

impl BrokerArgs {
    /// The dead letters at the broker, if one was named.
    pub(super) fn letters(&self, chosen: &Filter, context: &Context) -> Result<Option<Letters>, Failure> {
        let Some(broker) = &self.broker else { return Ok(None) };
        if chosen.lane.is_some() {
            return Err(Failure::usage(
                "choose dead events: a lane is in the store; at a broker say --group GROUP",
            ));
        }
        let mut filter = chosen.clone();
        filter.state = Some(EventState::Dead);
        filter.lane.clone_from(&self.group);
        Ok(Some(Letters { way: context.way_to_broker(broker)?, filter }))
    }
}

impl Letters {
    /// What is done to them, and said about it.
    pub(super) fn action<'a>(&'a self, context: &'a Context) -> Action<'a> {
        Action::on_events(context, &self.way, &self.filter, "dead events")
    }

    /// A page of them.
    pub(super) async fn list(&self, page: Page) -> Result<EventPage, Failure> {
        if let Way::Server { client, .. } = &self.way {
            let mut pairs = self.pairs();
            pairs.push(("after", page.after.clone()));
            let listed = client.get(&with_query(&format!("/v1/dead?limit={}", page.size), pairs)).await?;
            return listed.ok_or_else(unknown_group);
        }
        Ok(EventPage::of(&self.found(page, "list dead events").await?))
    }

    /// The one with this id, with its payload.
    pub(super) async fn one(&self, id: &str, source: Option<&str>) -> Result<Option<EventDocument>, Failure> {
        if let Way::Server { client, .. } = &self.way {
            let mut pairs = self.pairs();
            pairs.retain(|(name, _)| matches!(*name, "broker" | "group"));
            pairs.push(("source", source.map(str::to_owned)));
            return client.get(&with_query(&format!("/v1/events/{}?", encoded(id)), pairs)).await;
        }
        let found = self.found(page_of_one(), "show the event").await?;
        Ok(only(found.records, source)?.as_ref().map(history::without_commands))
    }

    /// What they died of.
    pub(super) async fn codes(&self) -> Result<DeadCodePage, Failure> {
        if let Way::Server { client, .. } = &self.way {
            let mut pairs = self.pairs();
            pairs.retain(|(name, _)| matches!(*name, "broker" | "group" | "code" | "error"));
            return client.get(&with_query("/v1/dead/codes?", pairs)).await?.ok_or_else(unknown_group);
        }
        let found = self.found(Page::first(LETTERS_MAX), "count dead events by code").await?;
        Ok(DeadCodePage::of(&DeadCodes::of(&self.filter, &found.records, found.next.is_some())))
    }

    /// As the broker itself says.
    async fn found(&self, page: Page, doing: &str) -> Result<Found, Failure> {
        let Way::Broker { admin, .. } = &self.way else {
            return Err(Failure::other(format!("{doing}: only a broker has dead letters")));
        };
        admin.find(&self.filter, page).await.map_err(|error| Failure::target(&error.during(doing)))
    }

    fn pairs(&self) -> Vec<(&'static str, Option<String>)> {
        told_to_server(&self.filter, self.way.broker())
    }
}

fn unknown_group() -> Failure {
    Failure::nothing(
        "ask the server: it knows no such group, or no target of this name that keeps dead letters",
    )
}

/// Redriving what a broker has is asked for with `--yes`: handlers run again, in other processes.
pub(super) fn redrive(dry_run: bool) -> Command {
    Command::Redrive { dry_run }
}
