//! The loop under one lease.
//!
//! Everything that takes time is a future in a slot: at most one claim, one settle, one ping, one wait, and the bursts in
//! flight. A step starts what may start, waits for the first of them, and takes in what it says. Answers are kept as
//! outcomes until the next settle.

mod answer;
mod claim;
mod down;
mod end;
mod send;
mod settle;

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::burst::Burst;
use super::lane::Lane;
use super::meters::{Meters, Tally};
use super::pace::Pace;
use super::tend::Tender;
use super::tenure::Tenure;
use super::verdict::{Letter, kills_its_relay, narrowed};
use super::window::Window;
use super::{Report, Settings};
use crate::heartbeat::Heartbeat;
use crate::outage::Outage;
use crate::store::{Claimed, Lease, Settled, Standing, Ticket};
use crate::{BoxFuture, Result};

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
    /// An operator paused the lane, another relay should have it, or its address is gone.
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
    Stop,
    Paused,
    Retired(String),
}

/// What is to be known when the settle on its way comes back.
struct Settling {
    since: Instant,
    parks: bool,
    tally: Tally,
    letters: Vec<(bool, Letter)>,
    dead_keys: Vec<String>,
    unrecorded: bool,
    /// What was never sent, should the settle fail.
    unsent: Vec<Ticket>,
}

pub(super) struct Drive<'a> {
    settings: &'a Settings,
    lane: &'a Lane,
    meters: &'a Meters,
    heartbeat: &'a Heartbeat,
    tenure: &'a Tenure,
    lease: &'a Lease,
    until: Until,
    pace: Pace,
    window: Window,
    /// How many events may be unanswered; narrower after stumbles, until something was settled.
    width: usize,
    /// The first event of a fully narrowed window is not sent any more: it has killed its relay too often.
    deadly: bool,

    /// When a burst goes off that waits for more to join it.
    send_by: Option<Instant>,
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
    /// Keys whose head is dead and holds nobody: they are free again when the next settle has recorded that.
    dead_keys: Vec<String>,
    /// Whether the outcomes hold something that claims must see.
    parks: bool,
    unrecorded: bool,
    poll: Duration,
    /// Since the last claim came back empty, nothing happened that could mean more work.
    dry: bool,

    outage: Outage,
    /// The target is away; it is asked again at this time.
    down_until: Option<Instant>,
    /// Whether the lane's row says that the target is away; unknown until this lease has said something, because the
    /// owner before may have left it so.
    reported_down: Option<bool>,
    report_next: Option<Option<String>>,
    next_slow_check: Instant,
    leaving: Option<Leaving>,
    /// Another relay should have the lane: nothing more is claimed, and the lane is free once all that was is answered.
    handing_over: bool,
    /// The relay stops, and what is in flight has time until then.
    stop_by: Option<Instant>,
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
            heartbeat: tender.heartbeat,
            tenure: tender.tenure,
            lease,
            until,
            pace: Pace::new(lease.length(), since),
            window: Window::new(lane.spec.order),
            width: narrowed(full, stumbles) as usize,
            deadly: kills_its_relay(lane.policy.as_ref(), full, stumbles),
            send_by: None,
            bursts: SelectAll::new(),
            claim: None,
            settle: None,
            ping: None,
            wait: None,
            outcomes: Vec::new(),
            settling: None,
            letters: Vec::new(),
            parked_keys: HashSet::new(),
            dead_keys: Vec::new(),
            parks: false,
            unrecorded: false,
            poll: POLL_FIRST,
            dry: false,
            outage: Outage::default(),
            down_until: None,
            reported_down: None,
            report_next: None,
            next_slow_check: since,
            leaving: None,
            handing_over: false,
            stop_by: None,
            done: Report::default(),
        }
    }

    /// What was recorded so far.
    pub(super) fn report(&self) -> Report {
        self.done
    }

    /// Whether the store has recorded anything under this lease.
    pub(super) fn has_settled(&self) -> bool {
        self.pace.has_settled()
    }

    /// Runs until the lease ends, on purpose or not.
    ///
    /// # Errors
    /// What the store said; the lease is then worth nothing.
    pub(super) async fn run(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<End> {
        loop {
            self.heartbeat.beat();
            self.start_what_may_start();
            if self.has_ended() {
                return self.give_up().await;
            }
            if Instant::now() >= self.pace.ends_at() {
                // By its own clock the lease may be over. What is in flight is unknown and will be sent again.
                return Ok(End::Lost);
            }
            self.tenure.hold();
            if let Some(end) = self.step(stopped).await? {
                return Ok(end);
            }
        }
    }

    /// Waits for the first thing that happens and takes it in.
    async fn step(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<Option<End>> {
        let wake_at = self.wake_at();
        let can_stop = self.until == Until::Stopped && self.stop_by.is_none();
        tokio::select! {
            biased;
            () = told(stopped), if can_stop => self.stop(),
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

    /// When something must be done even if nothing happens.
    fn wake_at(&self) -> Instant {
        let mut at = self.pace.ends_at();
        if self.settle.is_none() && !self.settle_must_wait() {
            at = at.min(self.settle_at());
        }
        if self.ping.is_none()
            && let Some(until) = self.down_until
        {
            at = at.min(until);
        }
        if let Some(by) = self.stop_by {
            at = at.min(by);
        }
        if let Some(by) = self.send_by {
            at = at.min(by);
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
