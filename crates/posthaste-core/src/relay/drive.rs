//! The loop under one lease.
//!
//! Everything that takes time is a future in a slot: at most one claim, one settle, one ping, one wait, and the bursts in
//! flight. A step starts what may start, waits for the first of them, and takes in what it says. Answers are kept as
//! outcomes until the next settle.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::burst::{Answers, Burst};
use super::lane::Lane;
use super::meters::{Meters, State, Tally};
use super::outage::Outage;
use super::pace::Pace;
use super::tend::Tender;
use super::verdict::{Letter, Verdict, kills_its_relay, narrowed, verdict};
use super::window::Window;
use super::{Report, Settings};
use crate::lane::{OnDead, Order};
use crate::store::{Claimed, Lease, Outcome, Room, Settled, Standing, Then, Ticket};
use crate::target::{DeliverError, DeliverKind};
use crate::telemetry::field;
use crate::{BoxFuture, Result, crash};

/// How often a lane may be read past busy keys: so many times its window.
const READ_AHEAD: usize = 4;
/// The first pause when there was nothing to claim; doubles up to the relay's `poll_max`.
const POLL_FIRST: Duration = Duration::from_millis(1);

/// How the drive ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Given up on purpose: the relay stops, or nothing is due any more.
    GivenUp,
    /// Somebody else has the lane.
    Lost,
    /// An operator paused the lane, or its address is gone.
    SetAside,
}

/// When to give up by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Stopped,
    Idle,
}

/// Why the lease is going to be given up.
enum Leaving {
    Stop { by: Instant },
    Paused,
    Retired(String),
}

/// What is to be known when the settle on its way comes back.
struct Settling {
    since: Instant,
    parks: bool,
    tally: Tally,
    letters: Vec<(bool, Letter)>,
}

pub(super) struct Drive<'a> {
    settings: &'a Settings,
    lane: &'a Lane,
    meters: &'a Meters,
    lease: &'a Lease,
    until: Until,
    pace: Pace,
    window: Window,
    /// How many events may be unanswered; narrower after stumbles, until something was settled.
    width: usize,
    /// The first event of a fully narrowed window is not sent any more: it has killed its relay too often.
    deadly: bool,

    bursts: SelectAll<Burst<'a>>,
    claim: Option<BoxFuture<'a, (Instant, Result<Vec<Claimed>>)>>,
    settle: Option<BoxFuture<'a, Result<Standing>>>,
    ping: Option<BoxFuture<'a, Result<()>>>,
    wait: Option<BoxFuture<'a, ()>>,

    outcomes: Vec<Settled>,
    settling: Option<Settling>,
    letters: Vec<(bool, Letter)>,
    /// Keys whose head goes to the parked events with the next settle: what a claim on its way brings of them goes behind.
    parked_keys: HashSet<String>,
    /// Whether the outcomes hold something that claims must see.
    parks: bool,
    unrecorded: bool,
    poll: Duration,
    /// Since the last claim came back empty, nothing happened that could mean more work.
    dry: bool,

    outage: Outage,
    /// The target is away; it is asked again at this time.
    down_until: Option<Instant>,
    /// The lane's row says that the target is away.
    reported_down: bool,
    report_next: Option<Option<String>>,
    next_slow_check: Instant,
    leaving: Option<Leaving>,
    done: Report,
}

impl<'a> Drive<'a> {
    /// Drives the lane under this lease, which was acquired by a call that began at `since`.
    pub(super) fn new(tender: &Tender<'a>, lease: &'a Lease, since: Instant, until: Until) -> Self {
        let lane = tender.lane;
        let (full, stumbles) = (lane.in_flight_max(), lease.stumbles());
        Self {
            settings: tender.settings,
            lane,
            meters: tender.meters,
            lease,
            until,
            pace: Pace::new(lease.length(), since),
            window: Window::new(lane.spec.order),
            width: narrowed(full, stumbles) as usize,
            deadly: kills_its_relay(lane.policy.as_ref(), full, stumbles),
            bursts: SelectAll::new(),
            claim: None,
            settle: None,
            ping: None,
            wait: None,
            outcomes: Vec::new(),
            settling: None,
            letters: Vec::new(),
            parked_keys: HashSet::new(),
            parks: false,
            unrecorded: false,
            poll: POLL_FIRST,
            dry: false,
            outage: Outage::default(),
            down_until: None,
            reported_down: false,
            report_next: None,
            next_slow_check: since,
            leaving: None,
            done: Report::default(),
        }
    }

