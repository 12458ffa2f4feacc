//! The store: whether it is there, of this version, and well.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Command, Filter, Pace, all_lanes};
use posthaste::findings::{Finding, Mend, asked};
use posthaste::lane::LaneSpec;
use posthaste::schema::{Backend, SchemaStatus};

use super::super::context::Context;
use super::lanes;
use crate::config::{self, Config, unit};

/// How long the store may take to be opened and to say its version.
const OPEN_WITHIN: Duration = Duration::from_secs(8);
/// How long each look at what it holds may take.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// More delivered rows than this beyond `store.retain` were forgotten.
const OLD_ROWS_MAX: u64 = 10_000;

/// Everything about the store.
pub(super) async fn examine(context: &Context) -> Vec<Finding> {
    let config = &*context.config;
    if let Some(file) = context.missing_file()
        && config.store.table.is_none()
        && file.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir())
    {
        let seen = format!("{} is not there yet; the first start makes it", file.display());
        return vec![Finding::ok("store", seen)];
    }
    let mut found = Vec::new();
    let opened = async {
        let store = config::store::open_to_look(config).await?;
        let status = store.status().await?;
        Ok((store, status))
    };
    let (store, status) = match tokio::time::timeout(OPEN_WITHIN, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return vec![Finding::error("store", &error)],
        Err(_) => {
            let seen = format!("it does not answer within {OPEN_WITHIN:?}");
            let mend = Mend::words("look whether its server runs and can be reached from here");
            return vec![Finding::failure("store", seen, mend)];
        }
    };
    found.push(Finding::ok("store", "reachable"));
    found.push(schema(&status, config));
    let specs: Vec<LaneSpec> = config.lanes.iter().map(|(name, lane)| spec(name, lane)).collect();
    found.extend(store.examine(&specs).await);
    if status.usable() {
        let looked = async { Ok(lanes::examine(&all_lanes(&*store).await?, config)) };
        found.extend(asked("lanes", LOOK_WITHIN, looked).await);
        if config.store.table.is_some() {
            found.extend(asked("growth", LOOK_WITHIN, growth(&store, context)).await);
        }
    }
    found
}

fn spec(name: &posthaste::lane::LaneName, lane: &config::lane::LaneConfig) -> LaneSpec {
    let mut spec = LaneSpec::new(name.clone());
    spec.topics.clone_from(&lane.topics);
    spec.order = lane.order;
    spec
}

fn schema(status: &SchemaStatus, config: &Config) -> Finding {
    let wanted = status.wanted;
    match status.present {
        _ if status.usable() && config.store.table.is_some() => {
            Finding::ok("schema", "the table has what its profile needs, and this user its rights")
        }
        _ if status.usable() => Finding::ok("schema", format!("{wanted}, as this binary wants it")),
        None => Finding::failure("schema", "there are no tables yet", Mend::command("posthaste migrate up")),
        Some(present) if present < wanted => Finding::failure(
            "schema",
            format!("{present}, and this binary wants {wanted}"),
            Mend::command("posthaste migrate up"),
        ),
        Some(present) => Finding::failure(
            "schema",
            format!("{present}, made by a newer release than this binary, which knows {wanted}"),
            Mend::words("use a newer binary"),
        ),
    }
}

/// Whether rows that were delivered long ago are still there: nobody but their owner removes them, unless asked to.
async fn growth(store: &Arc<dyn Backend>, context: &Context) -> posthaste::Result<Vec<Finding>> {
    let retain = context.config.store.retain;
    let prune = Command::Prune { delivered_age: Some(retain), dead_age: None, dry_run: true };
    let old = store.apply(&Filter::default(), prune, &context.actor(), &Pace::full()).await?.matched;
    let seen =
        format!("{old} rows were delivered longer ago than store.retain ({})", unit::show_duration(retain));
    Ok(vec![if old <= OLD_ROWS_MAX {
        Finding::ok("growth", seen)
    } else {
        Finding::warning("growth", format!("{seen}, and the table grows"), Mend::command("posthaste prune"))
    }])
}
