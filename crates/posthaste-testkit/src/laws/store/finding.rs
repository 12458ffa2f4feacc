//! Looking for events.

use std::time::Duration;

use posthaste_core::admin::{EventState, Filter, Page};
use posthaste_core::store::Outcome;

use crate::drive::{StoreBench, dead, event, failure, in_lane, keyed, lane, retry, settled};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Sets one field of a filter.
type SetField = fn(&mut Filter) -> Result<(), Verdict>;

/// Pages of three through ten, while more is published: each of the ten once, the newest first; payloads only when asked.
pub async fn find_pages_through_everything_once(bench: StoreBench) -> LawResult {
    let expected: Vec<String> = (0..10).map(|n| format!("e{n}")).collect();
    bench.publish_all(expected.iter().map(|id| event(id)).collect()).await?;
    let (mut page, mut seen) = (Page::first(3), Vec::new());
    loop {
        let found = bench.store.find(&Filter::default(), page.clone()).await?;
        ensure!(found.records.len() <= 3, "{} records on a page of three", found.records.len());
        ensure!(found.records.iter().all(|record| record.envelope.payload.is_empty()), "an unasked payload");
        ensure!(
            found.records.iter().all(|record| record.payload_bytes.is_some()),
            "a payload without its size"
        );
        seen.extend(found.records.into_iter().map(|record| record.envelope.id));
        bench.publish(&[&format!("later-{}", seen.len())]).await?;
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
        ensure!(seen.len() <= 10, "pages never end: {seen:?}");
    }
    seen.reverse();
    ensure_eq!(seen, expected, "all pages together, the oldest first");
    Ok(())
}

/// Filters by each field: what matches is found and nothing else.
pub async fn find_answers_by_every_field_of_its_filter(bench: StoreBench) -> LawResult {
    let mut typed = event("typed");
    typed.event_type = "special".to_owned();
    let mut topical = event("topical");
    topical.topic = "stock.eu".to_owned();
    bench.publish_all(vec![typed, topical, keyed("keyed", "k")]).await?;
    bench.pass(SECOND);
    let time = bench.rig.now();
    bench.publish(&["late"]).await?;
    let cases: [(&str, &[&str], SetField); 6] = [
        ("nothing", &["typed", "topical", "keyed", "late"], |_| Ok(())),
        ("ids", &["typed", "late"], |filter| {
            filter.ids = ["late", "typed", "missing"].map(str::to_owned).into();
            Ok(())
        }),
        ("type", &["typed"], |filter| {
            filter.event_type = Some("special".to_owned());
            Ok(())
        }),
        ("topic", &["topical"], |filter| {
            filter.topic = Some("stock.*".parse()?);
            Ok(())
        }),
        ("key", &["keyed"], |filter| {
            filter.key = Some("k".to_owned());
            Ok(())
        }),
        ("key that is not there", &[], |filter| {
            filter.key = Some("K".to_owned());
            Ok(())
        }),
    ];
    for (what, expected, set) in cases {
        let mut filter = Filter::default();
        set(&mut filter)?;
        ensure_eq!(found(&bench, &filter).await?, expected, "found by {what}");
    }
    let (mut since, mut until) = (Filter::default(), Filter::default());
    since.since = Some(time);
    until.until = Some(time);
    ensure_eq!(found(&bench, &since).await?, ["late"], "found since");
    ensure_eq!(found(&bench, &until).await?, ["typed", "topical", "keyed"], "found until");
    Ok(())
}

/// The ids that match, the oldest first.
async fn found(bench: &StoreBench, filter: &Filter) -> Result<Vec<String>, Verdict> {
    Ok(bench.find(filter).await?.into_iter().rev().map(|record| record.envelope.id).collect())
}

/// Leads events into each state in one lane and leaves another lane alone: records say both, and states are found.
pub async fn find_says_how_every_lane_sees_an_event(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("delivered", "a"), ("dead", "b"), ("retrying", "c"), ("behind", "c")]).await?;
    let (main, idle) = (lane("main"), lane("idle"));
    bench.drive(&idle).await?;
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver
        .settle(vec![
            settled(&claimed[0], Outcome::Delivered),
            settled(&claimed[1], dead()),
            settled(&claimed[2], retry(SECOND)),
            settled(&claimed[3], Outcome::Behind),
        ])
        .await?;
    bench.publish(&["pending"]).await?;
    let cases: [(EventState, &[&str]); 7] = [
        (EventState::Delivered, &["delivered"]),
        (EventState::Dead, &["dead"]),
        (EventState::Retrying, &["retrying"]),
        (EventState::Behind, &["behind"]),
        (EventState::Pending, &["retrying", "behind", "pending"]),
        (EventState::Scheduled, &[]),
        (EventState::Discarded, &[]),
    ];
    for (state, expected) in cases {
        let mut filter = in_lane(&main.name);
        filter.state = Some(state);
        ensure_eq!(found(&bench, &filter).await?, expected, "found as {} in the lane", state.name());
    }
    let mut filter = in_lane(&main.name);
    filter.code = Some("test failure".to_owned());
    ensure_eq!(found(&bench, &filter).await?, ["dead", "retrying"], "found by code");
    let mut filter = Filter::default();
    filter.error = Some(failure().message.to_ascii_uppercase());
    ensure_eq!(found(&bench, &filter).await?, ["dead", "retrying"], "found by what the failure said");
    filter.error = Some("nothing says this".to_owned());
    ensure_eq!(found(&bench, &filter).await?, [""; 0], "found by what no failure said");
    for record in bench.find(&Filter::default()).await? {
        ensure_eq!(record.lanes.len(), 2, "lanes that see {}", record.envelope.id);
        let seen = record.lanes.iter().find(|view| view.lane == idle.name).map(|view| view.state);
        ensure_eq!(seen, Some(EventState::Pending), "how the idle lane sees {}", record.envelope.id);
    }
    Ok(())
}