    /// What was recorded so far.
    pub(super) fn report(&self) -> Report {
        self.done
    }

    /// Runs until the lease ends, on purpose or not.
    ///
    /// # Errors
    /// What the store said; the lease is then worth nothing.
    pub(super) async fn run(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<End> {
        loop {
            self.start_what_may_start();
            if self.has_ended() {
                return self.give_up().await;
            }
            if Instant::now() >= self.pace.ends_at() {
                // By its own clock the lease may be over. What is in flight is unknown and will be sent again.
                return Ok(End::Lost);
            }
            if let Some(end) = self.step(stopped).await? {
                return Ok(end);
            }
        }
    }

    /// Waits for the first thing that happens and takes it in.
    async fn step(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<Option<End>> {
        let wake_at = self.wake_at();
        let can_stop = self.until == Until::Stopped && !matches!(self.leaving, Some(Leaving::Stop { .. }));
        tokio::select! {
            biased;
            () = told(stopped), if can_stop => self.leave(Leaving::Stop { by: Instant::now() + self.settings.grace }),
            standing = slot(&mut self.settle) => return self.settled(standing?),
            (since, claimed) = slot(&mut self.claim) => self.claimed(since, claimed?),
            Some(answers) = self.bursts.next(), if !self.bursts.is_empty() => self.answered(answers),
            pong = slot(&mut self.ping) => self.probed(pong),
            () = slot(&mut self.wait) => self.dry = false,
            () = sleep_until(wake_at) => {}
        }
        Ok(None)
    }

    fn start_what_may_start(&mut self) {
        self.probe_if_due();
        self.mark_slow();
        self.send();
        self.start_claim();
        self.start_settle();
    }

    // Sending.

    fn send(&mut self) {
        let now = Instant::now();
        if self.leaving.is_some() || self.down_until.is_some() || now >= self.pace.deliver_until() {
            return;
        }
        let target = self.lane.target.as_ref();
        let burst_max = target.capabilities().burst_max as usize;
        while self.window.ready() > 0 && self.window.in_flight() < self.width && self.may_answer_more() {
            let burst = self.window.take_burst(burst_max.min(self.width - self.window.in_flight()));
            let burst = self.keep_sendable(burst);
            if burst.is_empty() {
                continue;
            }
            crash::point("relay: before deliver");
            self.meters.sent(burst.len(), self.window.in_flight());
            self.bursts.push(Burst::send(target, burst, self.lane.timeout));
        }
    }

    /// Answers are kept until they are stored, so there is a bound for them too.
    fn may_answer_more(&self) -> bool {
        self.outcomes.len() + self.window.in_flight() < self.lane.unsettled_max
    }

    /// Takes out what need not be sent: it is larger than the target takes, or has killed its relay too often.
    fn keep_sendable(&mut self, burst: Vec<Claimed>) -> Vec<Claimed> {
        let bytes_max = self.lane.target.capabilities().payload_bytes_max;
        let mut sendable = Vec::with_capacity(burst.len());
        for claimed in burst {
            let size = claimed.parcel.envelope.payload.len() as u64;
            if std::mem::take(&mut self.deadly) {
                let message = format!(
                    "its relay ended without a trace {} times while it was sent",
                    self.lease.stumbles()
                );
                self.failed(claimed, DeliverError::new(DeliverKind::Rejected, "crash", message));
            } else if size > bytes_max {
                let message = format!("the payload has {size} bytes, the target takes {bytes_max}");
                self.failed(claimed, DeliverError::new(DeliverKind::TooLarge, "too large", message));
            } else {
                sendable.push(claimed);
            }
        }
        sendable
    }

    // Claiming.

    fn start_claim(&mut self) {
        if self.claim.is_some() || self.wait.is_some() || self.dry || self.leaving.is_some() {
            return;
        }
        let room = self.room();
        if room.events == 0 || self.claims_must_wait() {
            return;
        }
        let (store, lease) = (&self.settings.store, self.lease);
        let since = Instant::now();
        self.claim = Some(Box::pin(async move { (since, store.claim(lease, room).await) }));
    }

    /// A claim must see what was parked before it, or it would hand out a later event of a parked key. Order per key only.
    fn claims_must_wait(&self) -> bool {
        let parking = self.parks || self.settling.as_ref().is_some_and(|settling| settling.parks);
        parking && self.lane.spec.order == Order::PerKey
    }

    /// What fits: enough to fill the width past busy keys, within the bytes, and not while nothing is sent anyway.
    fn room(&self) -> Room {
        let (held, bytes) = (self.window.held(), self.window.held_bytes());
        let hungry = self.window.ready() < self.width && bytes < self.lane.window_bytes;
        let free = (self.width * READ_AHEAD).saturating_sub(held).min(self.width.max(1));
        let events = if hungry && self.down_until.is_none() && self.may_answer_more() { free } else { 0 };
        Room { events: events as u32, bytes: self.lane.window_bytes.saturating_sub(bytes) }
    }

    fn claimed(&mut self, since: Instant, claimed: Vec<Claimed>) {
        crash::point("relay: claimed");
        self.meters.claimed(since.elapsed());
        self.unrecorded |= self.lease.take_unrecorded();
        if claimed.is_empty() {
            self.dry = true;
            if self.until == Until::Stopped {
                let (store, spec, limit) = (&self.settings.store, &self.lane.spec, self.poll);
                self.poll = (self.poll * 2).min(self.settings.poll_max);
                self.wait = Some(Box::pin(async move { store.wait(spec, limit).await }));
            }
            return;
        }
        self.poll = POLL_FIRST;
        for claimed in claimed {
            let behind = self.window.ordering_key(&claimed).is_some_and(|key| self.parked_keys.contains(key));
            if behind {
                self.record(claimed.ticket, Outcome::Behind);
            } else {
                self.window.take_in(claimed);
            }
        }
    }

    // Answers.

    fn answered(&mut self, answers: Answers) {
        crash::point("relay: answered");
        self.dry = false;
        let passed = answers.events.iter().filter(|(_, result)| result.is_ok());
        self.meters.acknowledged(passed.map(|(claimed, _)| &claimed.parcel));
        for (claimed, result) in answers.events {
            match result {
                Ok(()) => {
                    self.target_is_up();
                    self.window.leave(&claimed);
                    self.record(claimed.ticket, Outcome::Delivered);
                }
                Err(error) => self.failed(claimed, error),
            }
        }
        self.meters.answered(answers.after, self.window.in_flight());
    }

    fn failed(&mut self, claimed: Claimed, error: DeliverError) {
        let attempt = claimed.parcel.attempt;
        let told = error.clone();
        match verdict(self.lane.policy.as_ref(), attempt, error) {
            Verdict::Settle(outcome) => self.park(claimed, outcome, told),
            Verdict::Pause => {
                self.window.put_back(claimed);
                self.target_is_down(&told.to_string());
            }
            Verdict::Retire => {
                self.window.put_back(claimed);
                if self.leaving.is_none() {
                    warn!({ field::ERROR } = %told, "the lane's address is gone; the lane is retired");
                    self.leave(Leaving::Retired(told.to_string()));
                }
            }
        }
    }

    /// The event leaves the window for the parked events; if it holds its key there, its followers go behind it.
    fn park(&mut self, claimed: Claimed, outcome: Outcome, error: DeliverError) {
        let dead = matches!(outcome, Outcome::Dead { .. });
        let holds = !dead || self.lane.spec.on_dead == OnDead::Block;
        if holds {
            self.hold_key(&claimed);
        }
        self.window.leave(&claimed);
        let letter = Letter {
            lane: self.lane.name().clone(),
            envelope: claimed.parcel.envelope,
            attempts: claimed.parcel.attempt,
            error,
        };
        self.letters.push((dead, letter));
        self.parks = true;
        self.record(claimed.ticket, outcome);
    }

    fn hold_key(&mut self, claimed: &Claimed) {
        let Some(key) = self.window.ordering_key(claimed) else { return };
        for ticket in self.window.take_waiting(key) {
            self.record(ticket, Outcome::Behind);
        }
        self.parked_keys.insert(key.to_owned());
    }

    /// What is unanswered for long is parked as leased, so that the place can move on; its answer settles it later.
    fn mark_slow(&mut self) {
        let now = Instant::now();
        if self.bursts.is_empty() || now < self.next_slow_check {
            return;
        }
        // Looking at every burst is not free, so it is done a few times in the span, not at every step.
        self.next_slow_check = now + self.lane.slow_after / 4;
        let mut slow = Vec::new();
        for burst in self.bursts.iter_mut() {
            slow.extend(burst.newly_slow(self.lane.slow_after).into_iter().flatten().cloned());
        }
        for claimed in slow {
            self.hold_key(&claimed);
            self.parks = true;
            self.record(claimed.ticket, Outcome::Slow);
        }
    }

    fn record(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes.push(Settled::new(ticket, outcome));
    }

    // Settling.

    fn start_settle(&mut self) {
        // What parks must not overtake a claim on its way: that claim has not seen it.
        if self.settle.is_some() || (self.parks && self.claim.is_some()) || Instant::now() < self.settle_at()
        {
            return;
        }
        let then = match self.report_next.take() {
            Some(reason) => Then::Report(reason),
            None => Then::Hold,
        };
        let outcomes = self.begin_settling();
        let (store, lease) = (&self.settings.store, self.lease);
        self.settle = Some(Box::pin(async move { store.settle(lease, outcomes, then).await }));
    }

    fn settle_at(&self) -> Instant {
        let something = !self.outcomes.is_empty() || self.unrecorded;
        let full = self.outcomes.len() >= self.lane.unsettled_max / 2;
        let idle = self.until == Until::Idle && something && self.window.in_flight() == 0;
        self.pace.settle_at(something, full || idle || self.parks || self.report_next.is_some())
    }

    fn begin_settling(&mut self) -> Vec<Settled> {
        crash::point("relay: before settle");
        let outcomes = std::mem::take(&mut self.outcomes);
        self.settling = Some(Settling {
            since: Instant::now(),
            parks: std::mem::take(&mut self.parks),
            tally: Tally::of(&outcomes),
            letters: std::mem::take(&mut self.letters),
        });
        self.unrecorded = false;
        outcomes
    }

    fn settled(&mut self, standing: Standing) -> Result<Option<End>> {
        crash::point("relay: settled");
        let Some(settling) = self.settling.take() else { return Ok(None) };
        let now = Instant::now();
        self.meters.settled(now - settling.since);
        if standing == Standing::Lost {
            return Ok(Some(End::Lost));
        }
        self.pace.settled(settling.since, now);
        self.recorded(&settling);
        if standing == Standing::Paused && self.leaving.is_none() {
            info!("paused by an operator");
            self.leave(Leaving::Paused);
        }
        Ok(None)
    }

    fn recorded(&mut self, settling: &Settling) {
        let tally = &settling.tally;
        self.meters.recorded(tally);
        self.done.delivered += tally.delivered;
        self.done.retried += tally.retry;
        self.done.dead += tally.dead;
        if !self.parks {
            self.parked_keys.clear();
        }
        if tally.delivered + tally.retry + tally.dead > 0 {
            // Something got through: whatever made the relay stumble before is behind it.
            self.width = self.lane.in_flight_max() as usize;
        }
        if !tally.is_empty() {
            // What was recorded may have made room behind a key: look again, and do not sleep over it.
            self.dry = false;
            self.wait = None;
        }
        for (dead, letter) in &settling.letters {
            let hook = if *dead { &self.settings.on_dead } else { &self.settings.on_failed };
            if *dead {
                warn!(
                    { field::EVENT_ID } = letter.envelope.id,
                    { field::EVENT_TYPE } = letter.envelope.event_type,
                    { field::ATTEMPTS } = letter.attempts,
                    { field::ERROR } = %letter.error,
                    "dead"
                );
            }
            if let Some(hook) = hook {
                hook(letter);
            }
        }
    }

    // A target that is away.

    fn target_is_down(&mut self, reason: &str) {
        if self.down_until.is_some() {
            return;
        }
        if !self.reported_down {
            let reason = crate::redact::clean(reason);
            warn!({ field::ERROR } = reason, "the target is away; waiting for it");
            self.reported_down = true;
            self.report_next = Some(Some(reason));
            self.meters.state(State::Waiting);
        }
        self.down_until = Some(Instant::now() + self.outage.pause());
    }

    /// Only an acknowledged event says that the target is back; an answered ping says that it is worth a try.
    fn target_is_up(&mut self) {
        self.outage.over();
        if self.reported_down {
            info!("the target is back");
            self.reported_down = false;
            self.report_next = Some(None);
            self.meters.state(State::Active);
        }
    }

    fn probe_if_due(&mut self) {
        if self.ping.is_none() && self.down_until.is_some_and(|until| Instant::now() >= until) {
            let target = self.lane.target.as_ref();
            let limit = self.lane.timeout;
            self.ping = Some(Box::pin(async move {
                let late = |_| crate::Error::unavailable(format!("no answer to a ping within {limit:?}"));
                tokio::time::timeout(limit, target.ping()).await.map_err(late)?
            }));
        }
    }

    fn probed(&mut self, pong: Result<()>) {
        match pong {
            Ok(()) => self.down_until = None,
            Err(_) => self.down_until = Some(Instant::now() + self.outage.pause()),
        }
    }

    // The end.

    fn leave(&mut self, leaving: Leaving) {
        self.leaving = Some(leaving);
        self.wait = None;
        for ticket in self.window.take_unsent() {
            self.record(ticket, Outcome::Released);
        }
    }

    /// Whether there is nothing left to wait for.
    fn has_ended(&self) -> bool {
        let quiet = self.window.in_flight() == 0 && self.settle.is_none();
        match &self.leaving {
            Some(Leaving::Stop { by }) => quiet || Instant::now() >= *by,
            Some(_) => quiet,
            None if self.until == Until::Idle => {
                let stuck = self.down_until.is_some();
                let nothing_left = self.dry && self.window.held() == 0 && self.claim.is_none();
                quiet && ((nothing_left && self.outcomes.is_empty() && !self.unrecorded) || stuck)
            }
            None => false,
        }
    }

    /// Settles what there is and frees the lane.
    async fn give_up(&mut self) -> Result<End> {
        if let Some(settle) = self.settle.take() {
            let standing = settle.await?;
            if let Some(end) = self.settled(standing)? {
                return Ok(end);
            }
        }
        // A claim on its way may have read what only a settle can record; its events are simply not settled.
        self.claim = None;
        for ticket in self.window.take_unsent() {
            self.record(ticket, Outcome::Released);
        }
        let (then, end) = match self.leaving.take() {
            Some(Leaving::Retired(reason)) => (Then::Retire(crate::redact::clean(&reason)), End::SetAside),
            Some(Leaving::Paused) => (Then::GiveUp, End::SetAside),
            Some(Leaving::Stop { .. }) | None => (Then::GiveUp, End::GivenUp),
        };
        self.done.lanes_unavailable = u64::from(self.down_until.is_some());
        let outcomes = self.begin_settling();
        let standing = self.settings.store.settle(self.lease, outcomes, then).await?;
        Ok(self.settled(standing)?.unwrap_or(end))
    }

    /// When something must be done even if nothing happens.
    fn wake_at(&self) -> Instant {
        let mut at = self.pace.ends_at();
        if self.settle.is_none() && !(self.parks && self.claim.is_some()) {
            at = at.min(self.settle_at());
        }
        if self.ping.is_none()
            && let Some(until) = self.down_until
        {
            at = at.min(until);
        }
        if let Some(Leaving::Stop { by }) = &self.leaving {
            at = at.min(*by);
        }
        if !self.bursts.is_empty() {
            at = at.min(self.next_slow_check);
        }
        at
    }
}

/// Waits for what is in the slot and empties it; for ever if it is empty.
async fn slot<T>(slot: &mut Option<BoxFuture<'_, T>>) -> T {
    match slot {
        Some(future) => {
            let value = future.await;
            *slot = None;
            value
        }
        None => pending().await,
    }
}

/// Waits for the stop. A relay that is gone cannot say it: then there is nobody to stop for.
async fn told(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        pending::<()>().await;
    }
}
