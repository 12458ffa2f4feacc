//! What one lease has handed out and not yet recorded, and what a settle makes of the answers.
//!
//! A claim and a settle may run at once. A claim copies what it needs before its snapshot begins, and a
//! settle takes things away here only after its commit: so what a claim does not find here, it finds in the
//! database.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::parking::Parking;
use super::settled::{Advanced, How, SettledPrefix};
use crate::store::{Outcome, Settled, Ticket};

/// What a lease holds; `P` is what the store calls a place.
#[derive(Debug)]
pub struct Held<P> {
    /// Events of the log that a claim handed out or met, in their order.
    prefix: SettledPrefix<P>,
    /// Parked events that are handed out, or that the next settle changes: claims pass over them.
    out: Arc<HashSet<i64>>,
    to_park: Vec<ToPark>,
    /// How often each key stands in `to_park` as behind.
    keys_behind: Arc<HashMap<String, usize>>,
    /// Whether the last claim gave something to parked events.
    pub parked_had_it: bool,
    /// A settle failed or was dropped: what is here may not be what is stored.
    pub is_broken: bool,
}

/// An event that a claim met and did not hand out. The next settle records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToPark {
    /// Its number.
    pub seq: i64,
    /// Why it is parked.
    pub why: Parking,
    /// The key that it waits for, if it waits behind an earlier event.
    pub behind: Option<String>,
    /// Whether it has a parked row already.
    pub is_parked: bool,
}

impl ToPark {
    /// An event of the log.
    pub fn of_log(seq: i64, why: Parking) -> Self {
        Self { seq, why, behind: None, is_parked: false }
    }

    /// An event of the log that waits behind an earlier one of its key.
    pub fn behind(seq: i64, key: String) -> Self {
        Self { behind: Some(key), ..Self::of_log(seq, Parking::Behind) }
    }

    /// A parked event that is not worth delivering any more.
    pub fn expired_again(seq: i64) -> Self {
        Self { is_parked: true, ..Self::of_log(seq, Parking::Expired) }
    }
}

/// What a settle changes in the rows of parked events: worked out before the database is asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SettlePlan {
    /// Events of the log that get a row.
    pub park: Vec<(i64, Parking)>,
    /// Parked events whose row changes; the last change of an event counts.
    pub park_again: BTreeMap<i64, Parking>,
    /// Parked events that were delivered.
    pub unpark: Vec<i64>,
    /// Parked events that are out no longer.
    ended: HashSet<i64>,
    keys_parked: Vec<String>,
}

impl SettlePlan {
    /// Whether no row of a parked event changes.
    pub fn is_empty(&self) -> bool {
        self.park.is_empty() && self.park_again.is_empty() && self.unpark.is_empty()
    }
}

impl<P: Copy> Held<P> {
    /// Nothing was read yet.
    pub fn new() -> Self {
        Self {
            prefix: SettledPrefix::new(),
            out: Arc::default(),
            to_park: Vec::new(),
            keys_behind: Arc::default(),
            parked_had_it: false,
            is_broken: false,
        }
    }

    /// Parked events that claims pass over.
    pub fn out(&self) -> Arc<HashSet<i64>> {
        Arc::clone(&self.out)
    }

    /// The keys of events that the next settle parks behind others.
    pub fn keys_behind(&self) -> Arc<HashMap<String, usize>> {
        Arc::clone(&self.keys_behind)
    }

    /// How many events the next settle parks although they were not handed out.
    pub fn to_park(&self) -> usize {
        self.to_park.len()
    }

    /// An event of the log was handed out, or waits to be parked; the place cannot pass it before it is
    /// settled.
    pub fn taken(&mut self, seq: i64, place: P) {
        self.prefix.handed(Ticket(seq), place);
    }

    /// The log was read up to this place, and nothing more was wanted.
    pub fn passed(&mut self, place: P) {
        self.prefix.passed(place);
    }

    /// An event that was taken has a parked row already, which speaks for it.
    pub fn is_parked_already(&mut self, seq: i64) {
        self.prefix.settle(Ticket(seq), How::Parked);
    }

