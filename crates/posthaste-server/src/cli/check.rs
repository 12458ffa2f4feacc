//! `posthaste check`: whether the configuration is right and, with `--connect`, whether everything it names is there.

use serde::Serialize;

use super::context::Context;
use super::output;
use crate::config;
use crate::exit::{Code, Failure};

/// What `check` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also open the store and every target
    #[arg(long)]
    connect: bool,
    /// Print the default configuration: every setting with its meaning
    #[arg(long, conflicts_with = "connect")]
    pub(super) print: bool,
}

/// What was looked at.
#[derive(Serialize)]
struct CheckDocument {
    name: String,
    ok: bool,
    /// It is allowed, and somebody should know.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    detail: String,
    #[serde(skip)]
    code: Code,
}

/// Everything that was looked at.
#[derive(Serialize)]
struct ReportDocument {
    ok: bool,
    checks: Vec<CheckDocument>,
}

/// The configuration was read before this is called, so it has no mistakes.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (lanes, targets) = (context.config.lanes.len(), context.config.targets.len());
    let read = format!("valid, {lanes} lanes, {targets} targets");
    let mut checks = vec![passed("configuration", read)];
    let addresses = config::target::addresses(&context.config);
    for (name, url) in addresses {
        checks.extend(posthaste::target::doubts(&url).into_iter().map(|doubt| warned(name.clone(), doubt)));
    }
    if args.connect {
        checks.push(check_store(context).await);
        checks.extend(check_targets(context).await);
    }
    let failed = checks.iter().find(|check| !check.ok).map(|check| (check.code, check.name.clone()));
    if context.json() {
        output::json(&ReportDocument { ok: failed.is_none(), checks })?;
    } else {
        for check in &checks {
            let mark = match (check.ok, check.warning) {
                (true, false) => "ok",
                (true, true) => "warning",
                (false, _) => "FAILED",
            };
            output::line(&format!("{mark:<7} {}: {}", check.name, check.detail))?;
        }
    }
    match failed {
        Some((code, name)) => Err(Failure::new(code, format!("check {name}"))),
        None => Ok(()),
    }
}

async fn check_store(context: &Context) -> CheckDocument {
    // A check leaves nothing behind, so it does not make the file.
    if let Some(file) = context.missing_file()
        && file.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir())
    {
        return passed("store", format!("{} is not there yet; the first start makes it", file.display()));
    }
    let status = async { context.existing_store().await?.status().await.map_err(Failure::from) };
    match status.await {
        Ok(status) if status.usable() => passed("store", format!("reachable, schema {}", status.wanted)),
        Ok(_) => failed("store", Failure::config("its tables are not ready; run posthaste migrate up")),
        Err(failure) => failed("store", failure),
    }
}

async fn check_targets(context: &Context) -> Vec<CheckDocument> {
    let mut checks = Vec::new();
    for (name, url) in config::target::addresses(&context.config) {
        let pinged = async { posthaste::target::open(&url)?.ping().await };
        checks.push(match pinged.await {
            Ok(()) => passed(name, "would take events".to_owned()),
            Err(error) => failed(name, Failure::target(&error)),
        });
    }
    checks
}

fn passed(name: impl Into<String>, detail: String) -> CheckDocument {
    CheckDocument { name: name.into(), ok: true, warning: false, detail, code: Code::Ok }
}

fn warned(name: impl Into<String>, doubt: &str) -> CheckDocument {
    CheckDocument { warning: true, ..passed(name, doubt.to_owned()) }
}

fn failed(name: impl Into<String>, failure: Failure) -> CheckDocument {
    CheckDocument {
        name: name.into(),
        ok: false,
        warning: false,
        detail: failure.to_string(),
        code: failure.code(),
    }
}
