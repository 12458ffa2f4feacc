//! What a relay answers about what it has claimed, decided by numbers; pure.

use std::collections::HashMap;
use std::time::Duration;

use posthaste_core::lane::{LaneSpec, OnDead, Order};
use posthaste_core::store::{Outcome, Settled, Ticket};

use crate::drive::{dead, retry};

/// A claimed event that is not answered for good.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// Its ticket in each of the two stores.
    pub(super) tickets: [Ticket; 2],
    /// The key that orders it; none for a replay.
    pub(super) key: Option<String>,
    /// It is parked as slow.
    pub(super) slow: bool,
}

/// What became of the events of a key that were looked at so far.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// One of them is unanswered: nobody after it was sent.
    Unanswered,
    /// One of them is parked and holds its key: whoever comes after it goes behind.
    Parked,
}

/// Decides about each event in turn, takes out those that are answered for good, and gives the outcomes for each store.
pub(super) fn decide(
    spec: &LaneSpec,
    out: &mut Vec<Out>,
    choices: &[u8],
    give_up: bool,
) -> [Vec<Settled>; 2] {
    let mut outcomes = [Vec::new(), Vec::new()];
    let mut keys: HashMap<String, Before> = HashMap::new();
    let mut choices = choices.iter();
    out.retain_mut(|event| {
        let key = event.key.clone().filter(|_| spec.order == Order::PerKey);
        let before = key.as_ref().and_then(|key| keys.get(key).copied());
        let outcome = match before {
            Some(Before::Parked) => Some(Outcome::Behind),
            Some(Before::Unanswered) => None,
            None => choices.next().and_then(|choice| chosen(*choice, event.slow)),
        };
        let outcome = outcome.or_else(|| (give_up && !event.slow).then_some(Outcome::Released));
        if let (Some(key), Some(now)) = (key, blocks(spec, outcome.as_ref())) {
            keys.entry(key).or_insert(now);
        }
        let Some(outcome) = outcome else { return true };
        for (outcomes, ticket) in outcomes.iter_mut().zip(event.tickets) {
            outcomes.push(Settled::new(ticket, outcome.clone()));
        }
        event.slow = matches!(outcome, Outcome::Slow);
        event.slow
    });
    outcomes
}

fn chosen(choice: u8, slow: bool) -> Option<Outcome> {
    match choice % 10 {
        0..=3 => Some(Outcome::Delivered),
        4 | 5 => Some(retry(Duration::from_secs(u64::from(choice / 10 % 8)))),
        6 => Some(dead()),
        7 if !slow => Some(Outcome::Slow),
        8 => Some(Outcome::Later { after: Duration::from_secs(u64::from(choice / 10 % 8)), error: None }),
        _ => None,
    }
}

/// What this outcome means for later events of its key.
fn blocks(spec: &LaneSpec, outcome: Option<&Outcome>) -> Option<Before> {
    match outcome {
        None | Some(Outcome::Released) => Some(Before::Unanswered),
        Some(Outcome::Retry { .. } | Outcome::Later { .. } | Outcome::Slow | Outcome::Behind) => {
            Some(Before::Parked)
        }
        Some(Outcome::Dead { .. }) if spec.on_dead == OnDead::Block => Some(Before::Parked),
        Some(_) => None,
    }
}
