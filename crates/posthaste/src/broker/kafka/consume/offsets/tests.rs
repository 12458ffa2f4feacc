//! What is committed, and what comes again.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NEW: Taken = Taken::New { on_trial: false };
const TRIED: Taken = Taken::New { on_trial: true };

fn taken(committed: Option<i64>, note: &str, offsets: impl IntoIterator<Item = i64>) -> Ledger {
    let mut ledger = Ledger::open(committed, note);
    for offset in offsets {
        ledger.take(offset);
    }
    ledger
}

fn reopened(place: &Place) -> Ledger {
    Ledger::open(Some(place.offset), &place.note)
}

#[test]
fn only_the_settled_prefix_is_committed() {
    assert_eq!(Ledger::open(None, "").place(), None, "nobody knows where the group begins");
    let mut ledger = taken(None, "", 10..15);
    assert_eq!(ledger.place().unwrap().offset, 10);
    assert!(ledger.settle(12) && !ledger.settle(12) && !ledger.settle(99));
    assert_eq!(ledger.place().unwrap().offset, 10);
    ledger.settle(10);
    assert_eq!((ledger.place().unwrap().offset, ledger.gap()), (11, 4));
    ledger.settle(11);
    assert_eq!(ledger.place().unwrap().offset, 13, "with what was settled before");
    ledger.settle(13);
    ledger.settle(14);
    assert_eq!((ledger.place().unwrap().offset, ledger.gap()), (15, 0));
}

#[test]
fn offsets_that_are_not_there_hold_nobody_up() {
    let mut ledger = taken(Some(3), "", [7, 20]);
    assert_eq!(ledger.place().unwrap().offset, 7);
    ledger.settle(7);
    assert_eq!(ledger.place().unwrap().offset, 20);
    assert_eq!((ledger.take(20), ledger.take(8)), (Taken::Known, Taken::Behind));
}

#[test]
fn what_was_settled_beyond_the_prefix_does_not_come_again() {
    let mut ledger = taken(None, "", 0..10);
    for offset in [2, 3, 7, 9] {
        ledger.settle(offset);
    }
    let place = ledger.place().unwrap();
    assert_eq!((place.offset, Note::read(&place.note).settled()), (0, 4));
    let mut next = reopened(&place);
    assert_eq!(next.take(0), NEW);
    // What was not read yet is not forgotten.
    assert_eq!(Note::read(&next.place().unwrap().note).settled(), 4);
    let news: Vec<i64> = (1..12).filter(|offset| next.take(*offset) == NEW).collect();
    assert_eq!(news, [1, 4, 5, 6, 8, 10, 11]);
}

#[test]
fn a_note_that_would_be_too_long_forgets_the_farthest() {
    let mut ledger = taken(None, "", 1_000_000..1_004_000);
    for offset in (1_000_001..1_004_000).step_by(2) {
        ledger.settle(offset);
    }
    let place = ledger.place().unwrap();
    assert!(place.note.len() <= NOTE_BYTES_MAX && place.note.len() > NOTE_BYTES_MAX / 2);
    let mut next = reopened(&place);
    assert_eq!([1_000_000, 1_000_001, 1_000_002].map(|offset| next.take(offset)), [NEW, Taken::Known, NEW]);
    assert_eq!(next.take(1_003_999), NEW);
}

#[test]
fn a_partition_that_is_never_closed_has_its_next_events_on_trial() {
    let mut place = taken(None, "", 0..3).place().unwrap();
    for expected in [NEW, TRIED, TRIED] {
        let mut ledger = reopened(&place);
        assert_eq!(ledger.take(0), expected);
        place = ledger.place().unwrap();
    }
    let mut ledger = reopened(&place);
    assert_eq!((ledger.take(0), ledger.take(REACH)), (TRIED, NEW), "so far nobody can have come");
    ledger.close();
    assert_eq!(reopened(&ledger.place().unwrap()).take(0), NEW, "it was closed in order");
    // Or everything that could have been the cause is settled.
    let mut ledger = reopened(&place);
    ledger.take(0);
    ledger.take(REACH);
    ledger.settle(0);
    place = ledger.place().unwrap();
    for expected in [NEW, TRIED] {
        let mut ledger = reopened(&place);
        assert_eq!(ledger.take(REACH), expected);
        place = ledger.place().unwrap();
    }
}

