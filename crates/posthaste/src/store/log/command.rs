//! Carrying out commands: each in steps, each step with a record of what it changed.

use std::ops::ControlFlow;
use std::sync::Arc;

use posthaste_core::admin::{Actor, Applied, Command, Filter, LaneState, Pace, Seek};
use posthaste_core::log::change::Change;
use posthaste_core::log::question::KnownLane;
use posthaste_core::review::UNREAD;
use posthaste_core::{Error, Result, redact};

use super::driver::{Before, LogDriver, Move, Place, Why, Work, WorkOf};
use super::refusals::{half_removed, no_such_lane};
use crate::store::audit::{Journal, Note};

/// Does this to what matches, and records who wanted it.
pub(in crate::store) async fn carry_out<D: LogDriver>(
    driver: &D,
    filter: &Filter,
    command: Command,
    by: &Actor,
    pace: &Pace<'_>,
) -> Result<Applied> {
    driver.check(&command).await?;
    let journal = (!command.is_dry_run()).then(|| Journal::new(Note::new(filter, &command, by)));
    let mut run = Run { driver, filter, pace, journal };
    if let Some(change) = Change::of(&command) {
        return run.change(change).await;
    }
    match command {
        Command::Pause => run.set_state(LaneState::Paused).await,
        Command::Resume => run.set_state(LaneState::Active).await,
        Command::Seek { to, .. } => run.go(to, Why::Seek).await,
        Command::Skip { age, reason, .. } => {
            let before = Seek::Time(driver.now().await?.before(age));
            run.go(before, Why::Skip { reason: redact::clean(&reason) }).await
        }
        Command::Remove { .. } => run.remove().await,
        Command::Prune { delivered_age, dead_age, .. } => {
            demand_no_filter(filter)?;
            let now = driver.now().await?;
            let before = |age| now.before(age);
            let before = Before { created: delivered_age.map(before), dead: dead_age.map(before) };
            run.in_steps(Work::Prune(before)).await
        }
        Command::PruneInbox { age, .. } => {
            demand_no_filter(filter)?;
            let before = driver.now().await?.before(age);
            run.in_steps(Work::PruneInbox { before }).await
        }
        Command::Rebase { upgraded, .. } => {
            demand_no_lane(filter)?;
            run.in_steps(Work::Rebase { upgraded }).await
        }
        other => Err(Error::rejected(format!("this store does not know the command {:?}", other.name()))),
    }
}

/// The filter's lane, which must be named and exist.
pub(in crate::store) async fn lane_of<D: LogDriver>(
    driver: &D,
    filter: &Filter,
) -> Result<KnownLane<D::Passed>> {
    let name = filter
        .lane
        .clone()
        .ok_or_else(|| Error::rejected("this needs a lane; name the one that is meant"))?;
    let known = driver.known_lanes().await?;
    known.into_iter().find(|lane| lane.name == name).ok_or_else(|| no_such_lane(&name))
}

/// A command that is carried out.
struct Run<'a, D: LogDriver> {
    driver: &'a D,
    filter: &'a Filter,
    pace: &'a Pace<'a>,
    /// `None`: the command only counts.
    journal: Option<Journal>,
}

