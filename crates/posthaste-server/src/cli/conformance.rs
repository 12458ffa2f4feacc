//! `conformance`: hands the configured store and its profile to the kit in `posthaste-conformance`.

use posthaste::table::Profile;
use posthaste_conformance::{ConformanceArgs, ConformanceStore};

use super::context::Context;
use crate::config::{Flag, is_of_reference};
use crate::exit::Failure;

/// What `conformance` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The profile of the table that is made [default: store.profile]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    kit: ConformanceArgs,
}

impl Args {
    /// Settings that the flags make.
    pub(super) fn flags(&self) -> Vec<Flag> {
        let engine = Flag { flag: "conformance", path: "store.engine", value: "table".to_owned() };
        let profile =
            self.profile.clone().map(|value| Flag { flag: "--profile", path: "store.profile", value });
        std::iter::once(engine).chain(profile).collect()
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let store = &context.config.store;
    let profile = store.table.as_ref().map_or_else(Profile::open_outbox, |table| table.profile.clone());
    let store = ConformanceStore { url: store.url.clone(), profile, is_setting };
    posthaste_conformance::run(&args.kit, store, context.json()).await
}

/// Whether the configuration reads an environment variable of this name.
fn is_setting(name: &str) -> bool {
    name.starts_with("POSTHASTE") || is_of_reference(name)
}
