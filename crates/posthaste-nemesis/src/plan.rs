//! Which faults, in which order: all of it from the seed.

use std::time::Duration;

use fastrand::Rng;

use crate::consumer::POINTS as CONSUMER_POINTS;
use crate::fault::{Fault, Link};
use crate::lanes::LEASE;

/// How many relays there are.
pub(crate) const RELAYS: usize = 3;
/// How many consumer processes there are, where there is a broker; they are numbered after the relays.
pub(crate) const CONSUMERS: usize = 3;
/// How many producers there are.
pub(crate) const PRODUCERS: usize = 6;

/// Where a relay that ends itself does so.
const POINTS: [&str; 9] = [
    "relay: acquired",
    "claim: read",
    "relay: claimed",
    "relay: before deliver",
    "relay: answered",
    "relay: before settle",
    "settle: before commit",
    "settle: after commit",
    "relay: settled",
];

/// A fault, and how long to wait before it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) pause: Duration,
    pub(crate) fault: Fault,
}

/// What both hands do at the same time: one to relays and connections, the other to the server and the producers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) lines: Vec<Step>,
    pub(crate) servers: Vec<Step>,
}

impl Plan {
    /// The plan of this seed, for so long.
    pub(crate) fn new(seed: u64, length: Duration) -> Self {
        Self {
            lines: steps(Rng::with_seed(seed ^ 0x0011_ac35), length, 300..1_500, 11, line_fault),
            servers: steps(Rng::with_seed(seed ^ 0x005e_4e45), length, 1_500..4_500, 7, server_fault),
        }
    }

    /// The same with consumers.
    pub(crate) fn consuming(seed: u64, length: Duration) -> Self {
        let lines = steps(Rng::with_seed(seed ^ 0x0011_ac35), length, 300..1_500, 11, consumer_fault);
        Self { lines, ..Self::new(seed, length) }
    }
}

impl Plan {
    /// With a broker between relays and consumers, which has its share of both hands' faults.
    pub(crate) fn through_broker(seed: u64, length: Duration) -> Self {
        let rng = Rng::with_seed(seed ^ 0x005e_4e45);
        let mut servers = steps(rng, length, 1_500..4_500, 10, any_server_fault);
        // A short run is to see that too.
        if let Some(first) = servers.first_mut() {
            first.fault = Fault::KillBroker { down: Duration::from_millis(500) };
        }
        let rng = Rng::with_seed(seed ^ 0x0011_ac35);
        Self { lines: steps(rng, length, 300..1_500, 11, either_side_fault), servers }
    }
}

/// What befalls a relay befalls a consumer as well, and what befalls a connection that to the broker.
fn either_side_fault(kind: usize, rng: &mut Rng) -> Fault {
    let fault = line_fault(kind, rng);
    let who = rng.usize(..RELAYS + CONSUMERS);
    let near = if rng.bool() { Link::Broker } else { Link::Relay(who) };
    match fault {
        Fault::KillRelay { down, .. } => Fault::KillRelay { relay: who, down },
        Fault::StopRelay { down, .. } => Fault::StopRelay { relay: who, down },
        Fault::FreezeRelay { span, .. } => Fault::FreezeRelay { relay: who, span },
        Fault::CrashRelay { .. } if who >= RELAYS => Fault::CrashRelay {
            relay: who,
            point: CONSUMER_POINTS[rng.usize(..CONSUMER_POINTS.len())],
            nth: rng.u32(1..200),
        },
        Fault::Cut { .. } => Fault::Cut { link: near },
        Fault::Stall { span, .. } => Fault::Stall { link: near, span },
        Fault::HalfOpen { span, .. } => Fault::HalfOpen { link: near, span },
        Fault::Refuse { span, .. } => Fault::Refuse { link: near, span },
        other => other,
    }
}

fn any_server_fault(kind: usize, rng: &mut Rng) -> Fault {
    match kind {
        7 | 8 => Fault::KillBroker { down: millis(rng, 0..1_500) },
        9 => Fault::StopBroker { down: millis(rng, 0..1_000) },
        kind => server_fault(kind, rng),
    }
}

