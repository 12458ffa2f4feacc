//! Compares what was committed with what was delivered and with what the lanes say, lane by lane, with the
//! history checker of the testkit.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use posthaste::admin::LaneStats;
use posthaste_testkit::history::{History, Judgement, Known};

use crate::Result;
use crate::engine::Engine;
use crate::journal::records;
use crate::lanes::Which;
use crate::producer::journal_file;
use crate::relay::delivered_file;
use crate::truth::Truth;

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) judgement: Judgement,
    /// Everything else that must not be, as sentences.
    pub(crate) wrong: Vec<String>,
}

/// What is compared.
pub(crate) struct Evidence<'a> {
    pub(crate) engine: Engine,
    pub(crate) folder: &'a Path,
    pub(crate) truth: &'a [Truth],
    pub(crate) lanes: &'a [LaneStats],
    pub(crate) dead: &'a HashMap<String, Vec<String>>,
    /// What is dead died behind the broker, and the lanes have delivered everything.
    pub(crate) by_broker: bool,
}

impl Evidence<'_> {
    pub(crate) fn judge(&self) -> Result<Findings> {
        let mut wrong = Vec::new();
        let mut judgements = Vec::new();
        for &which in self.engine.lanes() {
            let delivered = records(&delivered_file(self.folder, which))?;
            judgements.push(self.judge_lane(which, &delivered, &mut wrong));
            self.check_totals(which, &mut wrong);
        }
        self.check_producers(&records(&journal_file(self.folder))?, &mut wrong);
        Ok(Findings { judgement: Judgement::of_lanes(self.truth.len(), judgements), wrong })
    }

    /// A delivery with another key or number than was committed is one of an event that never was.
    fn judge_lane(&self, which: Which, delivered: &[String], wrong: &mut Vec<String>) -> Judgement {
        let mut history = History::new();
        let mut content = HashMap::new();
        for truth in self.meant_for(which).filter(|truth| !which.refuses(&truth.event_type)) {
            history.published(&truth.id, truth.key.as_deref(), Known::Accepted);
            content.insert(truth.id.as_str(), (truth.key.as_deref().unwrap_or("-"), truth.n.to_string()));
        }
        for record in delivered {
            let [id, key, number, _by] = record.split(' ').collect::<Vec<_>>()[..] else {
                wrong.push(format!("lane {}: not a delivery: {record:?}", which.name()));
                continue;
            };
            match content.get(id) {
                Some((committed_key, committed_number))
                    if (*committed_key, committed_number.as_str()) != (key, number) =>
                {
                    history.delivered(format!("{id} with other content: {record}"));
                }
                _ => history.delivered(id),
            }
        }
        history.judge()
    }

    fn check_totals(&self, which: Which, wrong: &mut Vec<String>) {
        let name = which.name();
        let Some(lane) = self.lanes.iter().find(|lane| lane.lane.as_str() == name) else {
            wrong.push(format!("lane {name} is not there"));
            return;
        };
        if !lane.adds_up() {
            wrong.push(format!("lane {name}: the totals do not add up: {lane:?}"));
        }
        let (mut meant, mut refused) = (0, Vec::new());
        for truth in self.meant_for(which) {
            meant += 1;
            refused.extend(Some(truth.id.clone()).filter(|_| which.refuses(&truth.event_type)));
        }
        // A table counts the rows that are there, and retention has removed most of them.
        if self.engine == Engine::Log && lane.accepted != meant {
            wrong.push(format!("lane {name}: {} accepted, {meant} committed: {lane:?}", lane.accepted));
        }
        refused.sort();
        let dead = self.dead.get(name).cloned().unwrap_or_default();
        let of_lane = if self.by_broker { 0 } else { refused.len() as u64 };
        if dead != refused || lane.dead != of_lane {
            wrong.push(format!(
                "lane {name}: {} dead by its totals, dead {dead:?}, refused {refused:?}",
                lane.dead
            ));
        }
        if lane.owner.is_some() {
            wrong.push(format!("lane {name} has an owner after all relays have stopped: {lane:?}"));
        }
    }

    fn meant_for(&self, which: Which) -> impl Iterator<Item = &Truth> {
        self.truth.iter().filter(move |truth| which.wants(&truth.topic))
    }

    /// What producers were told is so: if not, the server or this harness is wrong, and the rest proves nothing.
    fn check_producers(&self, journal: &[String], wrong: &mut Vec<String>) {
        let mut committed = HashMap::<&str, u32>::new();
        for truth in self.truth {
            *committed.entry(&truth.tx).or_default() += 1;
        }
        let mut told = HashSet::new();
        for record in journal {
            let [fate, tx, events, how] = record.split(' ').collect::<Vec<_>>()[..] else {
                wrong.push(format!("not a line of a producer: {record:?}"));
                continue;
            };
            told.insert(fate);
            let there = committed.get(tx).copied().unwrap_or(0);
            let whole = events.parse() == Ok(there);
            let is_right = match (fate, how) {
                ("ok", "sync") => whole,
                // A crash may take it back, but only as a whole.
                ("ok" | "unknown", _) => whole || there == 0,
                _ => there == 0,
            };
            if !is_right {
                wrong.push(format!("the server has {there} events of what a producer knows as: {record}"));
            }
        }
        if !told.contains("ok") {
            wrong.push("no producer committed anything".to_owned());
        }
    }
}
