//! Two stores, driven side by side.

use std::time::Duration;

use posthaste_core::admin::{Actor, Applied, Command, Filter, Pace, Seek};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::{LaneSpec, OnDead, Order};
use posthaste_core::store::{Claimed, Lease, Owner, Room, Standing, Then};
use posthaste_core::time::Moment;
use posthaste_core::{ErrorKind, Result as CoreResult};

use super::outcomes::{Out, decide};
use super::seen::{Handed, Seen};
use super::{Act, Draft, LANES, Step};
use crate::drive::{StoreBench, lane};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

/// Two stores that have seen the same steps, each on a manual clock.
pub struct Pair {
    benches: [StoreBench; 2],
    claims: Claims,
    lanes: Vec<Driven>,
    published: u32,
}

/// What one claim of the real store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// As much as there is room for, as the model.
    Full,
    /// Maybe less than there is, so that both are asked until nothing comes, whatever the room of the step is.
    InParts,
}

/// A lane, who drives it in each store, and what it has claimed.
struct Driven {
    spec: LaneSpec,
    owner: Owner,
    leases: Option<[Lease; 2]>,
    out: Vec<Out>,
}

/// Runs the steps on both stores; the first difference breaks the law.
///
/// # Errors
/// What differs, and after which step.
pub async fn run(model: StoreBench, real: StoreBench, claims: Claims, steps: &[Step]) -> LawResult {
    let mut pair = Pair::new(model, real, claims);
    for (n, step) in steps.iter().enumerate() {
        let told = |verdict| Verdict::broken(format_args!("step {n}, {step:?}: {verdict}"));
        pair.step(step).await.map_err(told)?;
        pair.compare().await.map_err(told)?;
    }
    Ok(())
}

impl Pair {
    /// A model and what is compared with it, both fresh.
    pub fn new(model: StoreBench, real: StoreBench, claims: Claims) -> Self {
        Self { benches: [model, real], claims, lanes: (0..LANES).map(Driven::new).collect(), published: 0 }
    }

    async fn step(&mut self, step: &Step) -> LawResult {
        match step {
            Step::Publish(draft) => self.publish(draft).await,
            Step::Claim { lane, room } => self.claim(*lane, *room).await,
            Step::Settle { lane, choices, give_up } => self.settle(*lane, choices, *give_up).await,
            Step::Crash { lane } => self.acquire(*lane).await,
            Step::Pass(span) => {
                self.benches.iter().for_each(|bench| bench.pass(*span));
                Ok(())
            }
            Step::Operate { lane, act, key } => self.operate(*lane, *act, *key).await,
        }
    }

    async fn compare(&self) -> LawResult {
        let (model, real) = (Seen::of(&self.benches[0]).await?, Seen::of(&self.benches[1]).await?);
        match model.difference(&real) {
            Some(difference) => Err(Verdict::broken(format_args!("they differ in {difference}"))),
            None => Ok(()),
        }
    }

    async fn publish(&mut self, draft: &Draft) -> LawResult {
        self.published += 1;
        let event = draft.event(self.published);
        for bench in &self.benches {
            bench.publish_all(vec![event.clone()]).await?;
        }
        Ok(())
    }

    /// Takes the lane as its owner, who may have crashed a moment ago: what was claimed is forgotten.
    async fn acquire(&mut self, lane: usize) -> LawResult {
        let driven = &mut self.lanes[lane];
        driven.out.clear();
        driven.leases = None;
        let [model, real] = &self.benches;
        let model = model.store.acquire(&driven.spec, &driven.owner).await?;
        let real = real.store.acquire(&driven.spec, &driven.owner).await?;
        let facts = |lease: &Option<Lease>| lease.as_ref().map(|lease| (lease.epoch(), lease.stumbles()));
        let is_close = match (self.claims, &real, &model) {
            // Where the log is read in parts, a place may move from one to the next over no event, and that counts as moved.
            (Claims::InParts, Some(real), Some(model)) => {
                real.epoch() == model.epoch() && (1..=model.stumbles()).contains(&real.stumbles())
            }
            _ => false,
        };
        if !is_close {
            ensure_eq!(facts(&real), facts(&model), "epoch and stumbles of a lease");
        }
        driven.leases = model.zip(real).map(|(model, real)| [model, real]);
        Ok(())
    }

