//! `posthaste key`: API keys of the store. What each may do is said in `server.operators`.

use clap::Subcommand;
use posthaste::admin::{Actor, Applied};
use posthaste::review::{AuditEntry, KEY_ADD};
use posthaste::time::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::context::Context;
use super::output;
use crate::exit::Failure;
use crate::keys::ApiKey;

/// What `key` does.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Make a further key and show it, this once: the store keeps its hash only
    Add(Args),
}

/// What `key add` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its name, for server.operators and for the record
    #[arg(value_parser = name)]
    name: String,
}

/// What `key add` answers.
#[derive(Serialize)]
struct KeyDocument<'a> {
    name: &'a str,
    key: &'a str,
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<(), Failure> {
    let Verb::Add(Args { name }) = verb;
    if context.config.store.table.is_some() {
        let why = "add a key: an outbox table of another owner keeps none; its relay makes one at its start, in posthaste.key";
        return Err(Failure::usage(why));
    }
    let store = context.existing_store().await?;
    let told = |error: posthaste::Error| error.during("add a key");
    // A server makes its first key only where there is none, and would then have none that anybody knows.
    if store.count().await.map_err(told)? == 0 {
        return Err(Failure::usage("add a key: start posthaste serve once before; it makes the first one"));
    }
    let key = ApiKey::generate().map_err(told)?;
    // First the record: a key that nobody is known to have made is worse than a record of one that could not be made.
    store.record(&made_by(context.actor(), name)).await.map_err(told)?;
    store.add(name, &key.hash()).await.map_err(told)?;
    if context.json() {
        return output::json(&KeyDocument { name, key: key.expose() });
    }
    output::line(key.expose())
}

/// The record of a key that this one makes.
fn made_by(actor: Actor, name: &str) -> AuditEntry {
    let filter = json!({ "name": name }).to_string();
    AuditEntry::new(0, Timestamp::default(), actor, KEY_ADD, filter, Applied::new(1, 1))
}

/// A name that stands in `server.operators` as it is.
fn name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits { Ok(text.to_owned()) } else { Err("write 1 to 64 letters, digits, -, _ or .".to_owned()) }
}
