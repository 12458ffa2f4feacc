//! `posthaste event show`: one event, its payload byte for byte, and what the lanes did with it.

use posthaste::admin::{Filter, Page};

use super::super::context::{Access, Context};
use super::super::filter::encoded;
use super::super::output;
use crate::exit::Failure;
use crate::http::wire::EventDocument;

/// What `event show` takes.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Which event
    pub(in crate::cli) id: String,
    /// Write only the payload, byte for byte, and nothing else
    #[arg(long, conflicts_with = "output")]
    payload: bool,
}

pub(in crate::cli) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    display(args, context, fetch(&args.id, context).await?)
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
    show(&event, payload.as_deref())
}

async fn fetch(id: &str, context: &Context) -> Result<Option<EventDocument>, Failure> {
    match context.access(false).await? {
        Access::Server(client) => client.get(&format!("/v1/events/{}", encoded(id))).await,
        Access::Store(store) => {
            let mut filter = Filter::default();
            filter.ids = vec![id.to_owned()];
            let mut page = Page::first(1);
            page.with_payload = true;
            let found = store.find(&filter, page).await.map_err(|error| error.during("show the event"))?;
            Ok(found.records.first().map(EventDocument::with_payload))
        }
    }
}

fn show(event: &EventDocument, payload: Option<&[u8]>) -> Result<(), Failure> {
    let mut text = String::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{name:<14}{}\n", output::plain(value)));
        }
    };
    let time = |time: &Option<String>| time.as_deref().map(output::time).unwrap_or_default();
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
        let error = view.last_error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
        let attempts = if view.attempts > 0 { format!(", {} failed", view.attempts) } else { String::new() };
        put("lane", &format!("{} {}{attempts}{error}", view.lane, view.state));
    }
    output::write(text.as_bytes())?;
    show_payload(payload)
}

/// The payload as it is, unless it would steer the terminal or is no text.
fn show_payload(payload: Option<&[u8]>) -> Result<(), Failure> {
    let Some(payload) = payload else { return output::line("\n(the payload was erased)") };
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    match std::str::from_utf8(payload) {
        Ok("") => output::line("\n(no payload)"),
        Ok(text) if text.chars().all(harmless) => output::line(&format!("\n{text}")),
        _ => output::line(&format!("\n({} bytes that are no plain text: see --payload)", payload.len())),
    }
}
