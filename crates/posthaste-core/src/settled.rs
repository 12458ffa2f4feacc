//! How far a reader's place may move: over everything that is settled without a gap.

use std::collections::{HashMap, VecDeque};

use crate::store::Ticket;

/// What a reader has handed out, in the order of its places, and which of it is settled.
///
/// Pure bookkeeping for log engines: `P` is whatever the engine calls a place. Answers come in any order; the place moves
/// only over the contiguous settled prefix.
///
/// ```
/// use posthaste_core::{settled::SettledPrefix, store::Ticket};
/// let mut prefix = SettledPrefix::new();
/// prefix.handed(Ticket(1), 1);
/// prefix.handed(Ticket(2), 2);
/// prefix.passed(7); // read up to 7, nothing more was wanted
/// assert!(prefix.settle(Ticket(2)));
/// assert_eq!(prefix.advance(), None, "1 is still out");
/// assert!(prefix.settle(Ticket(1)));
/// assert_eq!(prefix.advance(), Some(7));
/// ```
#[derive(Debug)]
pub struct SettledPrefix<P> {
    entries: VecDeque<(P, bool)>,
    /// Where a ticket's entry is, counted from the first entry that ever was.
    numbers: HashMap<Ticket, u64>,
    first: u64,
}

impl<P: Copy> SettledPrefix<P> {
    /// Nothing handed out.
    pub fn new() -> Self {
        Self { entries: VecDeque::new(), numbers: HashMap::new(), first: 0 }
    }

    /// An event was handed out; when it and all before it are settled, the place may be `place`.
    pub fn handed(&mut self, ticket: Ticket, place: P) {
        self.numbers.insert(ticket, self.first + self.entries.len() as u64);
        self.entries.push_back((place, false));
    }

    /// Everything up to `place` was read, and needs no settling beyond what was handed out before.
    pub fn passed(&mut self, place: P) {
        match self.entries.back_mut() {
            Some((last, true)) => *last = place,
            _ => self.entries.push_back((place, true)),
        }
    }

    /// Records that this event is settled; `false` if it was not out.
    pub fn settle(&mut self, ticket: Ticket) -> bool {
        let Some(number) = self.numbers.remove(&ticket) else { return false };
        let index = usize::try_from(number - self.first).expect("an entry that is present has an index");
        self.entries[index].1 = true;
        true
    }

    /// Whether this event is handed out and not settled.
    pub fn is_out(&self, ticket: Ticket) -> bool {
        self.numbers.contains_key(&ticket)
    }

    /// How many events are handed out and not settled.
    pub fn out(&self) -> usize {
        self.numbers.len()
    }

    /// Forgets the settled prefix and answers the place behind it, if it moved.
    pub fn advance(&mut self) -> Option<P> {
        let mut place = None;
        while let Some((reached, true)) = self.entries.front() {
            place = Some(*reached);
            self.entries.pop_front();
            self.first += 1;
        }
        place
    }
}

impl<P: Copy> Default for SettledPrefix<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Settles in a random order and compares with the obvious definition after every step.
        #[test]
        fn the_place_is_the_end_of_the_settled_prefix(count in 1_i64..60, seed in any::<u64>()) {
            let mut prefix = SettledPrefix::new();
            (1..=count).for_each(|n| prefix.handed(Ticket(n), n));
            let mut order: Vec<i64> = (1..=count).collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut order);
            let (mut done, mut place) = (vec![false; count as usize + 2], 0);
            for n in order {
                prop_assert!(prefix.settle(Ticket(n)));
                prop_assert!(!prefix.settle(Ticket(n)), "settled once");
                done[n as usize] = true;
                place = prefix.advance().unwrap_or(place);
                let expected = (1..=count).take_while(|&n| done[n as usize]).last().unwrap_or(0);
                prop_assert_eq!(place, expected);
            }
            prop_assert_eq!(prefix.out(), 0);
        }
    }
}
