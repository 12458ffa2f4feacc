//! What the triggers wrote down: every change of every row, and what holds for all of them.

use std::collections::BTreeMap;

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

impl Move {
    /// Whether it is counted as an attempt.
    pub(super) fn is_counted(&self) -> bool {
        self.to_attempts == self.from_attempts + 1
    }

    /// Whether an operator took a row and made it dead: nothing was attempted. Where a table has no column for why, none is said.
    fn is_burial(&self, says_why: bool) -> bool {
        let is_said = self.error.as_ref().map_or(!says_why, |error| error.starts_with("buried: "));
        self.is(State::Delivering, State::Dead) && self.to_attempts == self.from_attempts && is_said
    }

    /// Whether a relay gave back, within its lease, a row that it had not tried: nothing else of the row is touched.
    fn is_untried(&self, lease_ms: i64) -> bool {
        self.is(State::Delivering, State::Pending)
            && self.to_attempts == self.from_attempts
            && self.due_in == self.was_due_in
            && self.lease_age.is_some_and(|age| age < lease_ms)
    }
}

/// How many rows each claim took.
///
/// The rows of a claim have the same holder and the same time. A fast relay makes its next claim within the
/// same millisecond, but not before rows of the last one have moved on; so a claim ends with the first row
/// that leaves it.
pub(super) fn rows_by_claim(moves: &[Move]) -> Vec<usize> {
    let mut open = BTreeMap::<_, Vec<&str>>::new();
    let mut ended = Vec::new();
    for one in moves {
        if one.is_claim() {
            open.entry((&one.locked_by, &one.locked_at)).or_default().push(&one.id);
            continue;
        }
        let mut leaves = |rows: &mut Vec<&str>| {
            let leaves = rows.contains(&one.id.as_str());
            if leaves {
                ended.push(rows.len());
            }
            !leaves
        };
        open.retain(|_, rows| leaves(rows));
    }
    ended.extend(open.values().map(Vec::len));
    ended
}

/// What holds for every move, whatever the check was about. `operated`: an operator was at work, so terminal rows may move.
/// `says_why`: the table has a column for errors.
pub(super) fn judge(moves: &[Move], operated: bool, says_why: bool, lease_ms: i64, findings: &mut Findings) {
    for (place, one) in moves.iter().enumerate().filter(|(_, one)| !one.is_removal) {
        let Move { id, from, to, .. } = one;
        let next = || moves[place + 1..].iter().find(|next| next.id == *id);
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
        // Whatever an operator takes to bury it is not published.
        let is_buried = || operated && next().is_some_and(|next| next.is_burial(says_why));
        let claimed_early = one.is_claim() && one.was_due_in > ROUNDING_MS && !is_buried();
        must("L3", !claimed_early, &format!("claimed {} ms before it was due", one.was_due_in));
        let is_back = one.is(State::Delivering, State::Pending) && !one.is_untried(lease_ms);
        let is_death = one.is(State::Delivering, State::Dead) && !(operated && one.is_burial(says_why));
        if is_back || is_death {
            let (before, after) = (one.from_attempts, one.to_attempts);
            let what = format!("{from:?} → {to:?} with {before} attempts before and {after} after");
            must("L6", one.is_counted(), &what);
        }
        must("L8", operated || !from.is_terminal(), &format!("{from:?} → {to:?} by itself"));
    }
    for one in moves.iter().filter(|one| one.is_removal) {
        if !operated || !one.from.is_terminal() {
            findings.broken("X8", format!("{}: removed while {:?}", one.id, one.from));
        }
    }
    let untried = moves.iter().filter(|one| one.is_untried(lease_ms)).count();
    if untried > 0 {
        findings.ok("L6", format!("{untried} rows given back untried, which is no attempt"));
    }
    let changed = moves.iter().filter(|one| one.from != one.to).count();
    if changed > 0 {
        findings.ok("L1", format!("{changed} transitions"));
        findings.ok("P3", format!("{} updates", moves.len()));
    }
}

#[cfg(test)]
mod tests {
    use posthaste::table::Profile;

    use super::*;
    use crate::findings::Outcome;

    const LEASE_MS: i64 = 2_000;

