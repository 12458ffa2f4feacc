//! `posthaste check`: whether the configuration is right and, with `--connect`, whether everything it names is there.
//!
//! Without `--connect` it stays on this machine: it reads addresses, and looks into a database that is a file
//! here. What it did not look at, it says.

use posthaste::findings::{Finding, Mend, Verdict};
use serde::Serialize;

use super::context::Context;
use super::output;
use super::report::{self, ShowArgs, of_configuration};
use crate::config;
use crate::exit::{Code, Failure};

/// What `check` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Also connect to the store and to every target
    #[arg(long)]
    connect: bool,
    #[command(flatten)]
    show: ShowArgs,
    /// Print the default configuration: every setting with its meaning
    #[arg(long, conflicts_with_all = ["connect", "problems"])]
    pub(super) print: bool,
}

/// What was looked at.
#[derive(Serialize)]
struct CheckDocument<'a> {
    name: &'a str,
    ok: bool,
    /// It is allowed, and somebody should know.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    warning: bool,
    detail: &'a str,
}

/// Everything that was looked at.
#[derive(Serialize)]
struct ReportDocument<'a> {
    ok: bool,
    checks: Vec<CheckDocument<'a>>,
    /// What only `--connect` looks at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_checked: Vec<&'static str>,
}

/// What was found, and the exit code of the first failure.
#[derive(Default)]
struct Checked {
    found: Vec<Finding>,
    failed: Option<(Code, String)>,
}

impl Checked {
    fn failed(&mut self, name: impl Into<String>, failure: &Failure) {
        let name = name.into();
        self.failed.get_or_insert((failure.code(), name.clone()));
        let mut finding = Finding::ok(name, failure.to_string());
        finding.verdict = Verdict::Failure;
        self.found.push(finding);
    }
}

/// The configuration was read before this is called, so it has no mistakes.
pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let mut checked = Checked { found: vec![of_configuration(context)], failed: None };
    for (name, url) in config::target::addresses(&context.config) {
        let doubts = posthaste::target::doubts(&url).into_iter();
        checked.found.extend(doubts.map(|doubt| {
            Finding::warning(name.clone(), doubt, Mend::words("keep it if that is what you want"))
        }));
    }
    let not_checked = if args.connect {
        check_store(&mut checked, context).await;
        check_targets(&mut checked, context).await;
        Vec::new()
    } else {
        check_here(&mut checked, context).await
    };
    show(args, context, &checked, not_checked)?;
    match checked.failed {
        Some((code, name)) => Err(Failure::new(code, format!("check {name}"))),
        None => Ok(()),
    }
}

fn show(
    args: &Args,
    context: &Context,
    checked: &Checked,
    not_checked: Vec<&'static str>,
) -> Result<(), Failure> {
    if context.json() {
        let checks = args.show.chosen(&checked.found).into_iter().map(document).collect();
        return output::json(&ReportDocument { ok: checked.failed.is_none(), checks, not_checked });
    }
    report::show(&checked.found, args.show, context.is_coloured())?;
    if not_checked.is_empty() {
        return Ok(());
    }
    output::line(&format!("only check --connect finds out {}", not_checked.join("; ")))
}

fn document(finding: &Finding) -> CheckDocument<'_> {
    let (ok, warning) = (finding.verdict != Verdict::Failure, finding.verdict == Verdict::Warning);
    CheckDocument { name: &finding.check, ok, warning, detail: &finding.seen }
}

/// What can be found out without a connection; answers what cannot.
async fn check_here(checked: &mut Checked, context: &Context) -> Vec<&'static str> {
    let store = &context.config.store;
    let is_here = store.database_file().is_some();
    match store.database_file().map(|file| file.is_file()) {
        Some(true) => check_store(checked, context).await,
        // The first start makes the file of a log, which may be on another machine than this one.
        Some(false) => {}
        // Opens no connection, but reads the address.
        None => match config::store::open_existing(&context.config).await {
            Ok(_) => {}
            Err(error) => checked.failed("store", &Failure::from(error)),
        },
    }
    let mut not_checked = Vec::new();
    match store.table {
        Some(_) if !is_here => {
            not_checked.push("whether the store can be reached and its table has every column that it needs");
        }
        None if !is_here => not_checked.push("whether the store can be reached and its tables are ready"),
        _ => {}
    }
    if !config::target::addresses(&context.config).is_empty() {
        not_checked.push("whether the targets take events");
    }
    not_checked
}

async fn check_store(checked: &mut Checked, context: &Context) {
    // A check leaves nothing behind, so it does not make the file.
    if let Some(file) = context.missing_file()
        && context.config.store.table.is_none()
        && file.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir())
    {
        let seen = format!("{} is not there yet; the first start makes it", file.display());
        return checked.found.push(Finding::ok("store", seen));
    }
    let status = async { context.existing_store().await?.status().await.map_err(Failure::from) };
    match status.await {
        Ok(status) if status.usable() && context.config.store.table.is_some() => {
            let seen = "reachable, and the table has every column that it needs";
            checked.found.push(Finding::ok("store", seen));
        }
        Ok(status) if status.usable() => {
            checked.found.push(Finding::ok("store", format!("reachable, schema {}", status.wanted)));
        }
        Ok(_) => {
            checked.failed("store", &Failure::config("its tables are not ready; run posthaste migrate up"))
        }
        Err(failure) => checked.failed("store", &failure),
    }
}

async fn check_targets(checked: &mut Checked, context: &Context) {
    for (name, url) in config::target::addresses(&context.config) {
        let pinged = async { posthaste::target::open(&url)?.ping().await };
        match pinged.await {
            Ok(()) => checked.found.push(Finding::ok(name, "would take events")),
            Err(error) => checked.failed(name, &Failure::target(&error)),
        }
    }
}
