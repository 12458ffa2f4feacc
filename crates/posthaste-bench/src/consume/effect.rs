//! The effect of an event in a database: one row, in the transaction of its inbox row.

use posthaste::consumer::Consumer;
use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::publish::Publish;
use posthaste::sql::{Database, Statement, Value};
use posthaste_terminal::exit::Failure;

use super::{ConsumeArgs, Round, Rounds, drain, rounds};

/// What the names of everything that the bench makes begin with.
pub(super) const PREFIX: &str = "bench_";
/// Without a key, so that it takes an effect twice.
pub(super) const TABLE: &str = "CREATE TABLE bench_effects (event_id text NOT NULL)";
/// How many effects there are, and of how many events.
pub(super) const COUNT: &str = "SELECT count(*), count(DISTINCT event_id) FROM bench_effects";

/// The effect of this event, by a statement with one value.
pub(super) fn of(envelope: &Envelope, text: &'static str) -> Statement {
    Statement::new(text, vec![Value::Text(Some(envelope.id.clone()))])
}

/// Rounds of this handler, whose effects are in this database; `counted` answers what [`COUNT`] does.
pub(super) async fn measure<D: Database>(
    args: &ConsumeArgs,
    consumer: impl Fn(&TablePrefix) -> Consumer<D>,
    mut counted: impl AsyncFnMut() -> Result<(i64, i64), Failure>,
) -> Result<Rounds, Failure> {
    let prefix: TablePrefix = PREFIX.parse()?;
    rounds(args, "events_per_second", async |number| {
        let payload = vec![b'x'; args.size as usize];
        let event = |_| Publish::raw("bench.event", payload.clone());
        let took = drain(args, consumer(&prefix), event).await?;
        let expected = i64::try_from(args.events * u64::from(number + 1)).unwrap_or(i64::MAX);
        Ok(Round { took, exactly_once: counted().await? == (expected, expected) })
    })
    .await
}
