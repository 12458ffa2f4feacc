//! What a transaction will be like; rolled before it begins, so that the seed decides it whatever the server does.

use std::time::Duration;

use fastrand::Rng;

/// Few, so that transactions wait for each other.
const KEYS: u32 = 60;
const BULK_MAX: u32 = 120;

/// An aggregate, whose events have an order because it is locked before they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u32);

impl Key {
    pub(super) fn name(self) -> String {
        format!("key-{}", self.0)
    }

    /// Whether it is locked by an advisory lock; by its row otherwise. Always the same: the two do not exclude each other.
    pub(super) fn is_advisory(self) -> bool {
        self.0.is_multiple_of(3)
    }
}

/// Some events of one key, or of none, in one or more statements.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) key: Option<Key>,
    pub(super) how: How,
    /// It is in a savepoint and taken back.
    pub(super) is_undone: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    /// One event by the library's outbox.
    Outbox {
        is_poison: bool,
    },
    Values(u32),
    Select(u32),
    Copy(u32),
}

impl How {
    pub(super) fn events(self) -> u32 {
        match self {
            Self::Outbox { .. } => 1,
            Self::Values(events) | Self::Select(events) | Self::Copy(events) => events,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Commit,
    Rollback,
    /// `PREPARE TRANSACTION`, a pause, and then `COMMIT PREPARED`, `ROLLBACK PREPARED`, or nothing for now.
    TwoPhase {
        pause: Duration,
        then: Option<bool>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) isolation: &'static str,
    /// Takes its transaction id before anything else.
    pub(super) early: bool,
    /// Sorted, so that two transactions cannot wait for each other.
    pub(super) keys: Vec<Key>,
    pub(super) parts: Vec<Part>,
    /// Between the last event and the end: others commit meanwhile, with higher numbers.
    pub(super) pause: Duration,
    pub(super) end: End,
}

impl Shape {
    pub(super) fn roll(rng: &mut Rng) -> Self {
        let mut keys: Vec<Key> = (0..[1, 1, 1, 2, 3][rng.usize(..5)]).map(|_| Key(rng.u32(..KEYS))).collect();
        keys.sort();
        keys.dedup();
        let isolation = match rng.u32(..20) {
            0 | 1 => "REPEATABLE READ",
            2 => "SERIALIZABLE",
            _ => "READ COMMITTED",
        };
        let parts = (0..rng.u32(1..6)).map(|_| part(rng, &keys)).collect();
        let pause = Duration::from_millis(match rng.u32(..50) {
            0 | 1 => rng.u64(500..4_000),
            2..12 => rng.u64(..150),
            _ => 0,
        });
        let end = match rng.u32(..25) {
            0..3 => End::Rollback,
            3..6 => End::TwoPhase {
                pause: Duration::from_millis(rng.u64(..100)),
                then: [Some(true), Some(true), Some(false), None][rng.usize(..4)],
            },
            _ => End::Commit,
        };
        Self { isolation, early: rng.u32(..3) == 0, keys, parts, pause, end }
    }
}

fn part(rng: &mut Rng, keys: &[Key]) -> Part {
    let key = Some(keys[rng.usize(..keys.len())]).filter(|_| rng.u32(..10) > 0);
    let how = match rng.u32(..20) {
        0 => How::Select(rng.u32(2..BULK_MAX)),
        1 => How::Copy(rng.u32(2..BULK_MAX)),
        2 | 3 => How::Values(rng.u32(2..30)),
        _ => How::Outbox { is_poison: rng.u32(..100) == 0 },
    };
    Part { key, how, is_undone: rng.u32(..6) == 0 }
}
