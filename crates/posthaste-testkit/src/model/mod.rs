//! Drives two stores with the same random steps and compares what can be observed.
//!
//! The memory backend is the model: if a real store differs from it in any answer, one of them is wrong. Steps are what a
//! relay and an operator can do; outcomes keep to what a relay does with a key (nothing of a key is answered before the
//! events before it, and what follows a parked one goes behind it).

mod outcomes;
mod pair;
mod seen;

use std::time::Duration;

use proptest::prelude::*;

pub use pair::{Claims, Pair, run};

/// How many lanes the steps speak of.
pub const LANES: usize = 3;

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// An event is published.
    Publish(Draft),
    /// The lane's relay claims at most so many.
    Claim {
        /// Which lane.
        lane: usize,
        /// How many at most.
        room: u32,
    },
    /// The lane's relay settles what it has claimed; each number decides about one event.
    Settle {
        /// Which lane.
        lane: usize,
        /// Decides about the claimed events, in their order; those without a number stay out.
        choices: Vec<u8>,
        /// Whether it gives the lane up with that.
        give_up: bool,
    },
    /// The lane's relay crashes, and comes back.
    Crash {
        /// Which lane.
        lane: usize,
    },
    /// Time passes.
    Pass(Duration),
    /// An operator acts.
    Operate {
        /// On which lane.
        lane: usize,
        /// What is done.
        act: Act,
        /// Only to events of this key.
        key: Option<u8>,
    },
}

/// An event to be published.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its key, or none.
    pub key: Option<u8>,
    /// Whether it goes to the topic that only some lanes want.
    pub rare: bool,
    /// Not before so many seconds.
    pub delay: Option<u64>,
    /// Not after so many seconds.
    pub expires: Option<u64>,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Dead events become due.
    Redrive,
    /// Delivered events are delivered again.
    Replay,
    /// Parked events are given up.
    Discard,
    /// The lane stops being driven.
    Pause,
    /// The lane may be driven again.
    Resume,
    /// The lane goes on from the beginning.
    SeekBeginning,
    /// The lane goes on from the end.
    SeekEnd,
    /// The lane is forgotten.
    Remove,
    /// Old delivered events go.
    Prune,
    /// Old delivered, dead and discarded events go.
    PruneDead,
}

fn draft() -> impl Strategy<Value = Draft> {
    let key = prop_oneof![1 => Just(None), 4 => (0_u8..3).prop_map(Some)];
    let delay = prop_oneof![8 => Just(None), 1 => (1_u64..20).prop_map(Some)];
    let expires = prop_oneof![8 => Just(None), 1 => (1_u64..20).prop_map(Some)];
    (key, prop::bool::weighted(0.2), delay, expires).prop_map(|(key, rare, delay, expires)| Draft {
        key,
        rare,
        delay,
        expires,
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Redrive),
        3 => Just(Act::Replay),
        3 => Just(Act::Discard),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        1 => Just(Act::SeekBeginning),
        1 => Just(Act::SeekEnd),
        1 => Just(Act::Remove),
        2 => Just(Act::Prune),
        2 => Just(Act::PruneDead),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let lane = || prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(2)];
    let key = || prop::option::of(0_u8..3);
    let choices = prop::collection::vec(any::<u8>(), 0..12);
    let room = prop_oneof![3 => Just(1_000_u32), 3 => 0_u32..8];
    prop_oneof![
        8 => draft().prop_map(Step::Publish),
        8 => (lane(), room).prop_map(|(lane, room)| Step::Claim { lane, room }),
        8 => (lane(), choices, prop::bool::weighted(0.1))
            .prop_map(|(lane, choices, give_up)| Step::Settle { lane, choices, give_up }),
        2 => lane().prop_map(|lane| Step::Crash { lane }),
        4 => (0_u64..12).prop_map(|seconds| Step::Pass(Duration::from_secs(seconds))),
        3 => (lane(), act(), key()).prop_map(|(lane, act, key)| Step::Operate { lane, act, key }),
    ]
}

/// Random steps, at most so many.
pub fn steps(at_most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..=at_most)
}
