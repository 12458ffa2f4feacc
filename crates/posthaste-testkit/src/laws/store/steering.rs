//! Operators who act in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_core::admin::{Command, EventState, Filter, LaneStats, Page, Seek, all_lanes};
use posthaste_core::lane::LaneSpec;
use posthaste_core::review::{AuditEntry, AuditFilter};
use posthaste_core::store::{Outcome, Owner, Then};
use posthaste_core::time::Moment;

use crate::drive::{StoreBench, dead, event, ids, in_lane, keyed, lane, retry};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);
/// What decides about steps and choices: a law that broke breaks again.
const SEEDS: [u64; 3] = [1, 7, 42];
const STEPS: u32 = 60;
/// Old enough to be pruned or skipped.
const OLD: Duration = Duration::from_secs(2);
const KEYS: [&str; 2] = ["k", "l"];

/// Gives commands in random order between publishes, deliveries and failures. After each one every event is where it was, or where
/// that command may put it, and the record says how many; totals add up; and what was published is in the end delivered, dead,
/// discarded, or pruned after it was one of these.
pub async fn operators_in_any_order_lose_no_event_without_a_record(bench: StoreBench) -> LawResult {
    let mut trial = Trial {
        bench: &bench,
        lane: lane("main"),
        rng: fastrand::Rng::new(),
        published: 0,
        pruned: BTreeSet::new(),
        steps: Vec::new(),
    };
    for seed in SEEDS {
        trial.rng.seed(seed);
        for _ in 0..STEPS {
            trial.steps.clear();
            trial.step().await.map_err(|verdict| trial.told(verdict, seed))?;
        }
        trial.end().await.map_err(|verdict| trial.told(verdict, seed))?;
    }
    Ok(())
}

/// What became of an event in the lane; all kinds of pending are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pending,
    Delivered,
    Dead,
    Discarded,
}

impl From<EventState> for Fate {
    fn from(state: EventState) -> Self {
        match state {
            EventState::Delivered => Self::Delivered,
            EventState::Dead => Self::Dead,
            EventState::Discarded => Self::Discarded,
            _ => Self::Pending,
        }
    }
}

type Fates = BTreeMap<String, Fate>;

/// How many events a command moved.
#[derive(Default)]
struct Moved {
    all: u64,
    /// Of these: past which the lane went without reading them; they look as if they were delivered, but count as discarded.
    passed: u64,
}

struct Trial<'a> {
    bench: &'a StoreBench,
    lane: LaneSpec,
    rng: fastrand::Rng,
    published: u32,
    pruned: BTreeSet<String>,
    /// What the last step did, for whoever must find out.
    steps: Vec<String>,
}

