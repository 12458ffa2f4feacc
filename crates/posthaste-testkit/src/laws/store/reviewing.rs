//! Looking back: who changed what, and what events died of.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_core::ErrorKind;
use posthaste_core::admin::{Actor, Applied, Command, Filter, Pace, Page, Seek};
use posthaste_core::lane::{LaneName, Order};
use posthaste_core::review::{AuditEntry, AuditFilter, DeadGroup, UNREAD};
use posthaste_core::store::Outcome;
use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::time::Moment;

use crate::drive::{StoreBench, dead, event, in_lane, lane, retry, settled};
use crate::law::{LawResult, Verdict};
use crate::wait::eventually;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::ZERO;

/// Every record that is meant, the newest first, from pages of two.
async fn audited(bench: &StoreBench, filter: &AuditFilter) -> Result<Vec<AuditEntry>, Verdict> {
    let (mut page, mut entries) = (Page::first(2), Vec::new());
    loop {
        let audited = bench.store.audited(filter, page.clone()).await?;
        ensure!(audited.entries.len() <= 2, "{} records on a page of two", audited.entries.len());
        entries.extend(audited.entries);
        match audited.next {
            Some(next) => page.after = Some(next),
            None => return Ok(entries),
        }
    }
}

/// Every record, also of what found nothing to change.
async fn all(bench: &StoreBench) -> Result<Vec<AuditEntry>, Verdict> {
    let mut filter = AuditFilter::default();
    filter.with_unchanged = true;
    audited(bench, &filter).await
}

/// A lane with a delivered, a dead, a retried and two unread events.
async fn with_one_of_each(bench: &StoreBench) -> Result<LaneName, Verdict> {
    bench.publish(&["delivered", "dead", "retried"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], Outcome::Delivered),
            settled(&claimed[1], dead()),
            settled(&claimed[2], retry(SECOND)),
        ])
        .await?;
    bench.publish(&["unread-1", "unread-2"]).await?;
    bench.pass(SECOND);
    Ok(main.name)
}

/// Gives every command that there is, dry and not: each that is not dry is recorded once, with who gave it, about what, and to
/// how many it was done.
pub async fn every_change_is_recorded_with_who_made_it(bench: StoreBench) -> LawResult {
    let main = with_one_of_each(&bench).await?;
    let (of_lane, everything) = (in_lane(&main), Filter::default());
    let commands = |dry_run| {
        let reason = "no longer wanted".to_owned();
        [
            (&of_lane, Command::Redrive { dry_run }),
            (&of_lane, Command::Replay { dry_run }),
            (&of_lane, Command::Schedule { at: Moment::In(NOW), dry_run }),
            (&of_lane, Command::Bury { reason: reason.clone(), dry_run }),
            (&of_lane, Command::Discard { reason: reason.clone(), dry_run }),
            (&of_lane, Command::Erase { dry_run }),
            (&of_lane, Command::Skip { age: NOW, reason, dry_run }),
            (&of_lane, Command::Seek { to: Seek::Beginning, dry_run }),
            (&everything, Command::Prune { delivered_age: Some(NOW), dead_age: None, dry_run }),
            (&everything, Command::PruneInbox { age: NOW, dry_run }),
            (&of_lane, Command::Remove { dry_run }),
        ]
    };
    for (filter, command) in commands(true) {
        bench.apply(filter, command).await?;
    }
    ensure_eq!(all(&bench).await?, [], "what dry runs leave in the record");
    let by = Actor::new("eve", "cli@desk");
    let mut expected = Vec::new();
    let steering = [(&of_lane, Command::Pause), (&everything, Command::Resume)];
    for (filter, command) in steering.into_iter().chain(commands(false)) {
        let name = command.name();
        let applied = bench.store.apply(filter, command, &by, &Pace::full()).await?;
        expected.insert(0, (name.to_owned(), applied));
    }
    let entries = all(&bench).await?;
    let given: Vec<_> = entries.iter().map(|entry| (entry.command.clone(), entry.applied)).collect();
    ensure_eq!(given, expected, "the record, the newest first");
    for entry in &entries {
        ensure_eq!(entry.actor, by, "who gave {}", entry.command);
    }
    for (verb, part) in
        [("redrive", "\"lane\":\"main\""), ("discard", "no longer wanted"), ("seek", "\"to\":\"beginning\"")]
    {
        let of = entries.iter().find(|entry| entry.command == verb).map(|entry| entry.filter.as_str());
        ensure!(of.is_some_and(|filter| filter.contains(part)), "{part} is not in {of:?}");
    }
    Ok(())
}