    /// A claim handed out these parked events and met those others.
    pub fn claimed(&mut self, parked: HashSet<i64>, to_park: Vec<ToPark>) {
        if !parked.is_empty() {
            Arc::make_mut(&mut self.out).extend(parked);
        }
        for key in to_park.iter().filter_map(|parking| parking.behind.as_ref()) {
            *Arc::make_mut(&mut self.keys_behind).entry(key.clone()).or_default() += 1;
        }
        self.to_park.extend(to_park);
    }

    /// Works out what these answers change, with what claims met and did not hand out.
    pub fn plan(&mut self, outcomes: Vec<Settled>) -> SettlePlan {
        let mut plan = SettlePlan::default();
        for parking in std::mem::take(&mut self.to_park) {
            self.plan_what_was_met(&mut plan, parking);
        }
        for settled in outcomes {
            self.plan_answer(&mut plan, settled);
        }
        plan
    }

    fn plan_what_was_met(&mut self, plan: &mut SettlePlan, met: ToPark) {
        plan.keys_parked.extend(met.behind);
        if met.is_parked {
            plan.ended.insert(met.seq);
            plan.park_again.insert(met.seq, met.why);
        } else {
            self.prefix.settle(Ticket(met.seq), How::Parked);
            plan.park.push((met.seq, met.why));
        }
    }

    fn plan_answer(&mut self, plan: &mut SettlePlan, Settled { ticket, outcome, .. }: Settled) {
        if self.prefix.is_out(ticket) {
            self.plan_answer_of_log(plan, ticket, outcome);
            return;
        }
        let seq = ticket.0;
        if !self.out.contains(&seq) || plan.ended.contains(&seq) {
            return;
        }
        if !matches!(outcome, Outcome::Slow) {
            plan.ended.insert(seq);
        }
        if matches!(outcome, Outcome::Delivered) {
            plan.unpark.push(seq);
        } else if let Some(parking) = Parking::of(outcome) {
            plan.park_again.insert(seq, parking);
        }
    }

    fn plan_answer_of_log(&mut self, plan: &mut SettlePlan, ticket: Ticket, outcome: Outcome) {
        if matches!(outcome, Outcome::Delivered) {
            // It counts when the place passes it: until then a crash gives it back.
            self.prefix.settle(ticket, How::Delivered);
            return;
        }
        let is_slow = matches!(outcome, Outcome::Slow);
        // What was released stays unsettled, so that the next lease reads it again.
        let Some(parking) = Parking::of(outcome) else { return };
        self.prefix.settle(ticket, How::Parked);
        plan.park.push((ticket.0, parking));
        if is_slow {
            // Its answer comes with the same ticket and settles the row.
            Arc::make_mut(&mut self.out).insert(ticket.0);
        }
    }

    /// Moves the place over what is settled without a gap.
    pub fn advance(&mut self) -> Option<Advanced<P>> {
        self.prefix.advance()
    }

    /// The plan was carried out and committed.
    pub fn recorded(&mut self, plan: &SettlePlan) {
        if !plan.ended.is_empty() {
            Arc::make_mut(&mut self.out).retain(|seq| !plan.ended.contains(seq));
        }
        if plan.keys_parked.is_empty() {
            return;
        }
        let keys = Arc::make_mut(&mut self.keys_behind);
        for key in &plan.keys_parked {
            match keys.get_mut(key) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(keys.remove(key)),
            }
        }
    }
}