impl<D: LogDriver> Run<'_, D> {
    async fn change(&mut self, change: Change) -> Result<Applied> {
        if change != Change::Erase || self.filter.lane.is_some() {
            lane_of(self.driver, self.filter).await?;
        }
        let (filter, stretch) = (self.filter.clone(), self.driver.stretch(self.filter).await?);
        self.in_steps(Work::Change { filter, change, stretch }).await
    }

    async fn set_state(&mut self, state: LaneState) -> Result<Applied> {
        let is_named = self.filter.lane.is_some();
        let lanes = match is_named {
            true => vec![lane_of(self.driver, self.filter).await?.name],
            false => self.driver.known_lanes().await?.into_iter().map(|lane| lane.name).collect(),
        };
        let applied = self.in_steps(Work::SetState { lanes, state, is_named }).await?;
        half_removed(self.filter, applied)
    }

    async fn remove(&mut self) -> Result<Applied> {
        let lane = lane_of(self.driver, self.filter).await?.name;
        if let Some(journal) = self.journal.take() {
            self.journal = Some(journal.with(UNREAD, self.driver.unread(&lane).await?));
        }
        // Half a lane is none: it is removed to its end.
        let ended = self.in_steps_at(Work::Remove { lane }, &Pace::full()).await?;
        Ok(whole_or_part(ended))
    }

    async fn go(&mut self, to: Seek, why: Why) -> Result<Applied> {
        let lane = lane_of(self.driver, self.filter).await?;
        let (goal, is_dry_run) = (self.driver.goal(to).await?, self.journal.is_none());
        let mut way = Move { lane, goal, why, again: 0 };
        let goes_back = matches!(way.why, Why::Seek);
        if goes_back && !is_dry_run {
            // What is only counted before it is done is not stopped half-way: the lane would move all the
            // same.
            way.again = self.count_again(way.clone(), &Pace::full()).await?.matched;
        }
        let ended = self.in_steps_at(Work::Move(way.clone()), self.pace).await?;
        match ended {
            ControlFlow::Continue(skipped) if goes_back && is_dry_run => {
                let again = self.count_again(way, self.pace).await?;
                Ok(Applied::new(skipped.matched + again.matched, 0))
            }
            ended => Ok(whole_or_part(ended)),
        }
    }

    /// Counts what the lane has passed and will not have passed at its goal.
    async fn count_again(&self, way: Move<D::Passed, D::Goal>, pace: &Pace<'_>) -> Result<Applied> {
        let counting = &mut Run { driver: self.driver, filter: self.filter, pace, journal: None };
        counting.in_steps(Work::CountAgain(way)).await
    }

    async fn in_steps(&mut self, work: WorkOf<D>) -> Result<Applied> {
        self.in_steps_at(work, self.pace).await.map(whole_or_part)
    }

    /// Takes one step after the other until there is none; breaks when an operator stopped it.
    async fn in_steps_at(
        &mut self,
        work: WorkOf<D>,
        pace: &Pace<'_>,
    ) -> Result<ControlFlow<Applied, Applied>> {
        let (work, mut applied, mut from) = (Arc::new(work), Applied::default(), Some(Place::First));
        while let Some(at) = from {
            let step = match &mut self.journal {
                Some(journal) => self.driver.step(&work, at, pace, journal).await?,
                None => self.driver.count(&work, at, pace).await?,
            };
            applied = Applied::new(applied.matched + step.matched, applied.changed + step.changed);
            from = step.next;
            if from.is_some() && pace.after(applied).await.is_break() {
                self.stop_here().await?;
                return Ok(ControlFlow::Break(applied));
            }
        }
        Ok(ControlFlow::Continue(applied))
    }

    /// Leaves in the record what the steps did before an operator stopped them; of a dry run nothing.
    async fn stop_here(&mut self) -> Result<()> {
        let Some((note, applied)) = self.journal.as_mut().map(Journal::stopped) else { return Ok(()) };
        self.driver.write_note(note, applied).await
    }
}

fn whole_or_part(ended: ControlFlow<Applied, Applied>) -> Applied {
    match ended {
        ControlFlow::Continue(applied) | ControlFlow::Break(applied) => applied,
    }
}

/// Retention is about all lanes and all events.
fn demand_no_filter(filter: &Filter) -> Result<()> {
    if filter.is_empty() {
        return Ok(());
    }
    Err(Error::rejected("a prune takes no filter: it removes what every lane has passed"))
}

fn demand_no_lane(filter: &Filter) -> Result<()> {
    if filter.lane.is_none() {
        return Ok(());
    }
    Err(Error::rejected("a rebase is about all lanes: they share the log that was moved"))
}
