//! `posthaste event show`: one event, its payload byte for byte, what the lanes did with it, and what happened to it.

use posthaste::admin::{Filter, Record};
use posthaste::schema::Backend;

use super::super::context::{Access, Context};
use super::super::filter::{encoded, with_query};
use super::super::output;
use super::payload::{As, View};
use crate::exit::Failure;
use crate::http::events::page_of_one;
use crate::http::history;
use crate::http::wire::{EventDocument, HistoryDocument, LaneViewDocument};

/// What `event show` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which event
    pub(in crate::cli) id: String,
    /// Of this source, where several sources use the id
    #[arg(long, value_name = "SOURCE")]
    pub(in crate::cli) source: Option<String>,
    /// Write only the payload, byte for byte, and nothing else
    #[arg(long, conflicts_with = "output")]
    payload: bool,
    /// How to show the payload [default: as it is, if it is plain text]
    #[arg(long = "as", value_name = "HOW", value_enum, conflicts_with_all = ["output", "payload"])]
    wanted: Option<As>,
}

pub(in crate::cli) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    display(args, context, fetch(args, context).await?)
}

/// Shows it, if there is one.
pub(in crate::cli) fn display(
    args: &Args,
    context: &Context,
    event: Option<EventDocument>,
) -> Result<(), Failure> {
    let event = event.ok_or_else(|| Failure::nothing(format!("find an event with the id {:?}", args.id)))?;
    let payload = event.payload().map_err(|error| error.during("show the payload"))?;
    if args.payload {
        let payload = payload.ok_or_else(|| Failure::nothing("show the payload: it was erased"))?;
        return output::write(&payload);
    }
    if context.json() {
        return output::json(&event);
    }
    let payload = View::of(payload.as_deref(), args.wanted)?;
    output::stream(|out| {
        writeln!(out, "{}", text(&event))?;
        payload.write(out)
    })
}

async fn fetch(args: &Args, context: &Context) -> Result<Option<EventDocument>, Failure> {
    match context.access(false).await? {
        Access::Server(client) => {
            let path = format!("/v1/events/{}?", encoded(&args.id));
            client.get(&with_query(&path, [("source", args.source.clone())])).await
        }
        Access::Store(store) => of_store(&*store, args).await,
    }
}

async fn of_store(store: &dyn Backend, args: &Args) -> Result<Option<EventDocument>, Failure> {
    let told = |error: posthaste::Error| error.during("show the event");
    let mut filter = Filter::default();
    filter.ids = vec![args.id.clone()];
    let found = store.find(&filter, page_of_one()).await.map_err(told)?;
    match only(found.records, args.source.as_deref())? {
        Some(record) => Ok(Some(history::of(store, &record).await.map_err(told)?)),
        None => Ok(None),
    }
}

/// The one of this source; without a source there must be no other.
pub(in crate::cli) fn only(
    mut records: Vec<Record>,
    source: Option<&str>,
) -> Result<Option<Record>, Failure> {
    records.retain(|record| source.is_none_or(|source| record.envelope.source == source));
    let found = records.pop();
    let Some(one) = found.as_ref().filter(|_| !records.is_empty()) else { return Ok(found) };
    let mut sources: Vec<&str> = records.iter().chain([one]).map(|record| &*record.envelope.source).collect();
    sources.sort_unstable();
    sources.dedup();
    Err(Failure::usage(format!(
        "show the event: several sources have an event with this id; say --source with one of {}",
        sources.join(", ")
    )))
}

fn text(event: &EventDocument) -> String {
    let mut text = String::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{name:<14}{}\n", output::plain(value)));
        }
    };
    put("id", &event.id);
    put("source", &event.source);
    put("type", &event.event_type);
    put("topic", &event.topic);
    put("key", event.key.as_deref().unwrap_or_default());
    put("subject", event.subject.as_deref().unwrap_or_default());
    put("version", &event.version.to_string());
    put("content type", &event.datacontenttype);
    put("happened", &time(&event.time));
    put("taken in", &output::time(&event.created_at));
    put("not before", &time(&event.available_at));
    put("expires", &time(&event.expires_at));
    for (name, value) in &event.headers {
        put("header", &format!("{name}: {value}"));
    }
    for view in &event.lanes {
        put_lane(view, &mut put);
    }
    for (at, known) in event.history.iter().enumerate() {
        put(if at == 0 { "history" } else { "" }, &line(known));
    }
    text
}

fn put_lane(view: &LaneViewDocument, put: &mut impl FnMut(&str, &str)) {
    let error = view.last_error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
    let attempts = if view.attempts > 0 { format!(", {} failed", view.attempts) } else { String::new() };
    let again = if view.replay { ", sent again" } else { "" };
    put("lane", &format!("{} {}{again}{attempts}{error}", view.lane, view.state));
    put("  code", view.code.as_deref().unwrap_or_default());
    put("  failed at", &time(&view.first_failed_at));
    put("  dead since", &time(&view.dead_at));
    put("  next try", &time(&view.available_at));
}

/// `2026-11-15 21:52:03  dead in main: http 400: no such customer`.
fn line(known: &HistoryDocument) -> String {
    let mut line = match &known.at {
        Some(at) => output::time(at),
        // A log keeps the place of a lane, and no time for each event that the lane has passed.
        None => format!("{:<19}", "time not kept"),
    };
    line.push_str("  ");
    line.push_str(&known.what);
    for (word, part) in [(" in ", &known.lane), (" by ", &known.by), (": ", &known.detail)] {
        if let Some(part) = part {
            line.push_str(word);
            line.push_str(part);
        }
    }
    if known.maybe {
        line.push_str(" (of many, and maybe of this one)");
    }
    line
}

fn time(time: &Option<String>) -> String {
    time.as_deref().map(output::time).unwrap_or_default()
}