#[test]
fn a_trial_that_did_not_end_is_counted_until_the_event_is_settled() {
    let mut ledger = taken(None, "", 0..3);
    assert_eq!((ledger.begin_trial(1), ledger.begin_trial(77)), (0, 0));
    let mut place = ledger.place().unwrap();
    for begun in 1..4 {
        let mut next = reopened(&place);
        assert_eq!((next.take(0), next.take(1)), if begun < 2 { (NEW, TRIED) } else { (TRIED, TRIED) });
        assert_eq!(next.begin_trial(1), begun);
        place = next.place().unwrap();
    }
    let mut next = taken(Some(place.offset), &place.note, 0..3);
    assert_eq!(next.begin_trial(1), 4);
    next.end_trial(1);
    assert_eq!(next.begin_trial(1), 4, "one that ended is not counted");
    next.settle(1);
    assert!(Note::read(&next.place().unwrap().note).trials.is_empty());
}

#[test]
fn a_partition_that_was_cut_off_begins_anew() {
    let mut ledger = Ledger::open(Some(100), &taken(None, "", 100..101).place().unwrap().note);
    assert_eq!((ledger.take(5), ledger.take(6)), (NEW, NEW));
    assert_eq!(ledger.place().unwrap().offset, 5);
    assert_eq!(ledger.take(3), Taken::Behind);
}

#[test]
fn what_others_note_says_nothing() {
    for note in ["", "consumer-17", "posthaste/1 x o", "posthaste/1 d5 tx:1 o-1", "posthaste/9 o7 r99999"] {
        assert_eq!(Note::read(note), Note::default(), "{note}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Reads on, over so many offsets that are not there.
    Read(i64),
    Settle(prop::sample::Index),
    /// The feed ends, or its process; the next one begins where the last commit was.
    Reopen {
        in_order: bool,
    },
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_i64..3).prop_map(Step::Read),
        4 => any::<prop::sample::Index>().prop_map(Step::Settle),
        1 => any::<bool>().prop_map(|in_order| Step::Reopen { in_order }),
        2 => Just(Step::Commit),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Against somebody who remembers every single event.
    #[test]
    fn nothing_unsettled_is_ever_committed_and_nothing_settled_and_committed_comes_again(steps in steps()) {
        let (mut log, mut end) = (Vec::<i64>::new(), 0_i64);
        let (mut ledger, mut reader) = (Ledger::open(None, ""), 0_usize);
        let mut settled = BTreeSet::<i64>::new();
        let mut in_hand = BTreeSet::<i64>::new();
        let mut committed: Option<(Place, BTreeSet<i64>)> = None;
        for step in steps {
            match step {
                Step::Read(missing) => {
                    if reader == log.len() {
                        end += missing;
                        log.push(end);
                        end += 1;
                    }
                    let offset = log[reader];
                    reader += 1;
                    let known = committed.as_ref().is_some_and(|(_, settled)| settled.contains(&offset));
                    match ledger.take(offset) {
                        Taken::New { .. } => {
                            prop_assert!(!known, "{offset} was settled and committed");
                            in_hand.insert(offset);
                        }
                        Taken::Known => prop_assert!(known, "{offset} was never settled"),
                        Taken::Behind => prop_assert!(false, "{offset} is not behind"),
                    }
                }
                Step::Settle(which) if !in_hand.is_empty() => {
                    let offset = *which.get(&in_hand.iter().copied().collect::<Vec<_>>());
                    prop_assert!(ledger.settle(offset));
                    in_hand.remove(&offset);
                    settled.insert(offset);
                }
                Step::Settle(_) => {}
                Step::Commit => committed = ledger.place().map(|place| (place, settled.clone())),
                Step::Reopen { in_order } => {
                    if in_order {
                        ledger.close();
                        committed = ledger.place().map(|place| (place, settled.clone()));
                    }
                    ledger = Ledger::open(
                        committed.as_ref().map(|(place, _)| place.offset),
                        committed.as_ref().map_or("", |(place, _)| &place.note),
                    );
                    let from = committed.as_ref().map_or(0, |(place, _)| place.offset);
                    reader = log.partition_point(|offset| *offset < from);
                    in_hand.clear();
                }
            }
            if let Some(place) = ledger.place() {
                let first_left = log.iter().find(|offset| !settled.contains(offset));
                let unread = log.get(reader);
                let naive = in_hand.first().or(unread).copied();
                prop_assert!(first_left.is_none_or(|left| place.offset <= *left), "{place:?} passes {first_left:?}");
                // As far as it can be: up to the first in hand, or to what is to be read next.
                prop_assert!(naive.is_none_or(|naive| log.iter().all(|at| *at < place.offset || *at >= naive)),
                    "{place:?} stays behind {naive:?}");
            }
        }
    }
}
