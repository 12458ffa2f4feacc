//! `posthaste event tail`: events as they come, until a signal.

use std::time::Duration;

use super::super::context::{Access, Context};
use super::super::filter::FilterArgs;
use super::super::output;
use super::super::serve::stopped;
use super::list::{PageArgs, fetch, row};
use crate::exit::Failure;
use crate::http::wire::EventDocument;
use crate::shutdown::{Shutdown, until_signalled};

const PAUSE: Duration = Duration::from_millis(300);
const PAGE: u32 = 200;

/// What `event tail` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Begin with so many events that are there already
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    lines: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let access = context.access(false).await?;
    stopped(until_signalled(|shutdown| follow(args, &access, context.json(), shutdown)).await)
}

async fn follow(args: &Args, access: &Access, json: bool, shutdown: Shutdown) -> Result<(), Failure> {
    let first = PageArgs { limit: args.lines.max(1), after: None };
    let mut events = fetch(access, &args.filter, None, &first).await?.events;
    let mut seen = events.first().map_or(0, |event| event.seq);
    events.truncate(args.lines as usize);
    loop {
        for event in events.iter().rev() {
            print(event, json)?;
        }
        if tokio::time::timeout(PAUSE, shutdown.begun()).await.is_ok() {
            return Ok(());
        }
        events = since(access, &args.filter, seen).await?;
        seen = events.first().map_or(seen, |event| event.seq);
    }
}

/// What came after this place in the log, the newest first.
async fn since(access: &Access, filter: &FilterArgs, seen: i64) -> Result<Vec<EventDocument>, Failure> {
    let mut events = Vec::new();
    let mut page = PageArgs { limit: PAGE, after: None };
    loop {
        let answer = fetch(access, filter, None, &page).await?;
        let count = answer.events.len();
        events.extend(answer.events.into_iter().take_while(|event| event.seq > seen));
        // A page that reached what was seen before, or the end, is the last.
        let reached = events.len() % PAGE as usize != 0 || count == 0;
        match answer.next {
            Some(next) if !reached => page.after = Some(next),
            _ => return Ok(events),
        }
    }
}

fn print(event: &EventDocument, json: bool) -> Result<(), Failure> {
    if json {
        return output::json_line(event);
    }
    let cells: Vec<_> = row(event).iter().map(|cell| output::plain(cell)).collect();
    output::line(cells.join("  ").trim_end())
}
