//! What it costs a lane that another session keeps a transaction open: nothing that was updated since can be cleaned away.

use std::sync::Arc;
use std::time::Duration;

use posthaste::admin::{Actor, Command, Filter, Pace, Seek};
use posthaste::store::Store;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Bench;
use super::tables::{connect, failed};
use crate::figures::{hundredths, median};
use crate::relay::drain;

const LANE: &str = "held";
const INSERT: &str = "INSERT INTO bench_events (event_id, source, event_type, payload) \
    VALUES ('held', '/posthaste/bench', 'bench.event', 'x')";

/// Relays the backlog again and again: without, with, and without the open transaction, so that a machine that changes its
/// pace meanwhile is seen; one lane, so that what its row leaves behind adds up.
pub(super) async fn measure(bench: &Bench<'_>, seconds: u64) -> Result<Vec<(&'static str, Value)>, Failure> {
    let span = Duration::from_secs(seconds);
    let beside = (span / 4).min(Duration::from_secs(20));
    let before = rounds(bench, beside).await?;
    let holder = connect(&bench.args.store).await?;
    holder.batch_execute("BEGIN").await.map_err(failed("open a transaction"))?;
    holder.batch_execute(INSERT).await.map_err(failed("publish in an open transaction"))?;
    let held = rounds(bench, span).await?;
    holder.batch_execute("ROLLBACK").await.map_err(failed("end the open transaction"))?;
    let after = rounds(bench, beside).await?;
    // What gets worse with time shows in the last quarter.
    let quarters: Vec<f64> =
        held.chunks(held.len().div_ceil(4)).map(|rates| median(rates.to_vec())).collect();
    let last = quarters.last().copied().unwrap_or_default();
    let (before, held, after) = (median(before), median(held), median(after));
    let free = f64::midpoint(before, after);
    let loss = |rate: f64| json!(hundredths((1.0 - rate / free.max(1.0)) * 100.0));
    Ok(vec![
        ("held_seconds", json!(seconds)),
        ("held_events_per_second", json!(held.round())),
        (
            "held_events_per_second_by_quarter",
            json!(quarters.iter().map(|rate| rate.round()).collect::<Vec<_>>()),
        ),
        ("before_held_events_per_second", json!(before.round())),
        ("after_held_events_per_second", json!(after.round())),
        ("held_loss_percent", loss(held)),
        ("held_loss_percent_at_the_end", loss(last)),
    ])
}

/// The rate of each round until the span has passed; at least three.
async fn rounds(bench: &Bench<'_>, span: Duration) -> Result<Vec<f64>, Failure> {
    let bar = output::bar("holding a transaction", span.as_secs());
    let (start, mut rates) = (Instant::now(), Vec::new());
    while start.elapsed() < span || rates.len() < 3 {
        let store = Arc::clone(&bench.store) as Arc<dyn Store>;
        let (events, took) = drain(store, &bench.target, LANE).await?;
        // The very first round makes the lane, and its row.
        rates.push(events as f64 / took.as_secs_f64().max(1e-9));
        back_to_the_beginning(bench).await?;
        bar.set_position(start.elapsed().as_secs());
    }
    bar.finish_and_clear();
    Ok(rates)
}

async fn back_to_the_beginning(bench: &Bench<'_>) -> Result<(), Failure> {
    let mut filter = Filter::default();
    filter.lane = Some(LANE.parse()?);
    let seek = Command::Seek { to: Seek::Beginning, dry_run: false };
    bench.store.apply(&filter, seek, &Actor::new("bench", "cli"), &Pace::full()).await?;
    Ok(())
}
