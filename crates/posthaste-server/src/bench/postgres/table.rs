//! Relaying a foreign outbox table, against the same two UPDATEs in a bare loop.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use posthaste::lane::Order;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::{Store, StoreOptions, TableOptions, open_table};
use posthaste::table::{Profile, postgres_table_ddl};
use posthaste::target::Target;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::Costs;
use super::meter::Meter;
use super::tables::{Tables, connect, failed};
use crate::bench::RelayArgs;
use crate::bench::figures::{Round, Summary, hundredths, progress};
use crate::bench::relay::scheme;
use crate::bench::timed::Timed;
use crate::exit::Failure;

/// A value of a statement, with its type.
type Value<'a> = (&'a (dyn ToSql + Sync), Type);

const TABLE: &str = "bench_outbox";
const BATCH: i64 = 1_000;
/// What claims of a deep backlog are compared with.
const SHALLOW: u64 = 100_000;
/// So many are timed, about half of what such a backlog has.
const CLAIMS: usize = 50;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What a careful author of a relay would write: it begins at the place where the last claim ended ($3), or it would read
/// over everything that it has delivered in this run, and finds its rows by their address.
const CLAIM: &str = "WITH picked AS MATERIALIZED (
        SELECT ctid FROM bench_outbox WHERE status = 'PENDING' AND available_at <= now() AND available_at >= $3
        ORDER BY available_at, created_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    UPDATE bench_outbox t SET status = 'DELIVERING', locked_by = $1, locked_at = now(), updated_at = now()
    WHERE t.ctid = ANY (ARRAY(SELECT ctid FROM picked)) AND t.status = 'PENDING'
    RETURNING t.event_id::text, t.event_type, t.partition_key, t.headers::text, t.payload, t.attempts, t.available_at";
const SETTLE: &str =
    "UPDATE bench_outbox SET status = 'DELIVERED', delivered_at = now(), locked_by = NULL, locked_at = NULL,
        updated_at = now()
    WHERE event_id = ANY ($1::text[]::uuid[]) AND locked_by = $2 AND status = 'DELIVERING'";