/// A relay that ends itself does so in a consumer.
fn consumer_fault(kind: usize, rng: &mut Rng) -> Fault {
    match line_fault(kind, rng) {
        // Of two kinds of kills one becomes such an end too.
        Fault::KillRelay { relay, .. } | Fault::CrashRelay { relay, .. } if kind != 0 => Fault::CrashRelay {
            relay,
            point: CONSUMER_POINTS[rng.usize(..CONSUMER_POINTS.len())],
            nth: rng.u32(1..200),
        },
        other => other,
    }
}

/// Deals the kinds of faults like a deck of cards, so that a short run sees most of them and a long one all.
fn steps(
    mut rng: Rng,
    length: Duration,
    pause_ms: std::ops::Range<u64>,
    kinds: usize,
    fault_of: fn(usize, &mut Rng) -> Fault,
) -> Vec<Step> {
    let (mut steps, mut deck, mut time) = (Vec::new(), Vec::new(), Duration::ZERO);
    loop {
        if deck.is_empty() {
            deck.extend(0..kinds);
            rng.shuffle(&mut deck);
        }
        let kind = deck.pop().unwrap_or_default();
        let step = Step { pause: millis(&mut rng, pause_ms.clone()), fault: fault_of(kind, &mut rng) };
        time += step.pause + step.fault.span();
        if time >= length {
            return steps;
        }
        steps.push(step);
    }
}

fn line_fault(kind: usize, rng: &mut Rng) -> Fault {
    let relay = rng.usize(..RELAYS);
    let link = match rng.usize(..6) {
        0 | 1 => Link::All,
        2 => Link::Producers,
        _ => Link::Relay(relay),
    };
    let past_the_lease = LEASE + millis(rng, 200..2_500);
    let span = if rng.bool() { past_the_lease } else { millis(rng, 100..1_500) };
    match kind {
        0 | 1 => Fault::KillRelay { relay, down: millis(rng, 0..2_000) },
        2 => Fault::CrashRelay { relay, point: POINTS[rng.usize(..POINTS.len())], nth: rng.u32(1..20) },
        3 => Fault::FreezeRelay { relay, span: past_the_lease },
        4 => Fault::FreezeRelay { relay, span: millis(rng, 100..1_500) },
        5 => Fault::Cut { link },
        6 => Fault::Stall { link, span },
        7 => Fault::Deafen { link, span },
        8 => Fault::HalfOpen { link, span: millis(rng, 100..2_000) },
        // A settle has some ten messages each way, and must stay well within its lease.
        9 => Fault::Delay { link, by: millis(rng, 2..40), span: millis(rng, 500..4_000) },
        _ => match rng.bool() {
            true => Fault::Refuse { link, span: millis(rng, 100..3_000) },
            false => Fault::StopRelay { relay, down: millis(rng, 0..1_000) },
        },
    }
}

fn server_fault(kind: usize, rng: &mut Rng) -> Fault {
    let producer = rng.usize(..PRODUCERS);
    match kind {
        0 | 1 => Fault::KillServer { down: millis(rng, 0..1_500) },
        2 => Fault::KillBackend,
        3 => Fault::QuitServer { down: millis(rng, 0..1_000) },
        4 => Fault::StopServer { down: millis(rng, 0..1_000) },
        5 => match rng.bool() {
            true => Fault::KillProducer { producer, down: millis(rng, 0..1_000) },
            false => Fault::FreezeProducer { producer, span: millis(rng, 500..4_000) },
        },
        _ => Fault::Terminate,
    }
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_is_a_plan_and_another_seed_another() {
        assert_eq!(Plan::new(7, MINUTE), Plan::new(7, MINUTE));
        assert_ne!(Plan::new(7, MINUTE), Plan::new(8, MINUTE));
    }

    #[test]
    fn no_hand_is_busy_for_longer_than_the_run() {
        for seed in 0..100 {
            let plan = Plan::new(seed, MINUTE);
            for steps in [&plan.lines, &plan.servers] {
                assert!(steps.iter().map(|step| step.pause + step.fault.span()).sum::<Duration>() < MINUTE);
                assert!(steps.len() >= 8, "{steps:?}");
            }
        }
    }

    #[test]
    fn all_kinds_of_faults_come_in_a_few_seeds() {
        let plans: Vec<Plan> = (0..10).map(|seed| Plan::new(seed, MINUTE)).collect();
        let kinds: HashSet<_> = plans
            .iter()
            .flat_map(|plan| plan.lines.iter().chain(&plan.servers))
            .map(|step| discriminant(&step.fault))
            .collect();
        assert_eq!(kinds.len(), 17);
    }
}