/// Two actors at two times: each is found by name, verb and time, and what changed nothing only if it is asked for.
pub async fn the_record_is_searched_by_actor_verb_and_time(bench: StoreBench) -> LawResult {
    let main = with_one_of_each(&bench).await?;
    let give = async |command: Command, name: &str| {
        bench.store.apply(&in_lane(&main), command, &Actor::new(name, "test"), &Pace::full()).await
    };
    give(Command::Pause, "eve").await?;
    give(Command::Resume, "bob").await?;
    bench.pass(SECOND);
    let time = bench.rig.now();
    give(Command::Pause, "bob").await?;
    give(Command::Redrive { dry_run: false }, "eve").await?;
    give(Command::Redrive { dry_run: false }, "eve").await?;
    let (by_all, mut by_actor) = (AuditFilter::default(), AuditFilter::default());
    let (mut by_verb, mut by_time) = (AuditFilter::default(), AuditFilter::default());
    by_actor.actor = Some("bob".to_owned());
    by_verb.verb = Some("pause".to_owned());
    by_time.since = Some(time);
    let cases: [(&str, AuditFilter, &[&str]); 4] = [
        ("nothing", by_all, &["eve redrive", "bob pause", "bob resume", "eve pause"]),
        ("actor", by_actor, &["bob pause", "bob resume"]),
        ("verb", by_verb, &["bob pause", "eve pause"]),
        ("time", by_time, &["eve redrive", "bob pause"]),
    ];
    for (what, filter, expected) in cases {
        let entries = audited(&bench, &filter).await?;
        let found: Vec<_> =
            entries.iter().map(|entry| format!("{} {}", entry.actor.name, entry.command)).collect();
        ensure_eq!(found, expected, "found by {what}");
    }
    ensure_eq!(all(&bench).await?.len(), 5, "records of all commands");
    Ok(())
}

/// More events than one step changes: each step is recorded, and a reader sees them as one with their sum.
pub async fn a_command_of_many_steps_is_one_line_of_the_record(bench: StoreBench) -> LawResult {
    const EVENTS: usize = 2_300;
    bench.publish_all((0..EVENTS).map(|n| event(&n.to_string())).collect()).await?;
    let driver = bench.drive(&lane("main")).await?;
    loop {
        let claimed = driver.claim(1_000).await?;
        if claimed.is_empty() {
            break;
        }
        driver.settle_as(&claimed, dead()).await?;
    }
    let main = lane("main").name;
    let applied = bench.apply(&in_lane(&main), Command::Redrive { dry_run: false }).await?;
    ensure_eq!(applied.changed, EVENTS as u64, "redriven");
    let entries = all(&bench).await?;
    let sum: u64 = entries.iter().map(|entry| entry.applied.changed).sum();
    ensure_eq!(sum, EVENTS as u64, "what the records count");
    ensure_eq!(entries.len(), 1, "how many lines a command has");
    ensure!(!entries[0].filter.contains("\"part\""), "a command that ended says {}", entries[0].filter);
    Ok(())
}

/// Drops a command after a few of its steps, as when a client hangs up: the record counts exactly what was done.
pub async fn what_a_command_did_before_it_was_cut_off_is_recorded(bench: StoreBench) -> LawResult {
    bench.publish_all((0..40).map(|n| event(&n.to_string())).collect()).await?;
    let driver = bench.drive(&lane("main")).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed, dead()).await?;
    // What became due since a command began is its own work, on a table.
    bench.pass(Duration::from_secs(1));
    let (of_lane, actor) = (in_lane(&lane("main").name), Actor::new("law", "test"));
    let changed = AtomicU64::new(0);
    let told = |so_far: Applied| {
        changed.store(so_far.changed, Ordering::SeqCst);
        ControlFlow::Continue(())
    };
    // Two events at a time, so slowly that there is no doubt about where it is dropped.
    let pace = Pace::telling(&told).at_most(NonZeroU32::new(8));
    let redrive = Command::Redrive { dry_run: false };
    let command = bench.store.apply(&of_lane, redrive, &actor, &pace);
    tokio::select! {
        done = command => drop(done?),
        () = async {
            while changed.load(Ordering::SeqCst) < 6 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } => {}
    }
    // A step that was on its way when the command was dropped may end between two looks; its record ends with it.
    let mut recorded = 0;
    eventually(Duration::from_secs(20), "the record counts what was changed", async || {
        let (Ok(stats), Ok(entries)) = (bench.stats(&lane("main").name).await, all(&bench).await) else {
            return false;
        };
        recorded = entries.iter().map(|entry| entry.applied.changed).sum::<u64>();
        recorded == 40 - stats.dead
    })
    .await?;
    ensure!(recorded >= 6, "{recorded} are recorded of at least 6");
    Ok(())
}

