//! `posthaste key`: API keys of the store. What each may do is said in `server.operators`.

use clap::Subcommand;
use serde::Serialize;

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
    let store = context.existing_store().await?;
    let told = |error: posthaste::Error| error.during("add a key");
    // A server makes its first key only where there is none, and would then have none that anybody knows.
    if store.count().await.map_err(told)? == 0 {
        return Err(Failure::usage("add a key: start posthaste serve once before; it makes the first one"));
    }
    let key = ApiKey::generate().map_err(told)?;
    store.add(name, &key.hash()).await.map_err(told)?;
    if context.json() {
        return output::json(&KeyDocument { name, key: key.expose() });
    }
    output::line(key.expose())
}

/// A name that stands in `server.operators` as it is.
fn name(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits { Ok(text.to_owned()) } else { Err("write 1 to 64 letters, digits, -, _ or .".to_owned()) }
}