pub(super) async fn measure(
    args: &RelayArgs,
    tables: &Tables,
    target: Arc<dyn Target>,
) -> Result<Summary, Failure> {
    let profile = Profile::open_outbox().on(TABLE.parse()?);
    tables
        .client
        .batch_execute(&postgres_table_ddl(&profile))
        .await
        .map_err(failed("make the bench's table"))?;
    let store = open_table(&args.store, TableOptions::new(profile), StoreOptions::default()).await?;
    let meter = Meter::connect(&args.store).await?;
    let (mut rounds, mut raw) = (Vec::new(), Vec::new());
    let (mut free, mut ordered) = (Costs::default(), Costs::default());
    let bar = progress("rounds", u64::from(args.rounds));
    for _ in 0..args.rounds {
        refill(&tables.client, args, args.events).await?;
        let round = bare(&args.store).await?;
        raw.push(round.rate());
        rounds.push(round);
        for (side, order, costs) in
            [("relay", Order::None, &mut free), ("ordered", Order::PerKey, &mut ordered)]
        {
            refill(&tables.client, args, args.events).await?;
            let timed = Arc::new(Timed::new(Arc::clone(&store) as Arc<dyn Store>));
            let before = meter.read().await?;
            let round = relay(side, Arc::clone(&timed) as Arc<dyn Store>, &target, order).await?;
            costs.add(&round, &meter.read().await?.since(&before), timed.take());
            rounds.push(round);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let raw = super::median(raw);
    let mut facts = vec![
        ("bare_updates_per_second", json!(raw.round())),
        ("of_bare_updates", json!(hundredths(free.rate() / raw.max(1.0)))),
        ("ordered_per_second", json!(ordered.rate().round())),
        ("ordered_of_unordered", json!(hundredths(ordered.rate() / free.rate().max(1.0)))),
        ("wal_bytes_per_event", json!(hundredths(super::median(free.wal.clone())))),
        ("db_cpu_us_per_event", free.cpu_fact(&meter)),
        ("store", json!("postgres")),
        ("engine", json!("table")),
        ("server", json!(meter.version)),
        ("to", json!(scheme(&args.to))),
        ("events", json!(args.events)),
        ("size", json!(args.size)),
        ("keys", json!(args.keys)),
    ];
    facts.extend(free.times.facts());
    if let Some(backlog) = args.backlog {
        let shallow = claims_at(SHALLOW, tables, &store, &target, args).await?;
        let deep = claims_at(backlog, tables, &store, &target, args).await?;
        facts.extend([
            ("backlog", json!(backlog)),
            ("claim_ms_at_backlog", json!(deep)),
            ("claim_ms_at_100_thousand", json!(shallow)),
            ("claim_at_backlog_ratio", json!(hundredths(deep / shallow.max(0.001)))),
        ]);
    }
    Ok(Summary { bench: "relay", sides: ["relay", "raw"], rounds, facts })
}

/// The median claim while so many rows wait: the relay is stopped after a few of them.
async fn claims_at(
    rows: u64,
    tables: &Tables,
    store: &Arc<dyn Backend>,
    target: &Arc<dyn Target>,
    args: &RelayArgs,
) -> Result<f64, Failure> {
    refill(&tables.client, args, rows).await?;
    let timed = Arc::new(Timed::new(Arc::clone(store) as Arc<dyn Store>));
    let lane = Lane::named("main")?.to(Arc::clone(target)).order(Order::None);
    let relay = Relay::new(Arc::clone(&timed) as Arc<dyn Store>).lane(lane);
    let enough = {
        let timed = Arc::clone(&timed);
        async move {
            while timed.claims() < CLAIMS {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    relay.run(enough).await?;
    Ok(timed.take().medians().0)
}

/// Every round begins with the same rows.
async fn refill(client: &Client, args: &RelayArgs, events: u64) -> Result<(), Failure> {
    let key = match args.keys {
        0 => "NULL".to_owned(),
        keys => format!("'key-' || n % {keys}"),
    };
    let fill = format!(
        "TRUNCATE {TABLE}; INSERT INTO {TABLE} (event_id, event_type, partition_key, payload, created_at, available_at)
         SELECT gen_random_uuid(), 'bench.event', {key}, convert_to(rpad('\"', {} - 1, 'x') || '\"', 'UTF8'),
                now() - interval '1 hour' + n * interval '1 microsecond', now() - interval '1 hour' + n * interval '1 microsecond'
         FROM generate_series(1, {}) n",
        args.size.max(3),
        events
    );
    client.batch_execute(&fill).await.map_err(failed("fill the bench's table"))?;
    client.batch_execute(&format!("VACUUM ANALYZE {TABLE}")).await.map_err(failed("tidy the bench's table"))
}

/// Two UPDATEs, one after the other, and nothing in between.
async fn bare(url: &str) -> Result<Round, Failure> {
    let client = connect(url).await?;
    let (mut events, mut place, start) = (0, SystemTime::UNIX_EPOCH, Instant::now());
    let token = posthaste::envelope::fresh_id();
    loop {
        // Planned with its values, as a list of ids that the planner does not know is searched from its beginning for every row.
        let values: [Value<'_>; 3] =
            [(&token, Type::TEXT), (&BATCH, Type::INT8), (&place, Type::TIMESTAMPTZ)];
        let rows = client.query_typed(CLAIM, &values).await.map_err(failed("claim"))?;
        let Some(latest) = rows.iter().map(|row| row.get::<_, SystemTime>(6)).max() else {
            return Ok(Round { side: "raw", events, took: start.elapsed() });
        };
        place = latest;
        let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let values: [Value<'_>; 2] = [(&ids, Type::TEXT_ARRAY), (&token, Type::TEXT)];
        events += client.execute_typed(SETTLE, &values).await.map_err(failed("settle"))?;
    }
}

async fn relay(
    side: &'static str,
    store: Arc<dyn Store>,
    target: &Arc<dyn Target>,
    order: Order,
) -> Result<Round, Failure> {
    let relay = Relay::new(store).lane(Lane::named("main")?.to(Arc::clone(target)).order(order));
    // A task, as a running relay's lanes are.
    let (mut task, start) = (JoinSet::new(), Instant::now());
    task.spawn(async move { relay.once().await });
    let ended = task.join_next().await.ok_or_else(|| Failure::other("the relay did not start"))?;
    let report = ended.map_err(|error| Failure::other(error.to_string()))??;
    Ok(Round { side, events: report.delivered, took: start.elapsed() })
}
