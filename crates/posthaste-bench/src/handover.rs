//! How fast a target publishes to a broker what it is handed, against the bare client: with bare payloads, and with the same
//! messages.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::SelectAll;
use posthaste::envelope::Envelope;
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::time::Timestamp;
use posthaste_terminal::exit::{Code, Failure};
use posthaste_terminal::output;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::PublishArgs;
use super::bed::{self, Bed, Load, Message};
use super::figures::{Round, Summary, hundredths, median};
use super::relay::scheme;

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
    let load = Load { events: args.events, size, window: args.window as usize };
    let mut rounds = Vec::new();
    let bar = output::bar("rounds", u64::from(args.rounds));
    for _ in 0..args.rounds {
        rounds.push(bed.round(Message::Raw, load).await?);
        rounds.push(bed.round(Message::Same, load).await?);
        rounds.push(round(&*target, load).await?);
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
        ("window", json!(args.window)),
    ];
    facts.extend(bed.facts());
    Ok(Summary { bench: "publish", sides: ["target", "raw"], rounds, facts })
}

/// Bursts as a relay sends them: so many at once that the window is full, and more when that is worth it again or was waited for.
async fn round(target: &dyn Target, load: Load) -> Result<Round, Failure> {
    let can = target.capabilities();
    let (burst_max, window) =
        (can.burst_max.max(1) as usize, load.window.min(can.in_flight_max as usize).max(1));
    let (start, all) = (Instant::now(), usize::try_from(load.events).unwrap_or(usize::MAX));
    let (mut bursts, mut sent, mut answered) = (SelectAll::new(), 0, 0);
    let mut send_by = None;
    while answered < all {
        let (out, now) = (sent - answered, Instant::now());
        let fits = window.saturating_sub(out).min(all - sent);
        let is_worth_it = fits >= can.worth_sending(window, out);
        if fits > 0 && (is_worth_it || now >= *send_by.get_or_insert(now + Capabilities::GATHER)) {
            send_by = None;
            for first in (sent..sent + fits).step_by(burst_max) {
                let burst = first..(first + burst_max).min(sent + fits);
                bursts.push(target.deliver(burst.map(|number| parcel(number, load.size)).collect()));
            }
            sent += fits;
        }
        let next = match send_by {
            Some(by) => {
                timeout_at(by, bursts.next()).await.map_or(Ok(None), |answer| hear(answer).map(Some))?
            }
            None => Some(hear(bursts.next().await)?),
        };
        answered += usize::from(next.is_some());
    }
    Ok(Round { side: "target", events: load.events, took: start.elapsed() })
}

fn hear(answer: Option<Answer>) -> Result<(), Failure> {
    let failed = |why: &str| Failure::new(Code::Target, format!("publish: {why}"));
    let answer = answer.ok_or_else(|| failed("some events had no answer"))?;
    answer.result.map_err(|error| failed(&error.to_string()))
}

/// Each with an id of its own: a broker that knows ids would not store it otherwise.
fn parcel(number: usize, size: usize) -> Parcel {
    let mut event = Envelope::new("bench.event", vec![b'x'; size]);
    event.source = "/posthaste/bench".to_owned();
    event.key = Some(format!("key-{}", number % 1_000));
    event.content_type = "application/octet-stream".to_owned();
    Parcel::new(Arc::new(event), 1, false, Timestamp::default())
}
