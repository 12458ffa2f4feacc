//! `posthaste serve`: REST and the configured lanes, until a signal.

use std::sync::Arc;

use super::context::Context;
use crate::config::Flag;
use crate::exit::Failure;
use crate::shutdown;

/// What `serve` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Listen here instead of server.listen
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,
}

impl Args {
    pub(super) fn flags(&self) -> Vec<Flag> {
        let listen = self.listen.clone().map(|value| Flag { flag: "--listen", path: "server.listen", value });
        listen.into_iter().collect()
    }
}

pub(super) async fn run(context: &Context) -> Result<(), Failure> {
    context.refuse_server()?;
    if context.config.store.table.is_some() {
        return Err(Failure::config(
            "serve: it keeps events in a log of its own; for store.engine = \"table\" there is posthaste relay",
        ));
    }
    let (config, supervisor) = (Arc::clone(&context.config), context.supervisor());
    stopped(shutdown::until_signalled(|shutdown| crate::serve::run(config, supervisor, shutdown)).await)
}

/// What a verb that runs until a signal answers. A second signal is an end like any other: what was in flight is
/// delivered again.
pub(super) fn stopped(outcome: std::io::Result<Option<Result<(), Failure>>>) -> Result<(), Failure> {
    ended(outcome).map(Option::unwrap_or_default)
}

/// The same for a verb that answers something; `None` after a second signal.
pub(super) fn ended<T>(outcome: std::io::Result<Option<Result<T, Failure>>>) -> Result<Option<T>, Failure> {
    outcome.map_err(|error| Failure::other(format!("listen to signals: {error}")))?.transpose()
}
