//! Keeps one lane going: acquires it, drives it, and waits out what went wrong.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, error, info, info_span, warn};

use super::drive::{Drive, End, Until};
use super::lane::Lane;
use super::meters::{Meters, State};
use super::tenure::{Tenure, Trouble};
use super::{Report, Settings};
use crate::heartbeat::Heartbeat;
use crate::outage::Outage;
use crate::store::{Lease, Owner};
use crate::telemetry::{field, span};
use crate::{Error, ErrorKind, Result};

/// How long to wait before asking again for a lane that somebody else holds, at most.
const HELD_PAUSE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Tender<'a> {
    pub(super) settings: &'a Settings,
    pub(super) lane: &'a Lane,
    pub(super) meters: &'a Meters,
    pub(super) heartbeat: &'a Heartbeat,
    pub(super) tenure: &'a Tenure,
}

impl Tender<'_> {
    /// Until `stopped` says so. Returns an error only for a store that was never as it must be.
    pub(super) async fn run(&self, mut stopped: watch::Receiver<bool>, first_pause: Duration) -> Result<()> {
        let mut outage = Outage::default();
        let mut pause = first_pause;
        while !rest(&mut stopped, pause).await {
            self.heartbeat.beat();
            pause = match self.turn(&mut stopped, &mut outage).await {
                Ok(Turn::Stopped) => return Ok(()),
                Ok(Turn::Driven) => Duration::ZERO,
                Ok(Turn::NotOurs) => self.held_pause(),
                Err(error) if error.retryable() => self.wait_out(&mut outage, &error),
                Err(error) if self.tenure.has_been_held() => self.give_up(&mut outage, &error),
                Err(error) => {
                    self.meters.state(State::Error);
                    return Err(error.during(format!("drive lane {:?}", self.lane.name().as_str())));
                }
            };
        }
        Ok(())
    }

    /// One pass until nothing is due.
    pub(super) async fn once(&self) -> Result<Report> {
        // Nobody stops it: it ends by itself.
        let (_keep, mut stopped) = watch::channel(false);
        let since = Instant::now();
        let Some(lease) = self.acquire(&self.settings.owner.passing()).await? else {
            return Ok(Report { lanes_skipped: 1, ..Report::default() });
        };
        let mut drive = Drive::new(self, &lease, since, Until::Idle);
        let end = drive.run(&mut stopped).await;
        note_unsent(&lease, &mut drive, &end);
        match end? {
            End::Lost => {
                Err(Error::conflict(format!("lane {:?} was taken over meanwhile", self.lane.name().as_str())))
            }
            _ => Ok(drive.report()),
        }
    }

    async fn turn(&self, stopped: &mut watch::Receiver<bool>, outage: &mut Outage) -> Result<Turn> {
        let since = Instant::now();
        let acquired = tokio::select! {
            biased;
            acquired = self.acquire(&self.settings.owner) => acquired?,
            () = self.grace_is_over(stopped) => return Ok(Turn::Stopped),
        };
        let Some(lease) = acquired else { return Ok(Turn::NotOurs) };
        let span = info_span!(
            span::LANE,
            { field::LANE } = self.lane.name().as_str(),
            { field::RELAY } = self.settings.owner.name,
            { field::EPOCH } = lease.epoch()
        );
        span.in_scope(|| info!("driving"));
        self.meters.state(State::Active);
        let mut drive = Drive::new(self, &lease, since, Until::Stopped);
        let end = drive.run(stopped).instrument(span.clone()).await;
        note_unsent(&lease, &mut drive, &end);
        if drive.has_settled() {
            // The store did its work meanwhile: what fails now is a new outage, with a log line and short pauses of its own.
            outage.over();
        }
        match end? {
            End::GivenUp => Ok(Turn::Stopped),
            End::Lost => {
                self.meters.lost();
                warn!(
                    lane = self.lane.name().as_str(),
                    epoch = lease.epoch(),
                    "the lease is gone: another relay took the lane, or an operator moved it"
                );
                Ok(Turn::Driven)
            }
            End::SetAside => {
                self.meters.state(State::Waiting);
                Ok(Turn::NotOurs)
            }
        }
    }

    async fn acquire(&self, owner: &Owner) -> Result<Option<Lease>> {
        // What is acquired later than that is over already.
        let limit = self.lane.spec.lease;
        let acquired = timeout(limit, self.settings.store.acquire(&self.lane.spec, owner)).await;
        crate::crash::point("relay: acquired");
        let late = |_| Error::unavailable(format!("no answer within {limit:?}"));
        let acquired = acquired.map_err(late).flatten().map_err(|error| error.during("acquire the lane"))?;
        self.tenure.answered();
        self.meters.unheld(Duration::ZERO);
        Ok(acquired)
    }

    async fn grace_is_over(&self, stopped: &mut watch::Receiver<bool>) {
        // An error means that nobody can stop it any more, and is as good as a stop.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        tokio::time::sleep(self.settings.grace).await;
    }

    fn held_pause(&self) -> Duration {
        debug!({ field::LANE } = self.lane.name().as_str(), "not ours to drive now");
        (self.lane.spec.lease / 4).min(HELD_PAUSE_MAX).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The store was changed so that lanes cannot be driven safely. An administrator can fix that while the
    /// relay runs, so it asks again instead of ending.
    fn give_up(&self, outage: &mut Outage, error: &Error) -> Duration {
        self.meters.store_failed();
        self.meters.state(State::Error);
        self.meters.unheld(self.tenure.age());
        if outage.is_new() || self.tenure.trouble() != Some(Trouble::Refused) {
            error!(
                { field::LANE } = self.lane.name().as_str(), { field::ERROR } = %error,
                "the relay gives the lane up until this is fixed, and checks again every few seconds"
            );
        }
        self.tenure.refused();
        outage.pause()
    }

    fn wait_out(&self, outage: &mut Outage, error: &Error) -> Duration {
        self.meters.store_failed();
        self.meters.state(State::Waiting);
        self.meters.unheld(self.tenure.age());
        if outage.is_new() && error.kind() == ErrorKind::Conflict {
            warn!({ field::LANE } = self.lane.name().as_str(), { field::ERROR } = %error, "the lane is not free; asking again");
        } else if outage.is_new() {
            warn!({ field::LANE } = self.lane.name().as_str(), { field::ERROR } = %error, "the store is unreachable; waiting for it");
        }
        outage.pause()
    }
}

enum Turn {
    Driven,
    NotOurs,
    Stopped,
}

/// What was never sent need not count as an attempt when it is taken back.
fn note_unsent(lease: &Lease, drive: &mut Drive<'_>, end: &Result<End>) {
    if matches!(end, Err(_) | Ok(End::Lost)) {
        lease.note_unsent(drive.unsent());
    }
}

/// Waits, but not longer than until the stop; answers whether it is there.
async fn rest(stopped: &mut watch::Receiver<bool>, pause: Duration) -> bool {
    if *stopped.borrow() {
        return true;
    }
    if pause.is_zero() {
        return false;
    }
    timeout(pause, stopped.wait_for(|stopped| *stopped)).await.is_ok()
}
