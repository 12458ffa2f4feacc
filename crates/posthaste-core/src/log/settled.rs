//! How far a reader's place may move: over everything that is settled without a gap.

use std::collections::{HashMap, VecDeque};

use crate::store::Ticket;

/// What a reader has handed out, in the order of its places, and which of it is settled.
///
/// `P` is what the store calls a place. Answers come in any order; the place moves only over the contiguous
/// settled prefix.
///
/// ```
/// use posthaste_core::{log::settled::{How, SettledPrefix}, store::Ticket};
/// let mut prefix = SettledPrefix::new();
/// prefix.handed(Ticket(1), 1);
/// prefix.handed(Ticket(2), 2);
/// prefix.passed(7); // read up to 7, nothing more was wanted
/// assert!(prefix.settle(Ticket(2), How::Delivered));
/// assert!(prefix.advance().is_none(), "1 is still out");
/// assert!(prefix.settle(Ticket(1), How::Delivered));
/// let advanced = prefix.advance().unwrap();
/// assert_eq!((advanced.place, advanced.delivered), (7, 2));
/// ```
#[derive(Debug)]
pub struct SettledPrefix<P> {
    entries: VecDeque<Entry<P>>,
    /// Where a ticket's entry is, counted from the first entry that ever was.
    numbers: HashMap<Ticket, u64>,
    first: u64,
}

#[derive(Debug)]
struct Entry<P> {
    place: P,
    what: What,
}

/// What lies between the place before and that of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Nothing that anybody waits for.
    Nothing,
    /// An event that is out.
    Out,
    /// An event that is settled.
    Settled(Ticket, How),
}

/// How an event of the log is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was acknowledged, and counts when the place passes it.
    Delivered,
    /// A parked row speaks for it, and it does not count when the place passes it.
    Parked,
}

/// What the place passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advanced<P> {
    /// Where it is now.
    pub place: P,
    /// How many events were acknowledged and never parked.
    pub delivered: u64,
    /// The events for which a parked row speaks.
    pub parked: Vec<i64>,
}

impl<P: Copy> SettledPrefix<P> {
    /// Nothing handed out.
    pub fn new() -> Self {
        Self { entries: VecDeque::new(), numbers: HashMap::new(), first: 0 }
    }

    /// An event was handed out; when it and all before it are settled, the place may be `place`.
    pub fn handed(&mut self, ticket: Ticket, place: P) {
        self.numbers.insert(ticket, self.first + self.entries.len() as u64);
        self.entries.push_back(Entry { place, what: What::Out });
    }

    /// Everything up to `place` was read, and needs no settling beyond what was handed out before.
    pub fn passed(&mut self, place: P) {
        match self.entries.back_mut() {
            Some(last) if last.what != What::Out => last.place = place,
            _ => self.entries.push_back(Entry { place, what: What::Nothing }),
        }
    }

    /// Records that this event is settled; `false` if it was not out.
    pub fn settle(&mut self, ticket: Ticket, how: How) -> bool {
        let Some(number) = self.numbers.remove(&ticket) else { return false };
        let index = usize::try_from(number - self.first).expect("an entry that is present has an index");
        self.entries[index].what = What::Settled(ticket, how);
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

    /// Forgets the settled prefix and answers what is behind it, if the place moved.
    pub fn advance(&mut self) -> Option<Advanced<P>> {
        let mut advanced: Option<Advanced<P>> = None;
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.what != What::Out) {
            self.first += 1;
            let all = advanced.get_or_insert_with(|| Advanced {
                place: entry.place,
                delivered: 0,
                parked: Vec::new(),
            });
            all.place = entry.place;
            match entry.what {
                What::Settled(_, How::Delivered) => all.delivered += 1,
                What::Settled(ticket, How::Parked) => all.parked.push(ticket.0),
                What::Nothing | What::Out => {}
            }
        }
        advanced
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
            let (mut delivered, mut parked) = (0, Vec::new());
            let how = |n: i64| if n % 3 == 0 { How::Parked } else { How::Delivered };
            for n in order {
                prop_assert!(prefix.settle(Ticket(n), how(n)));
                prop_assert!(!prefix.settle(Ticket(n), how(n)), "settled once");
                done[n as usize] = true;
                if let Some(advanced) = prefix.advance() {
                    place = advanced.place;
                    delivered += advanced.delivered;
                    parked.extend(advanced.parked);
                }
                let expected = (1..=count).take_while(|&n| done[n as usize]).last().unwrap_or(0);
                prop_assert_eq!(place, expected);
                let of = |wanted| (1..=place).filter(move |n| how(*n) == wanted);
                prop_assert_eq!(delivered, of(How::Delivered).count() as u64);
                prop_assert_eq!(&parked, &of(How::Parked).collect::<Vec<_>>());
            }
            prop_assert_eq!(prefix.out(), 0);
        }
    }

    #[test]
    fn what_nobody_wanted_moves_the_place_and_counts_nothing() {
        let mut prefix = SettledPrefix::new();
        prefix.passed(3);
        prefix.passed(5);
        assert_eq!(prefix.advance(), Some(Advanced { place: 5, delivered: 0, parked: Vec::new() }));
        assert_eq!(prefix.advance(), None);
        prefix.handed(Ticket(6), 6);
        prefix.settle(Ticket(6), How::Delivered);
        prefix.passed(9);
        assert_eq!(prefix.advance(), Some(Advanced { place: 9, delivered: 1, parked: Vec::new() }));
    }
}
