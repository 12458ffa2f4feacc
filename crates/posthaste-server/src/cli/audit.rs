//! `posthaste audit`: what was changed, and by whom.

use posthaste::review::{AuditFilter, VERBS};
use posthaste::time::Timestamp;

use super::context::{Access, Context};
use super::event::list::PageArgs;
use super::filter::with_query;
use super::moment::past;
use super::output;
use crate::exit::Failure;
use crate::http::wire::{AuditDocument, AuditPage};

const HEAD: [&str; 6] = ["TIME (UTC)", "ACTOR", "VIA", "VERB", "CHANGED", "WHAT"];

/// What `audit` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// By this actor: the name of a key, a user of the operating system, or a relay
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Of this verb
    #[arg(long, value_name = "VERB", value_parser = VERBS)]
    verb: Option<String>,
    /// Done at or after: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Timestamp>,
    /// Also commands that found nothing to change
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArgs,
}

impl Args {
    /// As the store is asked.
    fn filter(&self) -> AuditFilter {
        let mut filter = AuditFilter::default();
        filter.actor.clone_from(&self.actor);
        filter.verb.clone_from(&self.verb);
        filter.since = self.since;
        filter.with_unchanged = self.all;
        filter
    }

    /// As the server is asked.
    fn query(&self) -> String {
        let path = format!("/v1/audit?limit={}&all={}", self.page.limit, self.all);
        let pairs = [
            ("actor", self.actor.clone()),
            ("verb", self.verb.clone()),
            ("since", self.since.map(|since| since.to_string())),
            ("after", self.page.after.clone()),
        ];
        with_query(&path, pairs)
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let page = fetch(args, context).await?;
    if context.json() {
        return output::json(&page);
    }
    output::table(&HEAD, page.entries.iter().map(row).collect(), "nothing was changed")?;
    output::tell_next(page.next.as_deref());
    Ok(())
}

async fn fetch(args: &Args, context: &Context) -> Result<AuditPage, Failure> {
    match context.access(false).await? {
        Access::Server(client) => {
            let page: Option<AuditPage> = client.get(&args.query()).await?;
            page.ok_or_else(|| Failure::usage("list the record: the server, or its store, keeps none"))
        }
        Access::Store(store) => {
            let audited = store.audited(&args.filter(), args.page.wanted()).await;
            Ok(AuditPage::of(&audited.map_err(|error| error.during("list the record"))?))
        }
    }
}

fn row(entry: &AuditDocument) -> Vec<String> {
    vec![
        output::time(&entry.at),
        entry.actor.clone(),
        entry.via.clone(),
        entry.verb.clone(),
        entry.changed.to_string(),
        what(&entry.filter),
    ]
}

/// `lane=main reason=no such customer`: the fields of the filter, without the signs of JSON.
fn what(filter: &serde_json::Value) -> String {
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match filter {
        serde_json::Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
        }
        other => text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_for_the_same_as_the_store() {
        let args = Args {
            actor: Some("eve & co".to_owned()),
            verb: Some("redrive".to_owned()),
            since: None,
            all: true,
            page: PageArgs { limit: 7, after: Some("12".to_owned()) },
        };
        assert_eq!(args.query(), "/v1/audit?limit=7&all=true&actor=eve%20%26%20co&verb=redrive&after=12");
        assert!(args.filter().with_unchanged);
    }

    #[test]
    fn a_filter_is_shown_in_words() {
        let filter = serde_json::json!({"lane": "main", "dead_age_s": null, "age_s": 5, "ids": ["a", "b"]});
        assert_eq!(what(&filter), r#"age_s=5 ids=["a","b"] lane=main"#);
        assert_eq!(what(&"odd".into()), "odd");
    }
}
