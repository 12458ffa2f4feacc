//! Driving a lane by hand, a step at a time, as a relay would: what the store laws are written in.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::admin::{
    Actor, Applied, Command, EventState, Filter, LaneStats, LaneView, Pace, Page, Record, all_lanes,
};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::{LaneName, LaneSpec};
use posthaste_core::schema::Backend;
use posthaste_core::store::{Claimed, Lease, Outcome, Owner, Room, Settled, Standing, Then, Ticket};
use posthaste_core::target::{DeliverError, DeliverKind};

use crate::law::{LawResult, Verdict};
use crate::rig::Rig;
use crate::{ensure, ensure_eq};

/// A store under the laws, in a scope of its own.
pub struct StoreBench {
    /// The scope.
    pub rig: Arc<dyn Rig>,
    /// The store.
    pub store: Arc<dyn Backend>,
}

/// The lane that most laws drive: every topic, from the beginning, in order per key, on a lease of ten seconds.
pub fn lane(name: &str) -> LaneSpec {
    LaneSpec::new(name.parse().expect("laws name their lanes well"))
}

/// An event with this id and a payload that says it.
pub fn event(id: &str) -> Envelope {
    let mut event = Envelope::new("order.placed", format!("{{\"id\":\"{id}\"}}"));
    event.id = id.to_owned();
    event
}

/// An event with this id and key.
pub fn keyed(id: &str, key: &str) -> Envelope {
    let mut event = event(id);
    event.key = Some(key.to_owned());
    event
}

/// What a target says when it fails.
pub fn failure() -> DeliverError {
    DeliverError::new(DeliverKind::Failed, "test failure", "the script says so")
}

/// The ids of what was claimed, in its order.
pub fn ids(claimed: &[Claimed]) -> Vec<String> {
    claimed.iter().map(|claimed| claimed.parcel.envelope.id.clone()).collect()
}

impl StoreBench {
    /// Opens the store of this scope.
    ///
    /// # Errors
    /// What the store says.
    pub async fn new(rig: Arc<dyn Rig>) -> posthaste_core::Result<Self> {
        let store = rig.open().await?;
        Ok(Self { rig, store })
    }

    /// Opens the store a second time, as another process would.
    ///
    /// # Errors
    /// What the store says.
    pub async fn again(&self) -> Result<Self, Verdict> {
        Ok(Self { rig: Arc::clone(&self.rig), store: self.rig.open().await? })
    }

    /// Publishes events with these ids and no key, one after another.
    ///
    /// # Errors
    /// What the store says.
    pub async fn publish(&self, ids: &[&str]) -> LawResult {
        self.publish_all(ids.iter().map(|id| event(id)).collect()).await
    }

    /// Publishes events with these ids and keys, one after another.
    ///
    /// # Errors
    /// What the store says.
    pub async fn publish_keyed(&self, ids_and_keys: &[(&str, &str)]) -> LawResult {
        self.publish_all(ids_and_keys.iter().map(|(id, key)| keyed(id, key)).collect()).await
    }

    /// Publishes these events as one batch.
    ///
    /// # Errors
    /// What the store says.
    pub async fn publish_all(&self, events: Vec<Envelope>) -> LawResult {
        self.store.publish(events).await?;
        Ok(())
    }

    /// Takes the lane as a fresh owner; breaks the law if somebody else has it.
    ///
    /// # Errors
    /// What the store says, or that it is held.
    pub async fn drive(&self, spec: &LaneSpec) -> Result<Driver, Verdict> {
        self.drive_as(spec, &Owner::new("relay")).await
    }

    /// Takes the lane as this owner.
    ///
    /// # Errors
    /// What the store says, or that it is held.
    pub async fn drive_as(&self, spec: &LaneSpec, owner: &Owner) -> Result<Driver, Verdict> {
        let driver = self.try_drive_as(spec, owner).await?;
        driver.ok_or_else(|| Verdict::broken(format_args!("lane {} is not free", spec.name)))
    }