impl Trial<'_> {
    fn told(&self, verdict: Verdict, seed: u64) -> Verdict {
        match verdict {
            Verdict::Broken(seen) => Verdict::Broken(format!("seed {seed}, {:?}: {seen}", self.steps)),
            skipped => skipped,
        }
    }

    async fn step(&mut self) -> LawResult {
        match self.rng.u8(0..10) {
            0 | 1 => self.publish().await,
            2..=4 => self.work().await,
            5 => {
                self.bench.pass(SECOND * self.rng.u32(1..=3));
                Ok(())
            }
            _ => self.command().await,
        }
    }

    async fn publish(&mut self) -> LawResult {
        for _ in 0..self.rng.u32(1..=3) {
            self.published += 1;
            let id = format!("e{}", self.published);
            let new = if self.rng.bool() { event(&id) } else { keyed(&id, KEYS[self.rng.usize(0..2)]) };
            self.bench.publish_all(vec![new]).await?;
        }
        Ok(())
    }

    /// Drives the lane for a few events, as a relay that may crash; what it did not answer is as it was.
    async fn work(&mut self) -> LawResult {
        let Some(driver) = self.bench.try_drive_as(&self.lane, &Owner::new("relay")).await? else {
            return Ok(());
        };
        let before = self.fates().await?;
        let mut answered = Fates::new();
        for _ in 0..self.rng.u32(1..=4) {
            let claimed = driver.claim(1).await?;
            let Some(id) = ids(&claimed).pop() else { break };
            let (outcome, fate) = match self.rng.u8(0..4) {
                0 => (dead(), Fate::Dead),
                1 => (retry(SECOND), Fate::Pending),
                _ => (Outcome::Delivered, Fate::Delivered),
            };
            self.steps.push(format!("{id} is {fate:?}"));
            driver.settle_as(&claimed, outcome).await?;
            answered.insert(id, fate);
        }
        if self.rng.u8(0..4) == 0 {
            drop(driver);
            self.bench.pass(self.lane.lease * 2);
        } else {
            driver.settle_then(Vec::new(), Then::GiveUp).await?;
        }
        let after = self.fates().await?;
        for (id, was) in &before {
            let expected = answered.get(id).unwrap_or(was);
            ensure_eq!(after.get(id), Some(expected), "what became of {id} by a relay");
        }
        Ok(())
    }

    /// Gives a command, and looks what it did.
    async fn command(&mut self) -> LawResult {
        if self.stats().await?.is_none() {
            return Ok(());
        }
        let before = self.fates().await?;
        let (filter, command) = self.choose(&before);
        self.steps.push(format!("{command:?} of {filter:?}"));
        let last = self.record().await?.first().map_or(0, |entry| entry.id);
        let Some(totals) = self.stats().await? else { return Ok(()) };
        let applied = self.bench.apply(&filter, command.clone()).await?;

        let record = self.record().await?;
        let new = record.iter().filter(|entry| entry.id > last && entry.command == command.name());
        let recorded: u64 = new.map(|entry| entry.applied.changed).sum();
        ensure_eq!(recorded, applied.changed, "how many the record says were changed");
        let Some(stats) = self.stats().await? else {
            ensure!(matches!(command, Command::Remove { .. }), "the lane is gone");
            return self.all_are_there().await;
        };
        let moved = self.compare(&before, &command).await?;
        let counts_events = matches!(
            command,
            Command::Redrive { .. }
                | Command::Replay { .. }
                | Command::Discard { .. }
                | Command::Bury { .. }
                | Command::Seek { .. }
                | Command::Prune { .. }
        );
        if counts_events {
            ensure_eq!(applied.changed, moved.all, "how many were changed");
        }
        ensure!(stats.adds_up(), "the totals do not add up: {stats:?}");
        ensure_eq!(stats.delivered, totals.delivered, "delivered, by which no command adds or takes");
        // What a command takes in, and what of that it gives up at once; what it gives up of what was taken in before.
        let (taken_in, given_up) = match command {
            Command::Replay { .. } => (applied.changed, 0),
            Command::Discard { .. } => (0, applied.changed),
            Command::Skip { .. } => (applied.changed, applied.changed),
            Command::Seek { .. } => (moved.passed, moved.passed),
            // What was dead and is pruned counts as given up.
            Command::Prune { .. } => (0, totals.dead - stats.dead),
            _ => (0, 0),
        };
        ensure_eq!(stats.accepted, totals.accepted + taken_in, "accepted");
        ensure_eq!(stats.discarded, totals.discarded + given_up, "discarded");
        Ok(())
    }

    /// A command that fits the lane, about all of it, a key or one event.
    fn choose(&mut self, fates: &Fates) -> (Filter, Command) {
        let (of_lane, dry_run) = (in_lane(&self.lane.name), false);
        let reason = "nobody wants it".to_owned();
        let mut some = of_lane.clone();
        match self.rng.u8(0..3) {
            0 => some.key = Some(KEYS[self.rng.usize(0..2)].to_owned()),
            1 => some.ids = self.rng.choice(fates.keys()).cloned().into_iter().collect(),
            _ => {}
        }
        let now = self.bench.rig.now();
        match self.rng.u8(0..14) {
            0 | 1 => (some, Command::Redrive { dry_run }),
            2 => (some, Command::Replay { dry_run }),
            3 => (some, Command::Discard { reason, dry_run }),
            4 => (some, Command::Erase { dry_run }),
            5 => (of_lane, Command::Pause),
            6 | 7 => (of_lane, Command::Resume),
            8 => {
                let to = [Seek::Beginning, Seek::End, Seek::Time(now.before(OLD))][self.rng.usize(0..3)];
                (of_lane, Command::Seek { to, dry_run })
            }
            9 => (of_lane, Command::Skip { age: OLD, reason, dry_run }),
            10 => (of_lane, Command::Remove { dry_run }),
            11 => (some, Command::Bury { reason, dry_run }),
            12 => (some, Command::Schedule { at: Moment::In(SECOND), dry_run }),
            _ => {
                let dead_age = self.rng.bool().then_some(OLD);
                (Filter::default(), Command::Prune { delivered_age: Some(OLD), dead_age, dry_run })
            }
        }
    }

    /// Looks whether each event is where this command may have put it; answers how many were moved.
    async fn compare(&mut self, before: &Fates, command: &Command) -> Result<Moved, Verdict> {
        let after = self.fates().await?;
        let mut moved = Moved::default();
        for (id, was) in before {
            let is = after.get(id).copied();
            if is == Some(*was) {
                continue;
            }
            ensure!(may_move(command, *was, is), "{id} was {was:?} and is {is:?}");
            moved.all += 1;
            moved.passed += u64::from((*was, is) == (Fate::Pending, Some(Fate::Delivered)));
            if is.is_none() {
                self.pruned.insert(id.clone());
            }
        }
        ensure!(after.keys().all(|id| before.contains_key(id)), "an event is there that was not");
        self.all_are_there().await?;
        Ok(moved)
    }

    /// Everything that was published is there, or was pruned.
    async fn all_are_there(&self) -> LawResult {
        let found = self.bench.find(&Filter::default()).await?;
        let found: BTreeSet<_> = found.into_iter().map(|record| record.envelope.id).collect();
        let missing = (1..=self.published).map(|number| format!("e{number}"));
        let missing: Vec<_> = missing.filter(|id| !found.contains(id) && !self.pruned.contains(id)).collect();
        ensure!(missing.is_empty(), "{missing:?} are gone");
        Ok(())
    }

    /// Lets the lane go on until everything is settled.
    async fn end(&mut self) -> LawResult {
        self.steps = vec!["the end".to_owned()];
        if self.stats().await?.is_some() {
            self.bench.apply(&in_lane(&self.lane.name), Command::Resume).await?;
        }
        self.bench.pass(SECOND * 60);
        let driver = self.bench.drive(&self.lane).await?;
        driver.drain().await?;
        driver.give_up().await?;
        let stats = self.bench.stats(&self.lane.name).await?;
        ensure_eq!((stats.waiting, stats.unread), (0, 0), "what waits and what is unread in the end");
        let pending: Vec<_> =
            self.fates().await?.into_iter().filter(|(_, fate)| *fate == Fate::Pending).collect();
        ensure!(pending.is_empty(), "{pending:?} were not settled");
        self.all_are_there().await
    }

    async fn fates(&self) -> Result<Fates, Verdict> {
        let records = self.bench.find(&in_lane(&self.lane.name)).await?;
        let fate = |record: posthaste_core::admin::Record| {
            let view = record.lanes.into_iter().next()?;
            Some((record.envelope.id, view.state.into()))
        };
        Ok(records.into_iter().filter_map(fate).collect())
    }

    async fn stats(&self) -> Result<Option<LaneStats>, Verdict> {
        let lanes = all_lanes(&*self.bench.store).await?;
        Ok(lanes.into_iter().find(|stats| stats.lane == self.lane.name))
    }

    /// The newest entries of the record.
    async fn record(&self) -> Result<Vec<AuditEntry>, Verdict> {
        let mut filter = AuditFilter::default();
        filter.with_unchanged = true;
        Ok(self.bench.store.audited(&filter, Page::first(10)).await?.entries)
    }
}

/// Whether this command may have moved an event so; `None`: it is gone.
fn may_move(command: &Command, was: Fate, is: Option<Fate>) -> bool {
    use Fate::{Dead, Delivered, Discarded, Pending};
    match command {
        Command::Redrive { .. } => (was, is) == (Dead, Some(Pending)),
        Command::Replay { .. } => (was, is) == (Delivered, Some(Pending)),
        Command::Discard { .. } => matches!(was, Dead | Pending) && is == Some(Discarded),
        Command::Bury { .. } => (was, is) == (Pending, Some(Dead)),
        // What lies between two places comes again, or is passed.
        Command::Seek { .. } => matches!((was, is), (Pending, Some(Delivered)) | (Delivered, Some(Pending))),
        Command::Skip { .. } => was == Pending && matches!(is, Some(Delivered | Discarded)),
        Command::Prune { dead_age: None, .. } => was == Delivered && is.is_none(),
        Command::Prune { .. } => was != Pending && is.is_none(),
        _ => false,
    }
}
