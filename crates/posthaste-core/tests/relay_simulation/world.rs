//! One simulation: what happens, and what must be true at its end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::Error;
use posthaste_core::admin::{Actor, Admin, Command, Filter, LaneState, LaneStats, Pace, all_lanes};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::{OnDead, Order};
use posthaste_core::memory::Memory;
use posthaste_core::publisher::Publisher;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::retry::Backoff;
use posthaste_core::time::Moment;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::check;
use crate::store::{BadLine, PausedClock};
use crate::target::{PAYLOAD_MAX, Pier, Shore};

pub(crate) const LANE: &str = "main";
pub(crate) const ATTEMPTS: u32 = 4;
const LEASE: Duration = Duration::from_secs(6);
const TIMEOUT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(2);
/// How long everything may take to drain once nothing goes wrong any more.
const DRAINED_WITHIN: Duration = Duration::from_secs(300);

/// An event as it was published.
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) scheduled: bool,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<posthaste_core::Result<()>>,
}

pub(crate) struct World {
    rng: fastrand::Rng,
    pub(crate) memory: Memory,
    store: Arc<BadLine>,
    pub(crate) shore: Arc<Mutex<Shore>>,
    running: Vec<Running>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) order: Order,
    on_dead: OnDead,
    window: u32,
    burst_max: u32,
    window_bytes: u64,
    keys: u32,
}

