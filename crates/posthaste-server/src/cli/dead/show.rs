//! `posthaste dead show`: one dead event with its payload and why it died.

use posthaste::admin::Page;

use super::super::context::Context;
use super::super::event::show;
use super::super::filter::FilterArgs;
use super::at::BrokerArgs;
use crate::exit::Failure;
use crate::http::wire::EventDocument;

/// What `dead show` takes. Its name is a group of arguments, and that of what it holds is taken.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArgs {
    #[command(flatten)]
    event: show::Args,
    #[command(flatten)]
    at: BrokerArgs,
}

pub(super) async fn run(args: &ShowArgs, context: &Context) -> Result<(), Failure> {
    let filter = FilterArgs { ids: vec![args.event.id.clone()], ..FilterArgs::default() };
    let Some(letters) = args.at.letters(&filter, context)? else {
        return show::run(&args.event, context).await;
    };
    let mut page = Page::first(1);
    page.with_payload = true;
    let found = letters.admin.find(&letters.filter, page).await;
    let found = found.map_err(|error| Failure::target(&error.during("show the event")))?;
    show::display(&args.event, context, found.records.first().map(EventDocument::with_payload))
}
