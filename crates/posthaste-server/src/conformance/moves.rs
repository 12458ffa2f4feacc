//! What the triggers wrote down: every change of every row, and what holds for all of them.

use posthaste::table::States;

use super::Stop;
use super::findings::Findings;

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Delivering,
    Delivered,
    Dead,
    /// Removed, or a word that the profile does not know.
    Unknown,
}

impl State {
    fn read(word: Option<&String>, states: &States) -> Self {
        let all = [
            (&states.pending, Self::Pending),
            (&states.delivering, Self::Delivering),
            (&states.delivered, Self::Delivered),
            (&states.dead, Self::Dead),
        ];
        let known = all.into_iter().find(|(name, _)| word.is_some_and(|word| word == name.as_str()));
        known.map_or(Self::Unknown, |(_, state)| state)
    }

    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Dead)
    }
}

/// One change of one row.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) id: String,
    pub(super) from: State,
    pub(super) to: State,
    /// The row was removed.
    pub(super) is_removal: bool,
    from_attempts: i64,
    pub(super) to_attempts: i64,
    pub(super) locked_by: Option<String>,
    pub(super) locked_at: Option<String>,
    has_delivered_at: Option<bool>,
    /// Until the row was due, in milliseconds, as it stood before and as it stands after.
    was_due_in: i64,
    pub(super) due_in: i64,
    /// How long ago its lease had begun.
    pub(super) lease_age: Option<i64>,
    pub(super) error: Option<String>,
    is_same: bool,
    /// When, in milliseconds of the database's clock.
    pub(super) at: i64,
}

impl Move {
    pub(super) fn read(row: &[Option<String>], states: &States) -> Result<Self, Stop> {
        let text = |n: usize| row.get(n).cloned().flatten();
        let number = |n: usize| text(n).and_then(|text| text.parse::<f64>().ok()).map(|number| number as i64);
        let to = text(3);
        Ok(Self {
            id: text(1).ok_or_else(|| Stop("a move has no id".to_owned()))?,
            from: State::read(text(2).as_ref(), states),
            to: State::read(to.as_ref(), states),
            is_removal: to.is_none(),
            from_attempts: number(4).unwrap_or_default(),
            to_attempts: number(5).unwrap_or_default(),
            locked_by: text(6),
            locked_at: text(7),
            has_delivered_at: number(8).map(|set| set == 1),
            was_due_in: number(9).unwrap_or_default(),
            due_in: number(10).unwrap_or_default(),
            lease_age: number(11).map(|until| -until),
            error: text(12),
            is_same: number(13) != Some(0),
            at: number(14).unwrap_or_default(),
        })
    }

    pub(super) fn is(&self, from: State, to: State) -> bool {
        self.from == from && self.to == to
    }

    pub(super) fn is_claim(&self) -> bool {
        self.is(State::Pending, State::Delivering)
    }

    pub(super) fn is_allowed(&self) -> bool {
        use State::{Dead, Delivered, Delivering, Pending};
        matches!(
            (self.from, self.to),
            (Pending, Delivering) | (Delivering, Delivered | Pending | Dead) | (Delivered | Dead, Pending)
        )
    }
}

/// A claim may be this much earlier than its time by rounding.
const ROUNDING_MS: i64 = 2;

/// What holds for every move, whatever the check was about. `operated`: an operator was at work, so terminal rows may move.
pub(super) fn judge(moves: &[Move], operated: bool, findings: &mut Findings) {
    for one in moves.iter().filter(|one| !one.is_removal) {
        let Move { id, from, to, .. } = one;
        let mut must = |requirement, holds: bool, what: &str| {
            if !holds {
                findings.broken(requirement, format!("{id}: {what}"));
            }
        };
        must("P3", one.is_same, "a column that must not change was changed");
        let has_lease = one.locked_at.is_some() || one.locked_by.is_some();
        if *to == State::Delivering {
            must("L4", one.locked_at.is_some(), "claimed without a time");
            must("L4", one.locked_by.is_some(), "claimed without a holder");
        } else if has_lease {
            let whose = match to {
                State::Delivered => "L5",
                State::Dead => "L7",
                _ => "L6",
            };
            must(whose, false, &format!("{to:?} and still locked"));
        }
        if let Some(is_set) = one.has_delivered_at {
            let should = *to == State::Delivered;
            must(
                "L5",
                is_set == should,
                &format!("{to:?}, and its time of delivery is{} set", if is_set { "" } else { " not" }),
            );
        }
        if from == to {
            continue;
        }
        must("L1", one.is_allowed(), &format!("{from:?} → {to:?}"));
        let claimed_early = one.is_claim() && one.was_due_in > ROUNDING_MS;
        must("L3", !claimed_early, &format!("claimed {} ms before it was due", one.was_due_in));
        if one.is(State::Delivering, State::Pending) || one.is(State::Delivering, State::Dead) {
            must(
                "L6",
                one.to_attempts == one.from_attempts + 1,
                &format!(
                    "{from:?} → {to:?} with {} attempts before and {} after",
                    one.from_attempts, one.to_attempts
                ),
            );
        }
        must("L8", operated || !from.is_terminal(), &format!("{from:?} → {to:?} by itself"));
    }
    for one in moves.iter().filter(|one| one.is_removal) {
        if !operated || !one.from.is_terminal() {
            findings.broken("X8", format!("{}: removed while {:?}", one.id, one.from));
        }
    }
    let changed = moves.iter().filter(|one| one.from != one.to).count();
    if changed > 0 {
        findings.ok("L1", format!("{changed} transitions"));
        findings.ok("P3", format!("{} updates", moves.len()));
    }
}
