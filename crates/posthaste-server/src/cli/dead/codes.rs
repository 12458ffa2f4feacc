//! `posthaste dead list --by code`: what events died of.

use posthaste::admin::Filter;
use posthaste::review::DeadCodes;

use super::super::context::{Access, Context};
use super::super::filter::with_query;
use super::super::output;
use super::at::Letters;
use crate::exit::Failure;
use crate::http::dead::counting;
use crate::http::query::pairs;
use crate::http::wire::{DeadCodeDocument, DeadCodePage};

/// What the failure said is told by `dead show`, of the event whose id stands here.
const HEAD: [&str; 6] = ["EVENTS", "LANE", "CODE", "FIRST SEEN (UTC)", "LAST SEEN (UTC)", "ID"];

pub(super) async fn run(chosen: &Filter, letters: Option<Letters>, context: &Context) -> Result<(), Failure> {
    let page = match letters {
        Some(letters) => letters.codes().await?,
        None => fetch(chosen, context).await?,
    };
    if context.json() {
        return output::json(&page);
    }
    output::table(&HEAD, page.codes.iter().map(row).collect(), "no dead events")?;
    if page.partial {
        output::note("there are more dead events; counted are the newest");
    }
    Ok(())
}

async fn fetch(chosen: &Filter, context: &Context) -> Result<DeadCodePage, Failure> {
    let told = |error: posthaste::Error| error.during("count dead events by code");
    // A server would not know what it was not asked.
    let filter = DeadCodes::question(chosen).map_err(told)?;
    match context.access(false).await? {
        Access::Server(client) => {
            let page = client.get(&with_query("/v1/dead/codes?", pairs(counting(), &chosen.given()))).await?;
            page.ok_or_else(|| match &chosen.lane {
                Some(lane) => Failure::nothing(format!(
                    "count dead events by code: the server has no lane {lane}, or its store knows no codes"
                )),
                None => Failure::usage("count dead events by code: the server, or its store, knows no codes"),
            })
        }
        Access::Store(store) => Ok(DeadCodePage::of(&store.dead_by_code(&filter).await.map_err(told)?)),
    }
}

fn row(group: &DeadCodeDocument) -> Vec<String> {
    vec![
        group.events.to_string(),
        group.lane.clone(),
        group.code.clone().unwrap_or_default(),
        output::minute(&group.first_at),
        output::minute(&group.last_at),
        group.example.clone(),
    ]
}