    /// Takes the lane as this owner, if it is free.
    ///
    /// # Errors
    /// What the store says.
    pub async fn try_drive_as(&self, spec: &LaneSpec, owner: &Owner) -> Result<Option<Driver>, Verdict> {
        let lease = self.store.acquire(spec, owner).await?;
        Ok(lease.map(|lease| Driver { store: Arc::clone(&self.store), lease }))
    }

    /// Whether the lane can be taken by somebody new.
    ///
    /// # Errors
    /// What the store says.
    pub async fn can_drive(&self, spec: &LaneSpec) -> Result<bool, Verdict> {
        Ok(self.store.acquire(spec, &Owner::new("somebody-else")).await?.is_some())
    }

    /// Lets time pass on the store's clock.
    pub fn pass(&self, span: Duration) {
        self.rig.pass(span);
    }

    /// A lane's totals, which must add up.
    ///
    /// # Errors
    /// What the store says, or that they do not add up.
    pub async fn stats(&self, lane: &LaneName) -> Result<LaneStats, Verdict> {
        stats(&self.store, lane).await
    }

    /// Every record that matches, from all pages.
    ///
    /// # Errors
    /// What the store says.
    pub async fn find(&self, filter: &Filter) -> Result<Vec<Record>, Verdict> {
        let mut page = Page::first(100);
        page.with_payload = true;
        let mut records = Vec::new();
        loop {
            let found = self.store.find(filter, page.clone()).await?;
            records.extend(found.records);
            match found.next {
                Some(next) => page.after = Some(next),
                None => return Ok(records),
            }
        }
    }

    /// How a lane sees one event; breaks the law if there is no such event or the lane does not want it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn view(&self, lane: &LaneName, id: &str) -> Result<LaneView, Verdict> {
        let mut filter = in_lane(lane);
        filter.ids = vec![id.to_owned()];
        let view = self.find(&filter).await?.pop().and_then(|mut record| record.lanes.pop());
        view.ok_or_else(|| Verdict::broken(format_args!("event {id} is not found in lane {lane}")))
    }

    /// The state of one event in a lane.
    ///
    /// # Errors
    /// What the store says, or that it is not found.
    pub async fn state(&self, lane: &LaneName, id: &str) -> Result<EventState, Verdict> {
        Ok(self.view(lane, id).await?.state)
    }

    /// Does what an operator does.
    ///
    /// # Errors
    /// What the store says, or that totals do not add up after it.
    pub async fn apply(&self, filter: &Filter, command: Command) -> Result<Applied, Verdict> {
        let applied = self.store.apply(filter, command, &Actor::new("law", "test"), &Pace::full()).await?;
        for lane in all_lanes(&*self.store).await? {
            ensure!(lane.adds_up(), "totals do not add up after a command: {lane:?}");
        }
        Ok(applied)
    }
}

/// A filter on a lane and nothing else.
pub fn in_lane(lane: &LaneName) -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some(lane.clone());
    filter
}

async fn stats(store: &Arc<dyn Backend>, lane: &LaneName) -> Result<LaneStats, Verdict> {
    let lanes = all_lanes(&**store).await?;
    let stats = lanes.into_iter().find(|stats| stats.lane == *lane);
    let stats = stats.ok_or_else(|| Verdict::broken(format_args!("lane {lane} is not listed")))?;
    ensure!(stats.adds_up(), "totals do not add up: {stats:?}");
    Ok(stats)
}

/// Who drives a lane: a lease and its store. Dropping it is a crash.
pub struct Driver {
    store: Arc<dyn Backend>,
    /// The lease.
    pub lease: Lease,
}

impl Driver {
    /// Claims at most so many events, of any size.
    ///
    /// # Errors
    /// What the store says.
    pub async fn claim(&self, events: u32) -> Result<Vec<Claimed>, Verdict> {
        self.claim_room(Room { events, bytes: u64::MAX / 2 }).await
    }

    /// Claims within this room.
    ///
    /// # Errors
    /// What the store says.
    pub async fn claim_room(&self, room: Room) -> Result<Vec<Claimed>, Verdict> {
        Ok(self.store.claim(&self.lease, room).await?)
    }

