//! How fast a target publishes to a broker what it is handed, against the bare client: with bare payloads, and with the same
//! messages.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use posthaste::envelope::Envelope;
use posthaste::store::Parcel;
use posthaste::target::Target;
use posthaste::time::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::PublishArgs;
use super::bed::{self, Bed, Message};
use super::figures::{Round, Summary, hundredths, median, progress};
use super::relay::scheme;
use crate::exit::{Code, Failure};

/// What a lane keeps unanswered unless it is told otherwise.
const WINDOW: usize = 1_000;

pub(super) async fn measure(args: &PublishArgs, url: &str) -> Result<Summary, Failure> {
    let bed = bed::make(url, args.queue).await?;
    let summary = rounds(args, &*bed).await;
    let removed = bed.remove().await;
    let summary = summary?;
    removed?;
    Ok(summary)
}

async fn rounds(args: &PublishArgs, bed: &dyn Bed) -> Result<Summary, Failure> {
    let target = posthaste::target::open(bed.url())?;
    let size = usize::try_from(args.size).unwrap_or(1024);
    // Many different events, but not all at once in memory.
    let parcels: Vec<Parcel> = (0..WINDOW * 10).map(|number| parcel(number, size)).collect();
    let mut rounds = Vec::new();
    let bar = progress("rounds", u64::from(args.rounds));
    for _ in 0..args.rounds {
        rounds.push(bed.round(Message::Raw, args.events, size).await?);
        rounds.push(bed.round(Message::Same, args.events, size).await?);
        rounds.push(round(&*target, &parcels, args.events).await?);
        bed.empty().await?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rate =
        |side: &str| median(rounds.iter().filter(|round| round.side == side).map(Round::rate).collect());
    let (target, same) = (rate("target"), rate("same"));
    let mut facts = vec![
        ("same_message_per_second", json!(same.round())),
        ("of_same_message", json!(hundredths(target / same.max(1.0)))),
        ("to", json!(scheme(bed.url()))),
        ("events", json!(args.events)),
        ("size", json!(args.size)),
    ];
    facts.extend(bed.facts());
    Ok(Summary { bench: "publish", sides: ["target", "raw"], rounds, facts })
}

/// Bursts as a relay sends them: so many at once that the window is full.
async fn round(target: &dyn Target, parcels: &[Parcel], events: u64) -> Result<Round, Failure> {
    let burst = target.capabilities().burst_max as usize;
    let start = Instant::now();
    let events = usize::try_from(events).unwrap_or(usize::MAX);
    let numbers = (0..events).step_by(burst);
    let bursts = numbers.map(|from| {
        let burst = (from..(from + burst).min(events)).map(|number| parcels[number % parcels.len()].clone());
        target.deliver(burst.collect())
    });
    let mut answers = stream::iter(bursts).flatten_unordered(WINDOW / burst);
    let mut answered = 0_u64;
    while let Some(answer) = answers.next().await {
        answer.result.map_err(|error| Failure::new(Code::Target, format!("publish: {error}")))?;
        answered += 1;
    }
    Ok(Round { side: "target", events: answered, took: start.elapsed() })
}

fn parcel(number: usize, size: usize) -> Parcel {
    let mut event = Envelope::new("bench.event", vec![b'x'; size]);
    event.source = "/posthaste/bench".to_owned();
    event.key = Some(format!("key-{}", number % 1_000));
    event.content_type = "application/octet-stream".to_owned();
    Parcel::new(Arc::new(event), 1, false, Timestamp::default())
}
