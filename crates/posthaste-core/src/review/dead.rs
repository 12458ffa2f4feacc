//! Dead events, counted by what they died of.

use std::collections::BTreeMap;

use crate::admin::{EventState, Filter, Record};
use crate::lane::LaneName;
use crate::time::Timestamp;
use crate::{Error, Result};

/// Dead events by the code of their failure.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeadCodes {
    /// The codes of every lane, the most frequent first.
    pub groups: Vec<DeadGroup>,
    /// Whether a lane has more dead events than were counted: then the counts are of the newest.
    pub is_partial: bool,
}

/// Events that died in one lane with one code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Which lane.
    pub lane: LaneName,
    /// Which code; `None` where the failure had none.
    pub code: Option<String>,
    /// How many.
    pub events: u64,
    /// When the first of them first failed.
    pub first_at: Timestamp,
    /// When the last of them died.
    pub last_at: Timestamp,
    /// The id of the newest of them.
    pub example: String,
    /// What the failure of the newest of them said.
    pub error: Option<String>,
}

impl DeadGroup {
    /// One event that died.
    pub fn new(lane: LaneName, code: Option<String>, first_at: Timestamp, last_at: Timestamp) -> Self {
        Self { lane, code, events: 1, first_at, last_at, example: String::new(), error: None }
    }
}

impl DeadCodes {
    /// How many dead events of a lane are counted at most, the newest.
    pub const EVENTS_MAX: i64 = 20_000;
    /// How many codes are answered at most.
    pub const GROUPS_MAX: i64 = 1_000;

    /// What is left of a filter for grouping: lane, code and error.
    ///
    /// # Errors
    /// `Rejected` when it asks for anything else: that would need every dead event to be looked at.
    pub fn question(filter: &Filter) -> Result<Filter> {
        let mut left = Filter::default();
        (left.lane, left.state) = (filter.lane.clone(), filter.state);
        (left.code, left.error) = (filter.code.clone(), filter.error.clone());
        let mut others = filter.clone();
        (others.lane, others.state, others.code, others.error) = (None, None, None, None);
        if !others.is_empty() || filter.state.is_some_and(|state| state != EventState::Dead) {
            return Err(Error::rejected(
                "dead events are counted by code of a lane, a code or a text in the error; list them one by one to choose otherwise",
            ));
        }
        Ok(left)
    }

    /// Groups these records by what killed them.
    pub fn of(filter: &Filter, records: &[Record], is_partial: bool) -> Self {
        let mut groups = BTreeMap::<(String, Option<String>), (i64, DeadGroup)>::new();
        for record in records {
            let views =
                record.lanes.iter().filter(|view| view.state == EventState::Dead && filter.fits(view));
            for view in views {
                let last_at = view.dead_at.unwrap_or(record.created_at);
                let first_at = view.first_failed_at.unwrap_or(last_at);
                let mut one = DeadGroup::new(view.lane.clone(), view.code.clone(), first_at, last_at);
                one.example.clone_from(&record.envelope.id);
                one.error.clone_from(&view.last_error);
                let place = (view.lane.to_string(), view.code.clone());
                groups
                    .entry(place)
                    .and_modify(|(seq, group)| {
                        one.events += group.events;
                        one.first_at = one.first_at.min(group.first_at);
                        one.last_at = one.last_at.max(group.last_at);
                        if record.seq < *seq {
                            (one.example, one.error) = (group.example.clone(), group.error.clone());
                        }
                        (*seq, *group) = (record.seq.max(*seq), one.clone());
                    })
                    .or_insert((record.seq, one.clone()));
            }
        }
        let mut groups: Vec<DeadGroup> = groups.into_values().map(|(_, group)| group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.events));
        Self { groups, is_partial }
    }
}
