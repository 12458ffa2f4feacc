//! Effects in a Postgres database, through deadpool-postgres.

use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use posthaste::consumer::{Consumer, Cx, Failure as Verdict};
use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::store::{StoreOptions, open_with};
use posthaste_terminal::exit::Failure;
use tokio_postgres::{Config, NoTls};

use super::{ConsumeArgs, Rounds, effect, workers};
use crate::postgres::tables::{Tables, failed};

const INSERT: &str = "INSERT INTO bench_effects (event_id) VALUES ($1)";

/// Sent and not waited for: the commit fails if it does.
async fn insert(cx: &mut Cx<Pool>, envelope: Arc<Envelope>) -> Result<(), Verdict> {
    cx.tx().send(&effect::of(&envelope, INSERT))?;
    Ok(())
}

pub(super) async fn measure(args: &ConsumeArgs, url: &str) -> Result<Rounds, Failure> {
    let tables = Tables::make(url).await?;
    let measured = tokio::select! {
        measured = measure_in(args, url, &tables) => measured,
        _ = tokio::signal::ctrl_c() => Err(Failure::other("measure: interrupted; the bench's tables are removed")),
    };
    let removed = tables.remove().await;
    let measured = measured?;
    removed?;
    Ok(measured)
}

async fn measure_in(args: &ConsumeArgs, url: &str, tables: &Tables) -> Result<Rounds, Failure> {
    let mut options = StoreOptions::default();
    options.prefix = effect::PREFIX.parse()?;
    open_with(url, options).await?.migrate().await?;
    tables.client.batch_execute(effect::TABLE).await.map_err(failed("make the effects' table"))?;
    let config: Config = url.parse().map_err(failed("read the store's URL"))?;
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let pool = Pool::builder(Manager::from_config(config, NoTls, recycling))
        .max_size(workers(args))
        .build()
        .map_err(|error| Failure::other(format!("make a pool of connections: {error}")))?;
    let consumer =
        |prefix: &TablePrefix| Consumer::new("bench", pool.clone(), ()).prefix(prefix).on_any(insert);
    effect::measure(args, consumer, async || {
        let row = tables.client.query_one(effect::COUNT, &[]).await.map_err(failed("count the effects"))?;
        Ok((row.get(0), row.get(1)))
    })
    .await
}
