//! `posthaste produce`: events that are made up, so many or again and again, for trying out lanes, targets and limits.

use std::time::Duration;

use posthaste::envelope::{Envelope, fresh_id};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::context::{Access, Context};
use super::output;
use super::publish::{check, document, publish_failure};
use super::serve::stopped;
use super::words::counted;
use crate::config::unit;
use crate::exit::Failure;
use crate::http::wire::PublishedBatch;
use crate::shutdown::{Shutdown, until_signalled};

/// How many are made if nobody says when to stop.
const COUNT: u64 = 1_000;
/// What stands around a payload in a request, at most about.
const AROUND_BYTES: u64 = 512;

/// What `produce` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The type of all of them
    #[arg(long = "type", value_name = "TYPE", default_value = "posthaste.test")]
    event_type: String,
    /// Where they go [default: the type]
    #[arg(long)]
    topic: Option<String>,
    /// Stop after so many [default: 1000, and with --every not before a signal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// So many in each transaction, or request
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    batch: u64,
    /// Begin a batch so often, and go on
    #[arg(long, value_name = "DURATION", value_parser = unit::duration)]
    every: Option<Duration>,
    /// How large the payloads are, like 1KiB; each is a JSON object
    #[arg(long, value_name = "SIZE", default_value = "256B", value_parser = unit::size)]
    size: u64,
    /// Give them keys, in turn one of so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    keys: u64,
}

/// What `produce` answers.
#[derive(Serialize)]
struct ProducedDocument {
    published: u64,
    seconds: f64,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let access = context.access(true).await?;
    // What is wrong with one is wrong with all.
    check(&made(&args, 0, context), context)?;
    let work = async |shutdown: Shutdown| produce(&args, &access, context, &shutdown).await;
    stopped(until_signalled(work).await)
}

async fn produce(
    args: &Args,
    access: &Access,
    context: &Context,
    shutdown: &Shutdown,
) -> Result<(), Failure> {
    let all = args.count.or(args.every.is_none().then_some(COUNT));
    let progress = output::progress("produce", "events", all);
    let most = args.batch.min(fitting(args.size, context.config.server.payload_max));
    let (start, mut published) = (Instant::now(), 0);
    let mut next = start;
    while !shutdown.has_begun() && all.is_none_or(|all| published < all) {
        let batch = all.map_or(most, |all| most.min(all - published));
        let events = (published..published + batch).map(|number| made(args, number, context)).collect();
        publish(access, events).await?;
        published += batch;
        progress.at(published);
        if let Some(every) = args.every.filter(|_| all.is_none_or(|all| published < all)) {
            // What was late is not made up for.
            next = (next + every).max(Instant::now());
            tokio::select! {
                () = sleep_until(next) => {}
                () = shutdown.begun() => {}
            }
        }
    }
    progress.finish();
    let seconds = start.elapsed().as_secs_f64();
    if context.json() {
        return output::json(&ProducedDocument { published, seconds });
    }
    output::line(&format!("produce: {} in {seconds:.1} s", counted(published, "events")))
}

/// How many events of this size are published together: a server takes requests of at least twice its largest payload.
fn fitting(size: u64, payload_max: usize) -> u64 {
    // In base64, four bytes are three.
    let each = size.saturating_mul(4) / 3 + AROUND_BYTES;
    (2 * payload_max as u64 / each).max(1)
}

/// An event with a number, as large as it should be.
fn made(args: &Args, number: u64, context: &Context) -> Envelope {
    let head = format!("{{\"number\":{number},\"filler\":\"");
    let filler = usize::try_from(args.size).unwrap_or(usize::MAX).saturating_sub(head.len() + 2);
    // More is refused before anything is published.
    let filler = "x".repeat(filler.min(context.config.server.payload_max + 1));
    let mut envelope = Envelope::new(args.event_type.clone(), format!("{head}{filler}\"}}"));
    envelope.id = fresh_id();
    envelope.source.clone_from(&context.config.server.source);
    envelope.key = (args.keys > 0).then(|| format!("key-{}", number % args.keys));
    if let Some(topic) = &args.topic {
        envelope.topic.clone_from(topic);
    }
    envelope
}

async fn publish(access: &Access, events: Vec<Envelope>) -> Result<(), Failure> {
    match access {
        Access::Server(client) => {
            let batch: Vec<_> = events.iter().map(document).collect();
            let batch = serde_json::to_vec(&batch)
                .map_err(|error| Failure::other(format!("write events as JSON: {error}")))?;
            client.post::<PublishedBatch>("/v1/events", batch).await.map(drop)
        }
        Access::Store(store) => store.publish(events).await.map(drop).map_err(publish_failure),
    }
}