    /// A move as the triggers write it: from, to, attempts before and after, locked, due before and after, age of the lease.
    fn moved(words: [&str; 2], attempts: [i64; 2], is_locked: bool, due: [i64; 2], lease_age: i64) -> Move {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let number = |number: i64| Some(number.to_string());
        let lock = is_locked.then(|| "somebody".to_owned());
        let row = [
            number(1),
            text("id"),
            text(words[0]),
            text(words[1]),
            number(attempts[0]),
            number(attempts[1]),
            lock.clone(),
            lock,
            number(i64::from(words[1] == "DELIVERED")),
            number(due[0]),
            number(due[1]),
            number(-lease_age),
            None,
            number(1),
            number(0),
        ];
        Move::read(&row, &Profile::open_outbox().states).unwrap()
    }

    fn is_broken(one: Move, operated: bool, requirement: &'static str) -> bool {
        let mut findings = Findings::default();
        judge(&[one], operated, false, LEASE_MS, &mut findings);
        findings.verdicts(&[requirement], true)[0].result == Outcome::Failed
    }

    #[test]
    fn a_claim_ends_when_one_of_its_rows_moves_on() {
        let row = |one: Move, id: &str| Move { id: id.to_owned(), ..one };
        let claim = |id| row(moved(["PENDING", "DELIVERING"], [0, 0], true, [0, 0], 0), id);
        let done = |id| row(moved(["DELIVERING", "DELIVERED"], [0, 0], false, [0, 0], 0), id);
        assert_eq!(rows_by_claim(&["a", "b", "c"].map(claim)), [3]);
        let in_turn = [claim("a"), claim("b"), done("a"), claim("c"), done("b"), done("c")];
        assert_eq!(rows_by_claim(&in_turn), [2, 1]);
        let of_two = [claim("a"), Move { locked_at: Some("later".to_owned()), ..claim("b") }];
        assert_eq!(rows_by_claim(&of_two), [1, 1]);
    }

    #[test]
    fn what_is_removed_must_have_ended_and_by_an_operator() {
        let gone = |state| moved([state, ""], [0, 0], false, [0, 0], 0);
        assert!(is_broken(gone("PENDING"), true, "X8"));
        assert!(is_broken(gone("DELIVERED"), false, "X8"));
        assert!(!is_broken(gone("DELIVERED"), true, "X8"));
    }

    #[test]
    fn a_row_comes_back_counted_or_untried() {
        let back = |attempts, due, age| moved(["DELIVERING", "PENDING"], attempts, false, due, age);
        assert!(!is_broken(back([0, 1], [0, 300], 100), false, "L6"), "a failure");
        assert!(!is_broken(back([0, 0], [-5, -5], 100), false, "L6"), "untried");
        assert!(is_broken(back([0, 0], [-5, 300], 100), false, "L6"), "a failure that is not counted");
        assert!(
            is_broken(back([0, 0], [-5, -5], 2_500), false, "L6"),
            "a lease that ended and is not counted"
        );
    }

    #[test]
    fn a_death_is_counted_unless_an_operator_buries() {
        let death = |attempts| moved(["DELIVERING", "DEAD"], attempts, false, [0, 0], 100);
        assert!(is_broken(death([1, 1]), false, "L6"));
        assert!(!is_broken(death([1, 2]), false, "L6"));
        assert!(!is_broken(death([1, 1]), true, "L6"));
        let early = moved(["PENDING", "DELIVERING"], [1, 1], true, [900, 900], 0);
        let mut findings = Findings::default();
        judge(&[early, death([1, 1])], true, false, LEASE_MS, &mut findings);
        assert!(
            findings.verdicts(&["L3"], true)[0].result != Outcome::Failed,
            "whatever waits can be buried"
        );
        let mut findings = Findings::default();
        judge(&[death([1, 1])], true, true, LEASE_MS, &mut findings);
        assert!(
            findings.verdicts(&["L6"], true)[0].result == Outcome::Failed,
            "a burial says so where it can be said"
        );
        let skipped = moved(["PENDING", "DEAD"], [0, 0], false, [0, 0], 0);
        assert!(is_broken(skipped, true, "L1"), "an operator takes what it buries");
    }

    #[test]
    fn terminal_rows_are_moved_by_operators_and_states_are_not_skipped() {
        let replay = || moved(["DELIVERED", "PENDING"], [1, 0], false, [0, 0], 0);
        assert!(is_broken(replay(), false, "L8"));
        assert!(!is_broken(replay(), true, "L8"));
        assert!(is_broken(moved(["PENDING", "DELIVERED"], [0, 0], false, [0, 0], 0), false, "L1"));
        assert!(is_broken(moved(["PENDING", "DELIVERING"], [0, 0], true, [900, 900], 0), false, "L3"));
    }
}
