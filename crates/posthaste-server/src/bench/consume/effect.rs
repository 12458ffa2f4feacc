//! The effect of an event in a database: one row, in the transaction of its inbox row.

use std::sync::Arc;

use posthaste::consumer::{Consumer, Cx, Failure as Verdict};
use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::publish::Publish;
use posthaste::sql::{Database, Statement, Tx as _, Value};

use super::{ConsumeArgs, Round, Rounds, drain, rounds};
use crate::exit::Failure;

/// What the names of everything that the bench makes begin with.
pub(super) const PREFIX: &str = "bench_";
/// Without a key, so that it takes an effect twice.
pub(super) const TABLE: &str = "CREATE TABLE bench_effects (event_id text NOT NULL)";
/// How many effects there are, and of how many events.
pub(super) const COUNT: &str = "SELECT count(*), count(DISTINCT event_id) FROM bench_effects";

/// The statement that is the effect.
type Insert = &'static str;

async fn insert<D: Database>(cx: &mut Cx<D, Insert>, envelope: Arc<Envelope>) -> Result<(), Verdict> {
    let statement = Statement::new(*cx.state(), vec![Value::Text(Some(envelope.id.clone()))]);
    cx.tx().execute(statement).await?;
    Ok(())
}

/// Rounds with effects in this database; `counted` answers what [`COUNT`] does.
pub(super) async fn measure<D: Database>(
    args: &ConsumeArgs,
    database: &D,
    text: Insert,
    mut counted: impl AsyncFnMut() -> Result<(i64, i64), Failure>,
) -> Result<Rounds, Failure> {
    let prefix: TablePrefix = PREFIX.parse()?;
    rounds(args, "events_per_second", async |number| {
        let payload = vec![b'x'; args.size as usize];
        let event = |_| Publish::raw("bench.event", payload.clone());
        let consumer = Consumer::new("bench", database.clone(), text).prefix(&prefix).on_any(insert::<D>);
        let took = drain(args, consumer, event).await?;
        let expected = i64::try_from(args.events * u64::from(number + 1)).unwrap_or(i64::MAX);
        Ok(Round { took, exactly_once: counted().await? == (expected, expected) })
    })
    .await
}