    /// Claims until nothing comes, settling nothing but what claims themselves found.
    ///
    /// # Errors
    /// What the store says.
    pub async fn claim_all(&self) -> Result<Vec<Claimed>, Verdict> {
        let mut all = Vec::new();
        loop {
            let claimed = self.claim(100).await?;
            if claimed.is_empty() {
                return Ok(all);
            }
            all.extend(claimed);
        }
    }

    /// Settles, and looks that the totals add up after it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn settle_then(&self, outcomes: Vec<Settled>, then: Then) -> Result<Standing, Verdict> {
        let standing = self.store.settle(&self.lease, outcomes, then).await?;
        stats(&self.store, self.lease.lane()).await?;
        Ok(standing)
    }

    /// Settles these outcomes and goes on; breaks the law if the lease is lost.
    ///
    /// # Errors
    /// What the store says.
    pub async fn settle(&self, outcomes: Vec<Settled>) -> LawResult {
        let standing = self.settle_then(outcomes, Then::Hold).await?;
        ensure_eq!(standing, Standing::Held, "the lease on {}", self.lease.lane());
        Ok(())
    }

    /// Settles all of these as delivered.
    ///
    /// # Errors
    /// What the store says.
    pub async fn deliver(&self, claimed: &[Claimed]) -> LawResult {
        self.settle_as(claimed, Outcome::Delivered).await
    }

    /// Settles all of these with one outcome.
    ///
    /// # Errors
    /// What the store says.
    pub async fn settle_as(&self, claimed: &[Claimed], outcome: Outcome) -> LawResult {
        self.settle(claimed.iter().map(|claimed| Settled::new(claimed.ticket, outcome.clone())).collect())
            .await
    }

    /// Renews and nothing else.
    ///
    /// # Errors
    /// What the store says.
    pub async fn renew(&self) -> LawResult {
        self.settle(Vec::new()).await
    }

    /// Claims everything and settles it as delivered, until nothing comes; answers the ids.
    ///
    /// # Errors
    /// What the store says.
    pub async fn drain(&self) -> Result<Vec<String>, Verdict> {
        let (mut all, mut empty) = (Vec::new(), 0);
        // A claim that hands out nothing may have found something to park, which the settle after it makes due.
        while empty < 2 {
            let claimed = self.claim(100).await?;
            self.deliver(&claimed).await?;
            empty = if claimed.is_empty() { empty + 1 } else { 0 };
            all.extend(ids(&claimed));
        }
        Ok(all)
    }

    /// Ends the lease cleanly.
    ///
    /// # Errors
    /// What the store says.
    pub async fn give_up(self) -> LawResult {
        let standing = self.settle_then(Vec::new(), Then::GiveUp).await?;
        ensure!(
            standing != Standing::Lost,
            "the lease on {} was lost before it was given up",
            self.lease.lane()
        );
        Ok(())
    }
}

/// It failed and is tried again after this.
pub fn retry(after: Duration) -> Outcome {
    Outcome::Retry { after, error: failure() }
}

/// It failed for good.
pub fn dead() -> Outcome {
    Outcome::Dead { error: failure() }
}

/// An outcome for a ticket.
pub fn settled(claimed: &Claimed, outcome: Outcome) -> Settled {
    Settled::new(claimed.ticket, outcome)
}

/// The claimed event with this id.
///
/// # Errors
/// It was not claimed.
pub fn one<'a>(claimed: &'a [Claimed], id: &str) -> Result<&'a Claimed, Verdict> {
    let found = claimed.iter().find(|claimed| claimed.parcel.envelope.id == id);
    found.ok_or_else(|| Verdict::broken(format_args!("{id} was not claimed, but {:?}", ids(claimed))))
}

/// The ticket of the claimed event with this id.
///
/// # Errors
/// It was not claimed.
pub fn ticket(claimed: &[Claimed], id: &str) -> Result<Ticket, Verdict> {
    Ok(one(claimed, id)?.ticket)
}
