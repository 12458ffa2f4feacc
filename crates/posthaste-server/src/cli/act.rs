//! Doing something to what matches: count first, ask for `--yes` where it cannot be undone, then do it.

use std::ops::ControlFlow;

use posthaste::admin::{Admin, Applied, Command, Filter};
use serde::Serialize;

use super::context::Context;
use super::output;
use super::serve::stopped;
use crate::exit::Failure;
use crate::shutdown::{Shutdown, until_signalled};

/// Whether to do it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct DryRun {
    /// Only count
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Whether to do it for good.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Consent {
    /// Only count
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do it: this cannot be undone
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) yes: bool,
}

/// What was done.
#[derive(Serialize)]
struct AppliedDocument<'a> {
    command: &'a str,
    matched: u64,
    changed: u64,
    dry_run: bool,
    /// Whether somebody stopped it before all was done.
    stopped: bool,
}

/// An action in words: `discard`, `12 dead events`.
pub(super) struct Action<'a> {
    pub(super) context: &'a Context,
    /// The store, or a broker.
    pub(super) admin: &'a dyn Admin,
    pub(super) filter: &'a Filter,
    /// What stands between the verb and the count: `lane main with`, or nothing.
    pub(super) object: String,
    /// What is counted: `dead events`.
    pub(super) what: &'a str,
    /// Whether it is a failure that nothing matched: for what was chosen by somebody, not for upkeep.
    pub(super) nothing_fails: bool,
    /// Whose failure it is: the store's, or a broker's.
    pub(super) failure: fn(posthaste::Error) -> Failure,
}

impl<'a> Action<'a> {
    /// On events of a store that somebody chose: that there are none is a failure.
    pub(super) fn on_events(
        context: &'a Context,
        admin: &'a dyn Admin,
        filter: &'a Filter,
        what: &'a str,
    ) -> Self {
        let object = String::new();
        Self { context, admin, filter, object, what, nothing_fails: true, failure: Failure::from }
    }
}

impl Action<'_> {
    /// Does what can be undone, or only counts.
    pub(super) async fn run(&self, dry: DryRun, command: impl Fn(bool) -> Command) -> Result<(), Failure> {
        let applied = self.apply(command(dry.dry_run)).await?;
        self.tell(applied, &command(true), dry.dry_run, false)
    }

    /// Does what cannot be undone, if somebody said `--yes`; counts it in any case.
    pub(super) async fn run_for_good(
        &self,
        consent: Consent,
        command: impl Fn(bool) -> Command,
    ) -> Result<(), Failure> {
        if consent.yes {
            let applied = self.apply(command(false)).await?;
            return self.tell(applied, &command(true), false, false);
        }
        let counted = self.apply(command(true)).await?;
        if consent.dry_run {
            return self.tell(counted, &command(true), true, false);
        }
        let (name, matched) = (command(true).name(), counted.matched);
        self.refuse_nothing(counted)?;
        Err(Failure::usage(format!(
            "{name} {}{matched} {}: this cannot be undone; say --yes to do it",
            self.object, self.what
        )))
    }

    /// As [`run_for_good`](Self::run_for_good), for what is done one by one and may take long: shows how far it is, and a signal
    /// stops it between two of them.
    pub(super) async fn run_step_by_step(
        &self,
        consent: Consent,
        command: impl Fn(bool) -> Command,
    ) -> Result<(), Failure> {
        if !consent.yes {
            return self.run_for_good(consent, command).await;
        }
        let all = self.apply(command(true)).await?.matched;
        let work = async |shutdown: Shutdown| {
            let name = command(true).name();
            let progress = output::progress(name, self.what, all);
            let so_far = |done: Applied| {
                progress.at(done.changed);
                if shutdown.has_begun() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let actor = self.context.actor();
            let applied = self.admin.apply_telling(self.filter, command(false), &actor, &so_far).await;
            progress.finish();
            let mut applied = applied.map_err(|error| (self.failure)(error.during(name)))?;
            // Stopped, it has not seen them all; and more may have come since they were counted.
            let stopped = shutdown.has_begun() && applied.changed < all;
            applied.matched = applied.matched.max(all);
            self.tell(applied, &command(true), false, stopped)
        };
        stopped(until_signalled(work).await)
    }

    async fn apply(&self, command: Command) -> Result<Applied, Failure> {
        let name = command.name();
        let spinner = output::spinner(name);
        let applied = self.admin.apply(self.filter, command, &self.context.actor()).await;
        spinner.finish_and_clear();
        applied.map_err(|error| (self.failure)(error.during(name)))
    }

    fn tell(&self, applied: Applied, command: &Command, dry_run: bool, stopped: bool) -> Result<(), Failure> {
        let Applied { matched, changed, .. } = applied;
        if self.context.json() {
            output::json(&AppliedDocument { command: command.name(), matched, changed, dry_run, stopped })?;
        } else if dry_run {
            output::line(&format!("would {} {}{matched} {}", command.name(), self.object, self.what))?;
        } else if matched > 0 || !self.nothing_fails {
            let (name, end) = (command.name(), if stopped { "; stopped when asked to" } else { "" });
            output::line(&format!("{name}: {}{changed} of {matched} {}{end}", self.object, self.what))?;
        }
        self.refuse_nothing(applied)
    }

    fn refuse_nothing(&self, applied: Applied) -> Result<(), Failure> {
        if applied.matched == 0 && self.nothing_fails {
            return Err(Failure::nothing(format!("find any {} that match", self.what)));
        }
        Ok(())
    }
}
