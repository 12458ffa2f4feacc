//! `posthaste relay`: drives the configured lanes, until a signal or, with `--once`, until nothing is due.

use std::sync::Arc;
use std::time::Duration;

use posthaste::relay::Report;
use posthaste::schema::Backend;
use serde::Serialize;

use super::context::{Context, open_failure};
use super::output;
use super::serve::stopped;
use super::words::counted;
use crate::config::relay::Targets;
use crate::config::{self, Config, Flag, STORAGE_URL};
use crate::exit::{Code, Failure};
use crate::http::Watched;
use crate::shutdown::{self, Shutdown};
use crate::supervisor::Supervisor;

const STORE_PAUSE_MIN: Duration = Duration::from_millis(100);
const STORE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// What `relay` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Deliver what is due now, then end
    #[arg(long)]
    once: bool,
    /// Drive the lane `main` to this target, like stdout:
    #[arg(long, value_name = "URL")]
    to: Option<String>,
    /// Relay an outbox table that is there already, in this database (as --store, with store.engine = "table")
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    storage_url: Option<String>,
    /// The same as --to
    #[arg(long, value_name = "URL", conflicts_with = "to")]
    publisher: Option<String>,
    /// What kind of table it is: open-outbox, servicekit, axcom, debezium, custom
    #[arg(long, value_name = "NAME", requires = "storage_url")]
    profile: Option<String>,
    /// The table's name, where it is not the profile's
    #[arg(long, value_name = "NAME", requires = "storage_url")]
    table: Option<String>,
}

impl Args {
    pub(super) fn flags(&self) -> Vec<Flag> {
        let table = self.storage_url.as_ref().map(|_| "table".to_owned());
        [
            ("--to", "lanes.main.to", &self.to),
            ("--publisher", "lanes.main.to", &self.publisher),
            (STORAGE_URL, "store.url", &self.storage_url),
            (STORAGE_URL, "store.engine", &table),
            ("--profile", "store.profile", &self.profile),
            ("--table", "store.table", &self.table),
        ]
        .into_iter()
        .filter_map(|(flag, path, value)| Some(Flag { flag, path, value: value.clone()? }))
        .collect()
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    context.refuse_server()?;
    for note in context.notes() {
        tracing::warn!("{note}");
    }
    if context.config.store.table.is_some() && context.config.lanes.len() > 1 {
        return Err(Failure::config(
            "relay: a row of an outbox table has one state, so the table has one lane; leave one of the lanes",
        ));
    }
    if context.config.lanes.is_empty() {
        return Err(Failure::config(
            "relay: no lane is configured; add [lanes.main] with to = \"stdout:\" to posthaste.toml, or say --to URL",
        ));
    }
    if args.once {
        return once(context).await;
    }
    let (config, supervisor) = (&context.config, context.supervisor());
    stopped(shutdown::until_signalled(|shutdown| relay(config, supervisor, shutdown)).await)
}

async fn relay(config: &Config, supervisor: Supervisor, shutdown: Shutdown) -> Result<(), Failure> {
    let Some(store) = wait_for_store(config, &shutdown).await? else { return Ok(()) };
    let targets = Targets::open(config)?;
    let relay = config::relay::build(config, Arc::clone(&store), &targets)?;
    let watched = Watched {
        targets: targets.shown(),
        are_needed: true,
        loops: relay.heartbeats(),
        tenures: relay.tenures(),
    };
    let stop = async {
        shutdown.begun().await;
        supervisor.stopping();
    };
    let relaying = async { relay.run(stop).await.map_err(|error| error.during("relay").into()) };
    supervisor.ready();
    crate::serve::beside(config, store, watched, supervisor.clone(), relaying).await
}

/// Opens the store, waiting while it is away. `None`: the end was asked for meanwhile.
async fn wait_for_store(config: &Config, shutdown: &Shutdown) -> Result<Option<Arc<dyn Backend>>, Failure> {
    let mut pause = STORE_PAUSE_MIN;
    loop {
        match config::store::open(config).await {
            Ok(store) => return Ok(Some(store)),
            Err(error) if error.retryable() => {
                tracing::warn!(%error, "the store is unreachable; trying again")
            }
            Err(error) => return Err(open_failure(error)),
        }
        if tokio::time::timeout(pause, shutdown.begun()).await.is_ok() {
            return Ok(None);
        }
        pause = (pause * 2).min(STORE_PAUSE_MAX);
    }
}

/// What `relay --once` answers as JSON.
#[derive(Serialize)]
struct ReportDocument {
    delivered: u64,
    retried: u64,
    dead: u64,
    lanes_skipped: u64,
    lanes_unavailable: u64,
}

async fn once(context: &Context) -> Result<(), Failure> {
    let store = context.store().await?;
    let targets = Targets::open(&context.config)?;
    let report = config::relay::build(&context.config, store, &targets)?.once().await;
    let report = report.map_err(|error| error.during("relay"))?;
    let Report { delivered, retried, dead, lanes_skipped, lanes_unavailable, .. } = report;
    if context.json() {
        output::json(&ReportDocument { delivered, retried, dead, lanes_skipped, lanes_unavailable })?;
    } else {
        // On stderr, because a lane may deliver to stdout.
        output::note(&format!("delivered {delivered}, to be tried again {retried}, dead {dead}"));
    }
    if lanes_unavailable > 0 {
        let lanes = counted(lanes_unavailable, "lanes");
        let message = format!("deliver: {lanes} waiting for a target that takes no events");
        return Err(Failure::new(Code::Target, message));
    }
    Ok(())
}