pub(crate) fn in_lane() -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some(LANE.parse().unwrap());
    filter
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let may_panic = rng.u32(0..4) == 0;
        let shore = Shore::new(rng.u64(..), may_panic);
        let memory = Memory::on(PausedClock::new());
        let store = BadLine::new(memory.clone(), rng.u64(..));
        Self {
            memory,
            store,
            shore,
            running: Vec::new(),
            sent: Vec::new(),
            order: if rng.u32(0..5) == 0 { Order::None } else { Order::PerKey },
            on_dead: if rng.u32(0..4) == 0 { OnDead::Block } else { OnDead::GoOn },
            window: rng.u32(1..24),
            burst_max: rng.u32(1..12),
            window_bytes: [0, 300, 1 << 20][rng.usize(0..3)],
            keys: rng.u32(1..9),
            rng,
        }
    }

    pub(crate) async fn live(mut self) -> Result<(), String> {
        let stormy = self.rng.bool();
        self.store.bad.store(stormy, Ordering::Relaxed);
        self.shore.lock().unwrap().bad = true;
        for _ in 0..self.rng.u32(20..120) {
            self.step().await?;
            sleep(Duration::from_millis(self.rng.u64(0..400))).await;
        }
        self.heal().await?;
        self.stop_all().await?;
        check::all(&self).await
    }

    async fn step(&mut self) -> Result<(), String> {
        match self.rng.u32(0..100) {
            0..45 => self.publish().await,
            45..60 if self.running.len() < 2 => self.start(),
            60..70 if !self.running.is_empty() => {
                let at = self.rng.usize(..self.running.len());
                // A crash: dropped at whatever it waits for.
                let crashed = self.running.swap_remove(at).task;
                crashed.abort();
                let _ = crashed.await;
            }
            70..75 if !self.running.is_empty() => {
                let at = self.rng.usize(..self.running.len());
                let running = self.running.swap_remove(at);
                stop(running).await?;
            }
            75..80 => self.command(Command::Pause).await,
            80..88 => self.command(Command::Resume).await,
            88..92 => self.command(Command::Redrive { dry_run: false }).await,
            92..97 => {
                let mut shore = self.shore.lock().unwrap();
                shore.away = !shore.away;
            }
            _ => self.once().await?,
        }
        Ok(())
    }

    async fn publish(&mut self) {
        let events: Vec<Envelope> = (0..self.rng.usize(1..8)).map(|_| self.event()).collect();
        self.memory.publish(events).await.expect("nothing is wrong with it");
    }

    fn event(&mut self) -> Envelope {
        let too_large = self.rng.u32(0..40) == 0;
        let size = if too_large { PAYLOAD_MAX + 1 } else { self.rng.u64(0..PAYLOAD_MAX) };
        let mut event = Envelope::new("simulated", vec![b'x'; size as usize]);
        event.id = format!("e{}", self.sent.len());
        event.key = (self.rng.u32(0..5) > 0).then(|| format!("k{}", self.rng.u32(0..self.keys)));
        let scheduled = self.rng.u32(0..20) == 0;
        event.available = scheduled.then(|| Moment::In(Duration::from_millis(self.rng.u64(1..5_000))));
        self.sent.push(Sent { id: event.id.clone(), key: event.key.clone(), scheduled });
        event
    }

    fn relay(&mut self) -> Relay {
        let ordered = self.order == Order::PerKey;
        let pier = Pier::new(&self.shore, self.window as usize, self.burst_max, ordered);
        let lane = Lane::named(LANE)
            .expect("a good name")
            .to(Arc::new(pier))
            .order(self.order)
            .on_dead(self.on_dead)
            .retry(Backoff::exponential(Duration::from_millis(50)).attempts(ATTEMPTS))
            .window(self.window)
            .window_bytes(self.window_bytes)
            .timeout(TIMEOUT)
            .slow_after(Duration::from_secs(1))
            .lease(LEASE);
        Relay::new(self.store.clone()).grace(GRACE).lane(lane)
    }

    fn start(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let relay = self.relay();
        let task = tokio::spawn(async move {
            relay
                .run(async {
                    let _ = stopped.await;
                })
                .await
        });
        self.running.push(Running { stop, task });
    }

    async fn once(&mut self) -> Result<(), String> {
        let relay = self.relay();
        let pass = tokio::spawn(async move { relay.once().await });
        match timeout(DRAINED_WITHIN, pass).await {
            Err(_) => Err("`once` does not end".to_owned()),
            // A panic of the target, a line that is bad, or another relay: all are answered.
            Ok(_) => Ok(()),
        }
    }

    async fn command(&self, command: Command) {
        // There may be no lane yet.
        let _: Result<_, Error> =
            self.memory.apply(&in_lane(), command, &Actor::new("sim", "test"), &Pace::full()).await;
    }

    async fn state(&self) -> Option<LaneState> {
        let lanes = all_lanes(&self.memory).await.expect("a model never fails");
        lanes.first().map(|lane| lane.state)
    }

    pub(crate) async fn stats(&self) -> LaneStats {
        let lanes = all_lanes(&self.memory).await.expect("a model never fails");
        lanes.into_iter().next().expect("some relay made the lane")
    }

    /// Nothing goes wrong from now on; waits until nothing is left to do.
    async fn heal(&mut self) -> Result<(), String> {
        {
            let mut shore = self.shore.lock().unwrap();
            (shore.bad, shore.away) = (false, false);
        }
        self.store.bad.store(false, Ordering::Relaxed);
        if self.running.is_empty() {
            self.start();
        }
        // Somebody must notice that the target is back.
        self.publish().await;
        let since = Instant::now();
        loop {
            // A lane that was paused, or retired meanwhile; and what a dead event blocks.
            if matches!(self.state().await, Some(LaneState::Paused | LaneState::Retired)) {
                self.command(Command::Resume).await;
            }
            if self.on_dead == OnDead::Block {
                self.command(Command::Redrive { dry_run: false }).await;
            }
            sleep(Duration::from_millis(500)).await;
            let stats = self.stats().await;
            let blocked = self.on_dead == OnDead::Block && stats.dead > 0 && stats.waiting > 0;
            if stats.unread == 0 && stats.waiting == 0 && !blocked {
                return Ok(());
            }
            if since.elapsed() > DRAINED_WITHIN {
                return Err(format!("the lane is stuck: {stats:?}"));
            }
        }
    }

    async fn stop_all(&mut self) -> Result<(), String> {
        for running in std::mem::take(&mut self.running) {
            stop(running).await?;
        }
        Ok(())
    }
}

/// A stop ends within its grace period and what a last settle may take: never longer than a lease.
async fn stop(running: Running) -> Result<(), String> {
    let _ = running.stop.send(());
    match timeout(GRACE + LEASE + Duration::from_secs(1), running.task).await {
        Err(_) => Err("a stop does not end".to_owned()),
        Ok(Err(panic)) => Err(format!("the relay itself panicked: {panic}")),
        Ok(Ok(Err(error))) => Err(format!("the relay ended with an error: {error}")),
        Ok(Ok(Ok(()))) => Ok(()),
    }
}
