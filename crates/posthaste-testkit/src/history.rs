//! Judges a history of publishes and deliveries; pure.
//!
//! Every publish is classified by what its producer knows: [`Known::Accepted`], [`Known::RolledBack`], or
//! [`Known::Unknown`] (a connection that broke during the commit). An unknown publish may be delivered or not; both are right.

use std::collections::{HashMap, HashSet};
use std::fmt;

/// What a producer knows about one publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its commit was answered.
    Accepted,
    /// It was rolled back or refused.
    RolledBack,
    /// The answer never came.
    Unknown,
}

/// One publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The event's id.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
    /// What its producer knows.
    pub known: Known,
}

/// Everything that happened: publishes in commit order (per key), deliveries in the order they arrived.
#[derive(Clone, Debug, Default)]
pub struct History {
    publishes: Vec<Publish>,
    deliveries: Vec<String>,
}

/// What is wrong with a history, if anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// How many publishes were accepted.
    pub accepted: usize,
    /// How many accepted events were delivered.
    pub delivered: usize,
    /// Accepted and never delivered.
    pub lost: Vec<String>,
    /// Delivered although rolled back, or never published.
    pub phantom: Vec<String>,
    /// Deliveries beyond the first of their event.
    pub duplicates: usize,
    /// First deliveries that came before an earlier event of their key.
    pub order_broken: Vec<String>,
}

impl History {
    /// Nothing happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// An event was published, after all earlier ones of its key.
    pub fn published(&mut self, id: impl Into<String>, key: Option<&str>, known: Known) {
        self.publishes.push(Publish { id: id.into(), key: key.map(str::to_owned), known });
    }

    /// An event was delivered.
    pub fn delivered(&mut self, id: impl Into<String>) {
        self.deliveries.push(id.into());
    }

    /// Judges it.
    pub fn judge(&self) -> Judgement {
        let seen: HashSet<&str> = self.deliveries.iter().map(String::as_str).collect();
        let accepted: Vec<&Publish> =
            self.publishes.iter().filter(|publish| publish.known == Known::Accepted).collect();
        let lost: Vec<String> = accepted
            .iter()
            .filter(|publish| !seen.contains(publish.id.as_str()))
            .map(|publish| publish.id.clone())
            .collect();
        Judgement {
            accepted: accepted.len(),
            delivered: accepted.len() - lost.len(),
            lost,
            phantom: self.phantoms(),
            duplicates: self.deliveries.len() - seen.len(),
            order_broken: self.order_broken(),
        }
    }

    fn phantoms(&self) -> Vec<String> {
        let may_be: HashSet<&str> = self
            .publishes
            .iter()
            .filter(|publish| publish.known != Known::RolledBack)
            .map(|publish| publish.id.as_str())
            .collect();
        let mut told = HashSet::new();
        self.deliveries
            .iter()
            .filter(|id| !may_be.contains(id.as_str()) && told.insert(id.as_str()))
            .cloned()
            .collect()
    }

    /// Looks at first deliveries only: within a key each must have a higher number than all before it.
    fn order_broken(&self) -> Vec<String> {
        let place: HashMap<&str, (usize, &str)> = self
            .publishes
            .iter()
            .enumerate()
            .filter_map(|(n, publish)| Some((publish.id.as_str(), (n, publish.key.as_deref()?))))
            .collect();
        let (mut told, mut highest) = (HashSet::new(), HashMap::new());
        let mut broken = Vec::new();
        for id in &self.deliveries {
            let Some(&(n, key)) = place.get(id.as_str()) else { continue };
            if !told.insert(id) {
                continue;
            }
            let before = highest.entry(key).or_insert(n);
            if n < *before {
                broken.push(id.clone());
            }
            *before = n.max(*before);
        }
        broken
    }
}

impl Judgement {
    /// Several lanes as one: an event is delivered when no lane that it is meant for lost it; all else is added up.
    ///
    /// `accepted` counts events, not events of lanes.
    pub fn of_lanes(accepted: usize, lanes: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self { accepted, ..Self::default() };
        for lane in lanes {
            whole.lost.extend(lane.lost);
            whole.phantom.extend(lane.phantom);
            whole.order_broken.extend(lane.order_broken);
            whole.duplicates += lane.duplicates;
        }
        whole.lost.sort();
        whole.lost.dedup();
        whole.delivered = accepted.saturating_sub(whole.lost.len());
        whole
    }

