//! A target that does everything an adapter or a broker can do wrong, and remembers what reached it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use tokio::time::sleep;

/// What a planned panic says.
pub(crate) const PLANNED: &str = "planned by the simulation";
/// Larger payloads are dead.
pub(crate) const PAYLOAD_MAX: u64 = 64;

/// What reached the target, in order, whether it was acknowledged or not.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) id: String,
    pub(crate) replay: bool,
}

/// What all relays' targets of one simulation share.
#[derive(Default)]
pub(crate) struct Shore {
    pub(crate) away: bool,
    pub(crate) bad: bool,
    pub(crate) may_panic: bool,
    pub(crate) panics: u32,
    pub(crate) reached: Vec<Reached>,
    pub(crate) tried: HashMap<String, u32>,
    /// The first thing that the target saw a relay do wrong.
    pub(crate) wrong: Option<String>,
    /// Of a thousand answers so many more are failures.
    failing: u32,
    rng: fastrand::Rng,
}

/// The shore as one relay sees it.
#[derive(Clone)]
pub(crate) struct Pier {
    pub(crate) shore: Arc<Mutex<Shore>>,
    capabilities: Capabilities,
    window: usize,
    out: Arc<Mutex<Vec<Parcel>>>,
    ordered: bool,
}

/// Takes its parcel off the pier when it is answered or its burst is dropped.
struct Out {
    pier: Pier,
    id: String,
}

impl Drop for Out {
    fn drop(&mut self) {
        let mut out = self.pier.out.lock().unwrap();
        let at = out.iter().position(|parcel| parcel.envelope.id == self.id).expect("it was put there");
        out.swap_remove(at);
    }
}

enum Plan {
    Yes(Duration),
    /// It arrives, but its acknowledgement does not.
    YesUnheard(Duration),
    No(DeliverKind, Duration),
    Nothing,
    Panic,
}

impl Shore {
    pub(crate) fn new(seed: u64, may_panic: bool) -> Arc<Mutex<Self>> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let failing = [0, 0, 300][rng.usize(0..3)];
        Arc::new(Mutex::new(Self { rng, failing, may_panic, ..Self::default() }))
    }

    fn plan(&mut self) -> Plan {
        if self.away {
            return Plan::No(DeliverKind::Unavailable, Duration::ZERO);
        }
        if !self.bad {
            return Plan::Yes(Duration::ZERO);
        }
        let soon = Duration::from_millis(self.rng.u64(0..200));
        if self.rng.u32(0..1_000) < self.failing {
            return Plan::No(DeliverKind::Failed, soon);
        }
        match self.rng.u32(0..1_000) {
            0..400 => Plan::Yes(Duration::ZERO),
            400..700 => Plan::Yes(soon),
            700..760 => Plan::Yes(Duration::from_millis(self.rng.u64(500..4_000))),
            760..790 => Plan::YesUnheard(soon),
            790..880 => Plan::No(DeliverKind::Failed, soon),
            880..920 => Plan::No(DeliverKind::Rejected, soon),
            920..950 => Plan::No(DeliverKind::Unavailable, soon),
            950..953 => Plan::No(DeliverKind::Gone, soon),
            953..956 if self.may_panic => Plan::Panic,
            _ => Plan::Nothing,
        }
    }
}

impl Pier {
    pub(crate) fn new(shore: &Arc<Mutex<Shore>>, window: usize, burst_max: u32, ordered: bool) -> Self {
        let capabilities = Capabilities::sink().burst_max(burst_max).payload_bytes_max(PAYLOAD_MAX);
        Self { shore: Arc::clone(shore), capabilities, window, out: Arc::default(), ordered }
    }

    fn shore(&self) -> MutexGuard<'_, Shore> {
        self.shore.lock().unwrap()
    }

    /// Looks at what the relay hands over, and puts it on the pier.
    fn put_out(&self, parcel: &Parcel) -> Out {
        let mut out = self.out.lock().unwrap();
        let mut shore = self.shore();
        let key = &parcel.envelope.key;
        let same = |other: &&Parcel| key.is_some() && other.envelope.key == *key && !other.replay;
        if self.ordered
            && !parcel.replay
            && let Some(other) = out.iter().find(same)
        {
            let wrong =
                format!("{} is sent while {} of its key is out", parcel.envelope.id, other.envelope.id);
            shore.wrong.get_or_insert(wrong);
        }
        if out.iter().any(|other| other.envelope.id == parcel.envelope.id) {
            shore.wrong.get_or_insert(format!("{} is out twice", parcel.envelope.id));
        }
        if parcel.envelope.payload.len() as u64 > PAYLOAD_MAX {
            shore.wrong.get_or_insert(format!("{} is too large and was sent", parcel.envelope.id));
        }
        *shore.tried.entry(parcel.envelope.id.clone()).or_default() += 1;
        out.push(parcel.clone());
        if out.len() > self.window {
            shore.wrong.get_or_insert(format!("{} are out of a window of {}", out.len(), self.window));
        }
        Out { pier: self.clone(), id: parcel.envelope.id.clone() }
    }

    async fn carry(self, index: usize, parcel: Parcel, out: Out, plan: Plan) -> Option<Answer> {
        let answer = match plan {
            Plan::Yes(after) | Plan::YesUnheard(after) => {
                sleep(after).await;
                let reached = Reached { id: parcel.envelope.id.clone(), replay: parcel.replay };
                self.shore().reached.push(reached);
                if matches!(plan, Plan::YesUnheard(_)) {
                    std::future::pending::<()>().await;
                }
                Answer::delivered(index)
            }
            Plan::No(kind, after) => {
                sleep(after).await;
                let code = if kind == DeliverKind::Rejected { "rejected" } else { "no" };
                Answer::failed(index, DeliverError::new(kind, code, "the plan says so"))
            }
            Plan::Nothing => std::future::pending().await,
            Plan::Panic => {
                self.shore().panics += 1;
                std::panic::panic_any(PLANNED)
            }
        };
        drop(out);
        Some(answer)
    }
}

impl Target for Pier {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let answers: FuturesUnordered<_> = burst
            .into_iter()
            .enumerate()
            .map(|(index, parcel)| {
                let out = self.put_out(&parcel);
                let plan = self.shore().plan();
                self.clone().carry(index, parcel, out, plan)
            })
            .collect();
        let (bad, chance) = {
            let mut shore = self.shore();
            (shore.bad, shore.rng.u32(0..100))
        };
        let answers = answers.filter_map(std::future::ready);
        match chance {
            0..3 if bad => Box::pin(answers.take(1)),
            // The adapter answers twice, and for a parcel that never was.
            3..8 if bad => Box::pin(answers.flat_map(|answer| {
                let twice = [answer.clone(), answer, Answer::delivered(usize::MAX)];
                futures_util::stream::iter(twice)
            })),
            _ => Box::pin(answers),
        }
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { if self.shore().away { Err(Error::unavailable("away")) } else { Ok(()) } })
    }
}
