//! `posthaste dead show`: one dead event with its payload and why it died.

use posthaste::admin::Filter;

use super::super::context::Context;
use super::super::event::show;
use super::at::BrokerArgs;
use crate::exit::Failure;

/// What `dead show` takes. Its name is a group of arguments, and that of what it holds is taken.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArgs {
    #[command(flatten)]
    event: show::Args,
    #[command(flatten)]
    at: BrokerArgs,
}

pub(super) async fn run(args: &ShowArgs, context: &Context) -> Result<(), Failure> {
    let mut filter = Filter::default();
    filter.ids = vec![args.event.id.clone()];
    let Some(letters) = args.at.letters(&filter, context)? else {
        return show::run(&args.event, context).await;
    };
    let found = letters.one(&args.event.id, args.event.source.as_deref()).await?;
    show::display(&args.event, context, found)
}
