//! What a filter asks about events, and how the lanes see them.

use super::spec::StoredSpec;
use crate::admin::{EventState, Facts, Filter, LaneView};
use crate::lane::LaneName;
use crate::time::Timestamp;

/// As much of an event as decides whether a command means it.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its number in the log.
    pub seq: i64,
    /// Its type.
    pub event_type: String,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// When the store took it in.
    pub created_at: Timestamp,
    /// The transaction that wrote it, where the store goes by that; otherwise 0.
    pub xid: u64,
    /// Whether its payload was erased.
    pub is_erased: bool,
}

impl Head {
    /// What a filter asks about it. Its id is not among it: ids decide where a store looks.
    fn facts(&self) -> Facts<'_> {
        Facts {
            id: None,
            event_type: &self.event_type,
            topic: &self.topic,
            key: self.key.as_deref(),
            created_at: self.created_at,
        }
    }
}

/// Where to look for events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the whole log.
    Log,
    /// In what this lane has parked, or any lane.
    Parked(Option<String>),
    /// In what this lane has parked in this state, or any lane.
    Ended(Option<String>, &'static str),
    /// These events.
    Ids(Vec<String>),
}

impl Source {
    /// The narrowest source that holds everything the filter can match.
    pub fn of(filter: &Filter) -> Self {
        let is_of_log = |state| matches!(state, EventState::Pending | EventState::Delivered);
        let is_parked = filter.asks_a_failure() || filter.state.is_some_and(|state| !is_of_log(state));
        let lane = || filter.lane.as_ref().map(LaneName::to_string);
        match filter.state {
            _ if !filter.ids.is_empty() => Self::Ids(filter.ids.clone()),
            // They may be few among very many others.
            Some(state @ (EventState::Dead | EventState::Discarded)) => Self::Ended(lane(), state.name()),
            _ if is_parked => Self::Parked(lane()),
            _ => Self::Log,
        }
    }
}

/// A stretch of the log: numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first number.
    pub first: i64,
    /// The last number.
    pub last: i64,
}

/// Which way to walk along the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the oldest event to the newest.
    Up,
    /// From the newest event to the oldest.
    Down,
}

/// What a lane has passed of the log.
pub trait Passed {
    /// Whether the lane has passed this event.
    fn holds(&self, head: &Head) -> bool;
}

/// A lane as commands and filters need it, whether a relay drives it or not.
#[derive(Clone, Debug)]
pub struct KnownLane<P> {
    /// Its name.
    pub name: LaneName,
    /// Its settings, as its row keeps them.
    pub spec: StoredSpec,
    /// What it has passed.
    pub passed: P,
}

/// A filter, with the lanes as they are in one snapshot.
pub struct Question<'a, P> {
    filter: &'a Filter,
    lanes: Vec<KnownLane<P>>,
}

impl<'a, P: Passed> Question<'a, P> {
    /// Asks the filter's lane, or all of these.
    pub fn new(filter: &'a Filter, mut lanes: Vec<KnownLane<P>>) -> Self {
        if let Some(name) = &filter.lane {
            lanes.retain(|lane| lane.name == *name);
        }
        Self { filter, lanes }
    }