    /// Whether nothing was lost, nothing came from nowhere, order held, and no more came twice than that.
    pub fn is_good(&self, duplicates_max: usize) -> bool {
        self.lost.is_empty()
            && self.phantom.is_empty()
            && self.order_broken.is_empty()
            && self.duplicates <= duplicates_max
    }

    /// One line: `accepted A, delivered A, lost 0, phantom 0, duplicates D of at most B, order broken 0`.
    pub fn summary(&self, duplicates_max: usize) -> impl fmt::Display {
        format!(
            "accepted {}, delivered {}, lost {}, phantom {}, duplicates {} of at most {duplicates_max}, order broken {}",
            self.accepted,
            self.delivered,
            self.lost.len(),
            self.phantom.len(),
            self.duplicates,
            self.order_broken.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(publishes: &[(&str, &str, Known)], deliveries: &[&str]) -> History {
        let mut history = History::new();
        for (id, key, known) in publishes {
            history.published(*id, Some(*key).filter(|key| !key.is_empty()), *known);
        }
        deliveries.iter().for_each(|id| history.delivered(*id));
        history
    }

    const TWO: [(&str, &str, Known); 2] = [("k1", "k", Known::Accepted), ("k2", "k", Known::Accepted)];

    #[test]
    fn a_good_history_is_good_and_says_so_in_one_line() {
        let judgement = history(&TWO, &["k1", "k2"]).judge();
        assert!(judgement.is_good(0));
        assert_eq!(
            judgement.summary(0).to_string(),
            "accepted 2, delivered 2, lost 0, phantom 0, duplicates 0 of at most 0, order broken 0"
        );
    }

    #[test]
    fn an_accepted_event_that_never_came_is_lost() {
        let judgement = history(&TWO, &["k1"]).judge();
        assert_eq!((judgement.lost.as_slice(), judgement.delivered), (["k2".to_owned()].as_slice(), 1));
        assert!(!judgement.is_good(9));
    }

    #[test]
    fn what_was_rolled_back_or_never_published_is_a_phantom() {
        let judgement = history(&[("a", "", Known::RolledBack)], &["a", "b", "b"]).judge();
        assert_eq!(judgement.phantom, ["a", "b"]);
        assert!(!judgement.is_good(9));
    }

    #[test]
    fn an_unknown_publish_may_come_or_not() {
        let unknown = [("a", "", Known::Unknown)];
        assert!(history(&unknown, &[]).judge().is_good(0));
        assert!(history(&unknown, &["a"]).judge().is_good(0));
    }

    #[test]
    fn what_one_of_two_lanes_lost_is_lost_once_and_their_duplicates_are_added() {
        let lanes =
            [history(&TWO, &["k1", "k1"]), history(&TWO, &["k1", "k1", "x"])].map(|lane| lane.judge());
        let whole = Judgement::of_lanes(2, lanes);
        assert_eq!((whole.accepted, whole.delivered, whole.duplicates), (2, 1, 2));
        assert_eq!((whole.lost, whole.phantom), (vec!["k2".to_owned()], vec!["x".to_owned()]));
    }

    #[test]
    fn duplicates_are_counted_against_their_bound() {
        let judgement = history(&TWO, &["k1", "k2", "k1", "k2", "k2"]).judge();
        assert_eq!(judgement.duplicates, 3);
        assert!(judgement.is_good(3) && !judgement.is_good(2));
    }

    #[test]
    fn a_first_delivery_before_an_earlier_one_of_its_key_breaks_order_and_a_repeat_does_not() {
        assert_eq!(history(&TWO, &["k2", "k1"]).judge().order_broken, ["k1"]);
        assert!(history(&TWO, &["k1", "k2", "k1"]).judge().order_broken.is_empty(), "a repeat");
        let other = [("a", "k", Known::Accepted), ("b", "l", Known::Accepted), ("c", "", Known::Accepted)];
        assert!(history(&other, &["c", "b", "a"]).judge().order_broken.is_empty(), "other keys and none");
    }
}