    async fn claim(&mut self, lane: usize, events: u32) -> LawResult {
        if self.lanes[lane].leases.is_none() {
            self.acquire(lane).await?;
        }
        let driven = &mut self.lanes[lane];
        let Some([model_lease, real_lease]) = &driven.leases else { return Ok(()) };
        let (room, [model, real]) = (Room { events, bytes: 1 << 30 }, &self.benches);
        let model = claim(model, model_lease, room, self.claims).await?;
        let real = claim(real, real_lease, room, self.claims).await?;
        ensure_eq!(Handed::of(&real), Handed::of(&model), "what is claimed");
        for claimed in model {
            let id = &claimed.parcel.envelope.id;
            let twin = real.iter().find(|other| other.parcel.envelope.id == *id);
            let twin = twin.ok_or_else(|| Verdict::broken(format_args!("{id} has no twin")))?;
            let key = claimed.parcel.envelope.key.clone().filter(|_| !claimed.parcel.replay);
            driven.out.push(Out { tickets: [claimed.ticket, twin.ticket], key, slow: false });
        }
        Ok(())
    }

    async fn settle(&mut self, lane: usize, choices: &[u8], give_up: bool) -> LawResult {
        let driven = &mut self.lanes[lane];
        let Some(leases) = &driven.leases else { return Ok(()) };
        let outcomes = decide(&driven.spec, &mut driven.out, choices, give_up);
        let then = if give_up { Then::GiveUp } else { Then::Hold };
        let mut standings = Vec::new();
        for ((bench, lease), outcomes) in self.benches.iter().zip(leases).zip(outcomes) {
            standings.push(bench.store.settle(lease, outcomes, then.clone()).await?);
        }
        ensure_eq!(standings[1], standings[0], "the standing");
        if give_up || standings[0] == Standing::Lost {
            driven.leases = None;
            driven.out.clear();
        }
        Ok(())
    }

    async fn operate(&mut self, lane: usize, act: Act, key: Option<u8>) -> LawResult {
        let mut filter = Filter::default();
        if !matches!(act, Act::Prune | Act::PruneDead) {
            filter.lane = Some(self.lanes[lane].spec.name.clone());
        }
        if matches!(act, Act::Redrive | Act::Replay | Act::Discard) {
            filter.key = key.map(|key| format!("k{key}"));
        }
        let mut answers: Vec<Result<Applied, ErrorKind>> = Vec::new();
        for bench in &self.benches {
            let applied: CoreResult<Applied> =
                bench.store.apply(&filter, act.command(), &Actor::new("model", "test"), &Pace::full()).await;
            answers.push(applied.map_err(|error| error.kind()));
        }
        ensure!(answers[0] == answers[1], "{act:?} answers {:?} and {:?}", answers[0], answers[1]);
        Ok(())
    }
}

async fn claim(bench: &StoreBench, lease: &Lease, room: Room, claims: Claims) -> CoreResult<Vec<Claimed>> {
    if claims == Claims::Full || room.events == 0 {
        return bench.store.claim(lease, room).await;
    }
    let (mut all, mut empty) = (Vec::new(), 0);
    // A claim may find nothing but what is to be parked, and the next one something to hand out.
    while empty < 2 {
        let claimed = bench.store.claim(lease, Room { events: 1_000, ..room }).await?;
        empty = if claimed.is_empty() { empty + 1 } else { 0 };
        all.extend(claimed);
    }
    Ok(all)
}

impl Driven {
    /// The lanes differ: one blocks on dead events, one keeps no order and wants only one topic.
    fn new(n: usize) -> Self {
        let mut spec = lane(["plain", "blocking", "unordered"][n]);
        if n == 1 {
            spec.on_dead = OnDead::Block;
        }
        if n == 2 {
            spec.order = Order::None;
            spec.topics = vec!["rare".parse().expect("it is a pattern")];
        }
        Self { spec, owner: Owner::new("relay"), leases: None, out: Vec::new() }
    }
}

impl Draft {
    fn event(&self, n: u32) -> Envelope {
        let mut event = Envelope::new("model.step", format!("{n}"));
        event.id = format!("e{n:03}");
        event.key = self.key.map(|key| format!("k{key}"));
        event.topic = if self.rare { "rare" } else { "common" }.to_owned();
        let moment = |seconds: u64| Moment::In(Duration::from_secs(seconds));
        event.available = self.delay.map(moment);
        event.expires = self.expires.map(moment);
        event
    }
}

impl Act {
    fn command(self) -> Command {
        let age = Some(Duration::from_secs(5));
        match self {
            Self::Redrive => Command::Redrive { dry_run: false },
            Self::Replay => Command::Replay { dry_run: false },
            Self::Discard => Command::Discard { reason: "the model says so".to_owned(), dry_run: false },
            Self::Pause => Command::Pause,
            Self::Resume => Command::Resume,
            Self::SeekBeginning => Command::Seek { to: Seek::Beginning, dry_run: false },
            Self::SeekEnd => Command::Seek { to: Seek::End, dry_run: false },
            Self::Remove => Command::Remove { dry_run: false },
            Self::Prune => Command::Prune { delivered_age: age, dead_age: None, dry_run: false },
            Self::PruneDead => Command::Prune { delivered_age: age, dead_age: age, dry_run: false },
        }
    }
}