    /// The lane that the filter names, if it is not there.
    pub fn missing_lane(&self) -> Option<&'a LaneName> {
        self.filter.lane.as_ref().filter(|_| self.lanes.is_empty())
    }

    /// Whether the filter can mean this event, without asking a lane.
    pub fn may_mean(&self, head: &Head) -> bool {
        self.filter.means(&head.facts())
    }

    /// How the lanes see this event, if the filter means it; `parked`: how those see it that have parked it.
    pub fn answer(&self, head: &Head, parked: Vec<LaneView>) -> Option<Vec<LaneView>> {
        if !self.may_mean(head) {
            return None;
        }
        let views = self.views(head, parked);
        let is_meant = !self.filter.asks_a_lane() || views.iter().any(|view| self.filter.fits(view));
        is_meant.then_some(views)
    }

    /// How each lane sees the event that wants it or has it parked.
    fn views(&self, head: &Head, mut parked: Vec<LaneView>) -> Vec<LaneView> {
        let mut views = Vec::new();
        for lane in &self.lanes {
            if let Some(index) = parked.iter().position(|view| view.lane == lane.name) {
                views.push(parked.swap_remove(index));
            } else if lane.spec.wants(&head.topic) {
                let is_passed = lane.passed.holds(head);
                let state = if is_passed { EventState::Delivered } else { EventState::Pending };
                views.push(LaneView::new(lane.name.clone(), state));
            }
        }
        views
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that has passed everything up to a number.
    struct UpTo(i64);

    impl Passed for UpTo {
        fn holds(&self, head: &Head) -> bool {
            head.seq <= self.0
        }
    }

    fn lane(name: &str, topics: &str, passed: i64) -> KnownLane<UpTo> {
        let spec = StoredSpec::read(&format!(r#"{{"topics": ["{topics}"]}}"#));
        KnownLane { name: name.parse().unwrap(), spec, passed: UpTo(passed) }
    }

    fn head(seq: i64, topic: &str) -> Head {
        let created_at = Timestamp::from_micros(seq);
        let key = Some(format!("k{seq}"));
        let event_type = topic.to_owned();
        Head { seq, topic: event_type.clone(), event_type, key, created_at, xid: 0, is_erased: false }
    }

    fn seen(filter: &Filter, head: &Head, parked: Vec<LaneView>) -> Option<Vec<(String, &'static str)>> {
        let lanes = vec![lane("audit", "#", 0), lane("mail", "order.*", 5)];
        let views = Question::new(filter, lanes).answer(head, parked)?;
        Some(views.iter().map(|view| (view.lane.to_string(), view.state.name())).collect())
    }

    #[test]
    fn a_lane_sees_what_it_wants_and_what_it_has_parked() {
        let all = Filter::default();
        let said = |name: &str, state| (name.to_owned(), state);
        let both = vec![said("audit", "pending"), said("mail", "delivered")];
        assert_eq!(seen(&all, &head(5, "order.paid"), Vec::new()), Some(both));
        let one = vec![said("audit", "pending")];
        assert_eq!(seen(&all, &head(6, "user.born"), Vec::new()), Some(one), "mail does not want it");
        let dead = LaneView::new("mail".parse().unwrap(), EventState::Dead);
        let parked = vec![said("audit", "pending"), said("mail", "dead")];
        assert_eq!(seen(&all, &head(6, "user.born"), vec![dead]), Some(parked));
    }

    #[test]
    fn every_field_of_the_filter_must_match() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let event = head(5, "order.paid");
        let filter = Filter {
            event_type: Some("order.paid".to_owned()),
            topic: Some("order.*".parse().unwrap()),
            key: Some("k5".to_owned()),
            since: at(5),
            until: at(6),
            lane: Some("mail".parse().unwrap()),
            state: Some(EventState::Delivered),
            ..Filter::default()
        };
        assert_eq!(seen(&filter, &event, Vec::new()).map(|views| views.len()), Some(1));
        let wrong: [fn(&mut Filter); 7] = [
            |filter| filter.event_type = Some("order".to_owned()),
            |filter| filter.topic = Some("user.*".parse().unwrap()),
            |filter| filter.key = Some("k6".to_owned()),
            |filter| filter.since = Some(Timestamp::from_micros(6)),
            |filter| filter.until = Some(Timestamp::from_micros(5)),
            |filter| filter.state = Some(EventState::Pending),
            |filter| filter.code = Some("http_500".to_owned()),
        ];
        for change in wrong {
            let mut other = filter.clone();
            change(&mut other);
            assert_eq!(seen(&other, &event, Vec::new()), None, "{other:?}");
        }
    }

    #[test]
    fn a_lane_that_is_not_there_is_missing() {
        let mut filter = Filter::default();
        assert!(Question::<UpTo>::new(&filter, Vec::new()).missing_lane().is_none());
        filter.lane = Some("mail".parse().unwrap());
        assert!(Question::new(&filter, vec![lane("mail", "#", 0)]).missing_lane().is_none());
        assert!(Question::new(&filter, vec![lane("audit", "#", 0)]).missing_lane().is_some());
    }

    #[test]
    fn a_store_looks_where_the_filter_can_match() {
        let mut filter = Filter::default();
        assert_eq!(Source::of(&filter), Source::Log);
        filter.lane = Some("mail".parse().unwrap());
        filter.state = Some(EventState::Delivered);
        assert_eq!(Source::of(&filter), Source::Log);
        filter.state = Some(EventState::Retrying);
        assert_eq!(Source::of(&filter), Source::Parked(Some("mail".to_owned())));
        filter.state = Some(EventState::Dead);
        assert_eq!(Source::of(&filter), Source::Ended(Some("mail".to_owned()), "dead"));
        (filter.state, filter.lane) = (None, None);
        filter.code = Some("http_500".to_owned());
        assert_eq!(Source::of(&filter), Source::Parked(None));
        filter.ids = vec!["a".to_owned()];
        assert_eq!(Source::of(&filter), Source::Ids(vec!["a".to_owned()]));
    }
}
