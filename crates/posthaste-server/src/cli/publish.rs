//! `posthaste publish`: one event, by the server or straight into the store.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste::envelope::{Envelope, fresh_id};
use posthaste::time::Moment;
use serde_json::value::RawValue;

use super::context::{Access, Context};
use super::moment;
use super::output;
use crate::config::payload::LaneLimits;
use crate::config::unit;
use crate::depth;
use crate::exit::Failure;
use crate::http::wire::{NewEvent, PublishedEvent};

/// What `publish` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What happened
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The payload; its bytes are never changed [default: stdin]
    #[arg(long, value_name = "TEXT", conflicts_with = "data_file")]
    data: Option<String>,
    /// Read the payload from this file; - is stdin
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
    /// Where it goes [default: the type]
    #[arg(long)]
    topic: Option<String>,
    /// Events of one key are delivered in order
    #[arg(long)]
    key: Option<String>,
    /// Names the event; publishing the same again is no mistake [default: a fresh UUIDv7]
    #[arg(long)]
    id: Option<String>,
    /// Where it comes from [default: server.source]
    #[arg(long)]
    source: Option<String>,
    /// What it is about
    #[arg(long)]
    subject: Option<String>,
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// How the payload is encoded [default: application/json, and then the payload must be JSON]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Not to be delivered before this time
    #[arg(long, value_name = "TIME", value_parser = moment::future, conflicts_with = "delay")]
    at: Option<Moment>,
    /// Not to be delivered before this long
    #[arg(long = "in", id = "delay", value_name = "DURATION", value_parser = moment::future)]
    delay: Option<Moment>,
    /// Not worth delivering after this time, or this long
    #[arg(long, value_name = "TIME", value_parser = moment::future)]
    expires: Option<Moment>,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<(), Failure> {
    let envelope = envelope(args, context)?;
    check(&envelope, context)?;
    let id = match context.access(true).await? {
        Access::Server(client) => {
            let event = serde_json::to_vec(&document(&envelope))
                .map_err(|error| Failure::other(format!("write the event as JSON: {error}")))?;
            client.post::<PublishedEvent>("/v1/events", event).await?.id
        }
        Access::Store(store) => {
            let id = envelope.id.clone();
            store.publish(vec![envelope]).await.map_err(publish_failure)?;
            id
        }
    };
    if context.json() { output::json(&PublishedEvent { id }) } else { output::line(&id) }
}

/// The same checks on both ways, so that the same mistake has the same answer.
pub(super) fn check(envelope: &Envelope, context: &Context) -> Result<(), Failure> {
    envelope
        .check(context.config.server.payload_max)
        .and_then(|()| depth::check(envelope, context.config.server.json_depth_max))
        .and_then(|()| LaneLimits::of(&context.config).check(envelope))
        .map_err(|error| Failure::from(error.during("publish")))
}

fn envelope(args: Args, context: &Context) -> Result<Envelope, Failure> {
    let payload = match (args.data, &args.data_file) {
        (Some(data), _) => data.into_bytes(),
        (None, Some(file)) => read(file, context)?,
        (None, None) => read(Path::new("-"), context)?,
    };
    let is_json = payload.is_empty() || serde_json::from_slice::<&RawValue>(&payload).is_ok();
    if args.content_type.is_none() && !is_json {
        return Err(Failure::usage(
            "publish: the payload is not JSON; say what it is, like --content-type text/plain",
        ));
    }
    let mut envelope = Envelope::new(args.event_type, payload);
    envelope.id = args.id.unwrap_or_else(fresh_id);
    envelope.source = args.source.unwrap_or_else(|| context.config.server.source.clone());
    envelope.key = args.key;
    envelope.subject = args.subject;
    for (name, value) in args.headers {
        if envelope.headers.insert(name.clone(), value).is_some() {
            return Err(Failure::usage(format!("publish: the header {name:?} is given twice; say it once")));
        }
    }
    envelope.available = args.at.or(args.delay);
    envelope.expires = args.expires;
    if let Some(topic) = args.topic {
        envelope.topic = topic;
    }
    if let Some(content_type) = args.content_type {
        envelope.content_type = content_type;
    }
    Ok(envelope)
}

/// An id that is taken is a mistake in what was handed in, as it is when the server says so.
pub(super) fn publish_failure(error: posthaste::Error) -> Failure {
    if error.kind() == posthaste::ErrorKind::Conflict {
        return Failure::usage(format!("publish: {error}; use a new id for a new event"));
    }
    Failure::from(error.during("publish"))
}

/// Reads a payload, but not much more of it than is allowed.
fn read(file: &Path, context: &Context) -> Result<Vec<u8>, Failure> {
    let from_stdin = file == Path::new("-");
    if from_stdin && io::stdin().is_terminal() {
        return Err(Failure::usage("publish: there is no payload; say --data, --data-file, or pipe it in"));
    }
    let payload_max = context.config.server.payload_max;
    let limit = payload_max as u64 + 1;
    let mut payload = Vec::new();
    let result = if from_stdin {
        io::stdin().lock().take(limit).read_to_end(&mut payload)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut payload))
    };
    result.map_err(|error| Failure::usage(format!("read the payload from {}: {error}", file.display())))?;
    if payload.len() > payload_max {
        let limit = unit::show_size(payload_max as u64);
        return Err(Failure::usage(format!(
            "publish: the payload is larger than server.payload_max ({limit}); publish a reference to large data instead"
        )));
    }
    Ok(payload)
}

/// The event as the server takes it, byte for byte.
pub(super) fn document(envelope: &Envelope) -> NewEvent {
    let mut event = NewEvent {
        event_type: envelope.event_type.clone(),
        id: Some(envelope.id.clone()),
        source: Some(envelope.source.clone()),
        subject: envelope.subject.clone(),
        topic: Some(envelope.topic.clone()),
        key: envelope.key.clone(),
        datacontenttype: Some(envelope.content_type.clone()),
        headers: envelope.headers.clone(),
        available_at: envelope.available.map(|at| moment::resolved(at).to_string()),
        expires_at: envelope.expires.map(|at| moment::resolved(at).to_string()),
        ..NewEvent::default()
    };
    if !envelope.payload.is_empty() {
        event.data_base64 = Some(BASE64.encode(&envelope.payload));
    }
    event
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