/// A lane is removed with events that it has not read: the record says how many, at most.
pub async fn what_a_removed_lane_had_not_read_is_recorded(bench: StoreBench) -> LawResult {
    let main = with_one_of_each(&bench).await?;
    let unread = bench.stats(&main).await?.unread;
    ensure!(unread >= 2, "{unread} are unread");
    bench.apply(&in_lane(&main), Command::Remove { dry_run: false }).await?;
    let entries = audited(&bench, &AuditFilter::default()).await?;
    let expected = format!("\"{UNREAD}\":{unread}");
    ensure!(entries[0].filter.contains(&expected), "{expected} is not in {}", entries[0].filter);
    Ok(())
}

/// A relay drives a lane with another order: the record says so, and says nothing of relays that change nothing.
pub async fn a_lane_that_is_defined_anew_is_recorded(bench: StoreBench) -> LawResult {
    let mut main = lane("main");
    bench.drive(&main).await?.give_up().await?;
    bench.drive(&main).await?.give_up().await?;
    ensure_eq!(all(&bench).await?, [], "what relays leave in the record that change nothing");
    main.order = if main.order == Order::PerKey { Order::None } else { Order::PerKey };
    bench.drive(&main).await?.give_up().await?;
    let entries = audited(&bench, &AuditFilter::default()).await?;
    ensure_eq!(entries.len(), 1, "records");
    ensure_eq!(
        (entries[0].command.as_str(), entries[0].actor.via.as_str()),
        ("redefine", "relay"),
        "what and by whom"
    );
    ensure!(entries[0].filter.contains("main"), "the lane is not in {}", entries[0].filter);
    Ok(())
}

/// Two lanes and two codes: dead events are counted by both, with the newest as the example; what lives, was redriven or given
/// up is not among them.
pub async fn dead_events_are_counted_by_lane_and_code(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c", "d"]).await?;
    let (main, other) = (lane("main"), lane("other"));
    let dead_of = |code: &str, message: &str| Outcome::Dead {
        error: DeliverError::new(DeliverKind::Rejected, code, message),
    };
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], dead_of("timeout", "No answer")),
            settled(&claimed[1], dead_of("http 400", "no such customer")),
            settled(&claimed[2], dead_of("http 400", "no such order")),
            settled(&claimed[3], retry(SECOND)),
        ])
        .await?;
    let driver = bench.drive(&other).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], dead_of("timeout", "no answer"))]).await?;
    let mut expected = vec!["main http 400: 2, c", "main timeout: 1, a", "other timeout: 1, a"];
    ensure_eq!(codes(&bench, &Filter::default()).await?, expected, "all");
    ensure_eq!(codes(&bench, &in_lane(&main.name)).await?, expected[..2], "of a lane");
    let mut filter = Filter::default();
    filter.code = Some("timeout".to_owned());
    ensure_eq!(codes(&bench, &filter).await?, expected[1..], "of a code");
    let mut filter = Filter::default();
    filter.error = Some("SUCH customer".to_owned());
    ensure_eq!(codes(&bench, &filter).await?, ["main http 400: 1, b"], "of an error");
    filter.key = Some("k".to_owned());
    let refused = bench.store.dead_by_code(&filter).await.err().map(|error| error.kind());
    ensure_eq!(refused, Some(ErrorKind::Rejected), "a filter that cannot be counted by");
    let mut one = in_lane(&main.name);
    one.ids = vec!["a".to_owned()];
    bench.apply(&one, Command::Redrive { dry_run: false }).await?;
    one.ids = vec!["c".to_owned()];
    bench.apply(&one, Command::Discard { reason: "x".to_owned(), dry_run: false }).await?;
    expected = vec!["main http 400: 1, b", "other timeout: 1, a"];
    ensure_eq!(codes(&bench, &Filter::default()).await?, expected, "what is left");
    Ok(())
}

/// Each group as a text, by lane and code.
async fn codes(bench: &StoreBench, filter: &Filter) -> Result<Vec<String>, Verdict> {
    let codes = bench.store.dead_by_code(filter).await?;
    ensure!(!codes.is_partial, "four events are too many");
    for group in &codes.groups {
        ensure!(group.first_at <= group.last_at, "first seen after last: {group:?}");
        ensure!(group.error.is_some(), "an example without its error: {group:?}");
    }
    let text = |group: &DeadGroup| {
        let code = group.code.as_deref().unwrap_or_default();
        format!("{} {code}: {}, {}", group.lane, group.events, group.example)
    };
    let mut texts: Vec<String> = codes.groups.iter().map(text).collect();
    texts.sort();
    Ok(texts)
}