impl<P: Copy> Default for Held<P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::target::{DeliverError, DeliverKind};

    fn answers(outcomes: impl IntoIterator<Item = (i64, Outcome)>) -> Vec<Settled> {
        outcomes.into_iter().map(|(seq, outcome)| Settled::new(Ticket(seq), outcome)).collect()
    }

    fn no() -> DeliverError {
        DeliverError::new(DeliverKind::Rejected, "no", "not today")
    }

    /// A lease that has taken these events of the log.
    fn held(seqs: impl IntoIterator<Item = i64>) -> Held<i64> {
        let mut held = Held::new();
        seqs.into_iter().for_each(|seq| held.taken(seq, seq));
        held
    }

    #[test]
    fn a_delivered_event_of_the_log_changes_no_row() {
        let mut held = held(1..=3);
        let plan = held.plan(answers([(1, Outcome::Delivered), (3, Outcome::Delivered)]));
        assert!(plan.is_empty());
        assert_eq!(held.advance(), Some(Advanced { place: 1, delivered: 1, parked: Vec::new() }));
        assert!(held.plan(answers([(1, Outcome::Delivered)])).is_empty(), "it is settled");
    }

    #[test]
    fn an_event_that_failed_gets_a_row_which_speaks_for_it() {
        let mut held = held(1..=2);
        let after = Duration::from_secs(1);
        let retry = Outcome::Retry { after, error: no() };
        let plan = held.plan(answers([(1, retry), (2, Outcome::Dead { error: no() })]));
        let (code, error) = ("no".to_owned(), "not today".to_owned());
        let retrying = Parking::Retrying { after, code: code.clone(), error: error.clone() };
        assert_eq!(plan.park, [(1, retrying), (2, Parking::Dead { code, error })]);
        assert_eq!(held.advance(), Some(Advanced { place: 2, delivered: 0, parked: vec![1, 2] }));
    }

    #[test]
    fn what_was_released_stays_unsettled() {
        let mut held = held(1..=2);
        let plan = held.plan(answers([(1, Outcome::Released), (2, Outcome::Delivered)]));
        assert!(plan.is_empty());
        assert_eq!(held.advance(), None);
    }

    #[test]
    fn a_slow_event_is_out_until_its_answer_settles_its_row() {
        let mut held = held([1]);
        let plan = held.plan(answers([(1, Outcome::Slow)]));
        assert_eq!(plan.park, [(1, Parking::Leased)]);
        held.recorded(&plan);
        assert!(held.out().contains(&1), "claims pass over it");
        let plan = held.plan(answers([(1, Outcome::Delivered), (1, Outcome::Delivered)]));
        assert_eq!((plan.unpark.as_slice(), plan.park.len()), ([1].as_slice(), 0), "settled once");
        assert!(held.out().contains(&1), "nothing is committed yet");
        held.recorded(&plan);
        assert!(held.out().is_empty());
    }

    #[test]
    fn slow_and_its_answer_in_one_settle_park_and_unpark() {
        let mut held = held([1]);
        let plan = held.plan(answers([(1, Outcome::Slow), (1, Outcome::Delivered)]));
        assert_eq!((plan.park.len(), plan.unpark.as_slice()), (1, [1].as_slice()));
        held.recorded(&plan);
        assert!(held.out().is_empty());
    }

    #[test]
    fn the_answer_of_a_parked_event_changes_its_row() {
        let mut held = held([]);
        held.claimed(HashSet::from([7, 8, 9]), Vec::new());
        let outcomes = [(7, Outcome::Delivered), (8, Outcome::Behind), (5, Outcome::Delivered)];
        let plan = held.plan(answers(outcomes));
        assert_eq!(plan.unpark, [7], "5 was never out");
        assert_eq!(plan.park_again, BTreeMap::from([(8, Parking::Behind)]));
        held.recorded(&plan);
        assert_eq!(*held.out(), HashSet::from([9]));
    }

    #[test]
    fn what_a_claim_met_is_parked_with_the_next_settle() {
        let mut held = held([1, 2]);
        let behind = |seq| ToPark::behind(seq, "a".to_owned());
        held.claimed(HashSet::from([9]), vec![behind(1), behind(2), ToPark::expired_again(9)]);
        assert_eq!((held.to_park(), held.keys_behind().get("a")), (3, Some(&2)));
        let plan = held.plan(Vec::new());
        assert_eq!(plan.park, [(1, Parking::Behind), (2, Parking::Behind)]);
        assert_eq!(plan.park_again, BTreeMap::from([(9, Parking::Expired)]));
        assert_eq!(held.to_park(), 0);
        held.claimed(HashSet::new(), vec![behind(3)]);
        held.recorded(&plan);
        assert_eq!(held.keys_behind().get("a"), Some(&1), "3 was met after the plan");
        assert!(held.out().is_empty());
        held.taken(3, 3);
        let plan = held.plan(Vec::new());
        held.recorded(&plan);
        assert!(held.keys_behind().is_empty());
    }
}
