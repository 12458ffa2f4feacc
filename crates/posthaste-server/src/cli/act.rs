//! Doing something to what matches: count first, ask for `--yes` where it cannot be undone, then do it, step by step, until it is done
//! or somebody stops it.

use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste::admin::{Applied, Command, Filter, Pace, Subject};

use super::context::Context;
use super::event::list::show;
use super::output;
use super::serve::ended;
use super::way::Way;
use super::words;
use crate::config::unit;
use crate::exit::Failure;
use crate::http::wire::{AppliedDocument, EventDocument, EventPage};
use crate::shutdown::{Shutdown, until_signalled};

/// Whether to do it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct DryRun {
    /// Only count, and show a few of them
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Whether to do it for good.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Consent {
    /// Only count, and show a few of them
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do it: this cannot be undone
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) yes: bool,
}

/// How fast to do it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct RateArgs {
    /// At most so many events a second, like 100/s
    #[arg(long, value_name = "N/s", value_parser = unit::rate)]
    pub(super) rate: Option<NonZeroU32>,
}

/// How a command is carried out, as somebody said it.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    dry_run: bool,
    /// Whether it can be undone, or somebody said `--yes`.
    is_allowed: bool,
    rate: Option<NonZeroU32>,
}

impl From<DryRun> for How {
    fn from(DryRun { dry_run }: DryRun) -> Self {
        Self { dry_run, is_allowed: true, rate: None }
    }
}

impl From<Consent> for How {
    fn from(Consent { dry_run, yes }: Consent) -> Self {
        Self { dry_run, is_allowed: yes, rate: None }
    }
}

impl How {
    /// No faster than this.
    pub(super) fn at(self, RateArgs { rate }: RateArgs) -> Self {
        Self { rate, ..self }
    }
}

/// An action in words: `discard`, `12 dead events`.
pub(super) struct Action<'a> {
    pub(super) context: &'a Context,
    /// To the store, through a server, or to a broker.
    pub(super) way: &'a Way,
    pub(super) filter: &'a Filter,
    /// What stands between the verb and the count: `lane main with`, or nothing.
    pub(super) object: String,
    /// What is counted, several of it: `dead events`.
    pub(super) what: &'a str,
    /// Whether it is a failure that nothing matched: for what was chosen by somebody, not for upkeep.
    pub(super) nothing_fails: bool,
}

impl<'a> Action<'a> {
    /// On events that somebody chose: that there are none is a failure.
    pub(super) fn on_events(context: &'a Context, way: &'a Way, filter: &'a Filter, what: &'a str) -> Self {
        Self { context, way, filter, object: String::new(), what, nothing_fails: true }
    }
}

impl Action<'_> {
    /// Does it, or only counts: also where it cannot be undone and nobody said `--yes`.
    pub(super) async fn run(
        &self,
        how: impl Into<How>,
        command: impl Fn(bool) -> Command,
    ) -> Result<(), Failure> {
        let how = how.into();
        if how.is_allowed && !how.dry_run {
            return self.carry_out(how.rate, command).await;
        }
        let (counted, sample) = self.count(command(true)).await?;
        let kind = command(true).kind();
        let name = kind.name;
        if how.dry_run {
            return self.tell(name, counted, true, false, sample);
        }
        if counted.matched == 0 && !counted.is_partial && kind.subject != Subject::Lanes {
            // There is nothing to consent to.
            return self.tell(name, counted, false, false, sample);
        }
        self.refuse_nothing(counted)?;
        Err(Failure::usage(format!(
            "{name} {}{}{}: this cannot be undone; say --yes to do it",
            self.object,
            at_least(counted),
            words::counted(counted.matched, self.what)
        )))
    }

    async fn count(&self, command: Command) -> Result<(Applied, Vec<EventDocument>), Failure> {
        let spinner = output::spinner(command.name());
        let counted = self.way.count(self.filter, command, &self.context.actor()).await;
        spinner.finish_and_clear();
        counted
    }

    async fn carry_out(
        &self,
        rate: Option<NonZeroU32>,
        command: impl Fn(bool) -> Command,
    ) -> Result<(), Failure> {
        let name = command(true).name();
        match self.apply(rate, command).await? {
            Some((applied, is_broken_off)) => self.tell(name, applied, false, is_broken_off, Vec::new()),
            None => Ok(()),
        }
    }

    /// Does it and shows how far it is. A signal stops it between two steps, and what was done till then is
    /// recorded. Answers what was done and whether it was stopped; `None` after a second signal.
    pub(super) async fn apply(
        &self,
        rate: Option<NonZeroU32>,
        command: impl Fn(bool) -> Command,
    ) -> Result<Option<(Applied, bool)>, Failure> {
        let name = command(true).name();
        // A broker is asked letter by letter anyway. A store is asked twice only for somebody who watches.
        let is_watched = std::io::stderr().is_terminal() && command(true).kind().is_in_steps;
        let counted = match self.way.is_to_broker() {
            true => Some(self.count(command(true)).await?.0),
            // A long table may take too long to count, and be changed step by step all the same.
            false if is_watched => self.count(command(true)).await.ok().map(|(counted, _)| counted),
            false => None,
        };
        let all = counted.filter(|counted| !counted.is_partial).map(|counted| counted.matched);
        let work = async |shutdown: Shutdown| {
            let progress = output::progress(name, self.what, all);
            let is_broken_off = AtomicBool::new(false);
            let so_far = |done: Applied| {
                progress.at(done.changed);
                if !shutdown.has_begun() {
                    return ControlFlow::Continue(());
                }
                is_broken_off.store(true, Ordering::SeqCst);
                ControlFlow::Break(())
            };
            let (pace, actor) = (Pace::telling(&so_far).at_most(rate), self.context.actor());
            let applied = self.way.apply(self.filter, command(false), &actor, &pace).await;
            progress.finish();
            let mut applied = applied?;
            // Stopped, it has not seen them all; and more may have come since they were counted.
            applied.matched = applied.matched.max(all.unwrap_or_default());
            Ok((applied, is_broken_off.load(Ordering::SeqCst)))
        };
        ended(until_signalled(work).await)
    }

    /// Says what was done, or would be.
    pub(super) fn tell(
        &self,
        name: &str,
        applied: Applied,
        dry_run: bool,
        stopped: bool,
        sample: Vec<EventDocument>,
    ) -> Result<(), Failure> {
        let Applied { matched, changed, .. } = applied;
        if self.context.json() {
            let document = AppliedDocument::of(name, applied, dry_run);
            output::json(&AppliedDocument { stopped, sample, ..document })?;
        } else if dry_run {
            let (at_least, matched) = (at_least(applied), words::counted(matched, self.what));
            output::line(&format!("would {name} {}{at_least}{matched}", self.object))?;
            if !sample.is_empty() {
                show(&EventPage { events: sample, next: None })?;
            }
        } else if matched > 0 || !self.nothing_fails {
            let end = if stopped { "; stopped when asked to" } else { "" };
            let done = words::counted_of(changed, matched, self.what);
            output::line(&format!("{name}: {}{done}{end}", self.object))?;
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

/// A look at what a broker has has its limits.
fn at_least(counted: Applied) -> &'static str {
    if counted.is_partial { "at least " } else { "" }
}
