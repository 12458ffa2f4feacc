//! Relaying a foreign outbox table, against the same two UPDATEs in a bare loop.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use posthaste::lane::Order;
use posthaste::relay::{Lane, Relay};
use posthaste::schema::Backend;
use posthaste::store::{Store, StoreOptions, TableOptions, open_table};
use posthaste::table::{Profile, postgres_table_ddl};
use posthaste::target::Target;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::json;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::Costs;
use super::meter::Meter;
use super::tables::{Tables, checkpoint, connect, failed};
use crate::bed::{self, Bed};
use crate::figures::{Round, Summary, hundredths};
use crate::relay::{drain_lane, scheme};
use crate::timed::Timed;
use crate::{Ids, RelayArgs};

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

/// With a broker's URL, to something of the bench's own in that broker.
pub(super) async fn measure(
    args: &RelayArgs,
    tables: &Tables,
    target: Arc<dyn Target>,
) -> Result<Summary, Failure> {
    if !bed::is_for(&args.to) {
        return rounds(args, tables, target, None).await;
    }
    let bed = bed::make(&args.to, args.queue).await?;
    let summary = match posthaste::target::open(bed.url()) {
        Ok(target) => rounds(args, tables, target, Some(&*bed)).await,
        Err(error) => Err(error.into()),
    };
    let removed = bed.remove().await;
    let summary = summary?;
    removed?;
    Ok(summary)
}

async fn rounds(
    args: &RelayArgs,
    tables: &Tables,
    target: Arc<dyn Target>,
    bed: Option<&dyn Bed>,
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
    let bar = output::bar("rounds", u64::from(args.rounds));
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
            let lane = lane(args, &target, order)?;
            let (events, took) = drain_lane(Arc::clone(&timed) as Arc<dyn Store>, lane).await?;
            let round = Round { side, events, took };
            costs.add(&round, &meter.read().await?.since(&before), timed.take());
            rounds.push(round);
            if let Some(bed) = bed {
                bed.empty().await?;
            }
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
    if let Some(bed) = bed {
        facts.push(("window", json!(args.window)));
        facts.extend(bed.facts());
    }
    if let Some(backlog) = args.backlog {
        let (shallow, bare_shallow) = claims_at(SHALLOW, tables, &store, &target, args).await?;
        let (deep, bare_deep) = claims_at(backlog, tables, &store, &target, args).await?;
        facts.extend([
            ("backlog", json!(backlog)),
            ("claim_ms_at_backlog", json!(deep)),
            ("claim_ms_at_100_thousand", json!(shallow)),
            ("claim_at_backlog_ratio", json!(hundredths(deep / shallow.max(0.001)))),
            ("bare_claim_ms_at_backlog", json!(hundredths(bare_deep))),
            ("bare_claim_ms_at_100_thousand", json!(hundredths(bare_shallow))),
            ("bare_claim_at_backlog_ratio", json!(hundredths(bare_deep / bare_shallow.max(0.001)))),
        ]);
    }
    Ok(Summary { bench: "relay", sides: ["relay", "raw"], rounds, facts })
}

/// The median claim while so many rows wait, and that of a bare loop on the rows that are left: both stop after a few.
async fn claims_at(
    rows: u64,
    tables: &Tables,
    store: &Arc<dyn Backend>,
    target: &Arc<dyn Target>,
    args: &RelayArgs,
) -> Result<(f64, f64), Failure> {
    refill(&tables.client, args, rows).await?;
    let timed = Arc::new(Timed::new(Arc::clone(store) as Arc<dyn Store>));
    let lane = lane(args, target, Order::None)?;
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
    let bare = Bare::begin(&args.store).await?.claims(CLAIMS / 2).await?;
    Ok((timed.take().medians().0, bare))
}

/// Every round begins with the same rows.
async fn refill(client: &Client, args: &RelayArgs, events: u64) -> Result<(), Failure> {
    let key = match args.keys {
        0 => "NULL".to_owned(),
        keys => format!("'key-' || n % {keys}"),
    };
    let id = match args.ids {
        Ids::Random => "gen_random_uuid()",
        // A millisecond has a thousand rows, as their times have.
        Ids::ByTime => {
            "(lpad(to_hex(1700000000000 + n / 1000), 12, '0') || '7' || lpad(to_hex(n % 1000), 3, '0') || 'a' \
             || substr(md5(n::text), 1, 15))::uuid"
        }
    };
    let fill = format!(
        "TRUNCATE {TABLE}; INSERT INTO {TABLE} (event_id, event_type, partition_key, payload, created_at, available_at)
         SELECT {id}, 'bench.event', {key}, convert_to(rpad('\"', {} - 1, 'x') || '\"', 'UTF8'),
                now() - interval '1 hour' + n * interval '1 microsecond', now() - interval '1 hour' + n * interval '1 microsecond'
         FROM generate_series(1, {}) n",
        args.size.max(3),
        events
    );
    client.batch_execute(&fill).await.map_err(failed("fill the bench's table"))?;
    client
        .batch_execute(&format!("VACUUM ANALYZE {TABLE}"))
        .await
        .map_err(failed("tidy the bench's table"))?;
    checkpoint(client).await;
    Ok(())
}

/// Two UPDATEs, one after the other, and nothing in between.
async fn bare(url: &str) -> Result<Round, Failure> {
    let (mut bare, mut events, start) = (Bare::begin(url).await?, 0, Instant::now());
    loop {
        let claimed = bare.claim().await?;
        if claimed.is_empty() {
            return Ok(Round { side: "raw", events, took: start.elapsed() });
        }
        events += bare.settle(&claimed).await?;
    }
}

/// The bare loop's connection, and the place where its last claim ended.
struct Bare {
    client: Client,
    token: String,
    place: SystemTime,
}

impl Bare {
    async fn begin(url: &str) -> Result<Self, Failure> {
        let token = posthaste::envelope::fresh_id();
        Ok(Self { client: connect(url).await?, token, place: SystemTime::UNIX_EPOCH })
    }

    /// The ids of the next rows.
    async fn claim(&mut self) -> Result<Vec<String>, Failure> {
        // Planned with its values, as a list of ids that the planner does not know is searched from its beginning for every row.
        let values: [Value<'_>; 3] =
            [(&self.token, Type::TEXT), (&BATCH, Type::INT8), (&self.place, Type::TIMESTAMPTZ)];
        let rows = self.client.query_typed(CLAIM, &values).await.map_err(failed("claim"))?;
        let latest = rows.iter().map(|row| row.get::<_, SystemTime>(6)).max();
        self.place = latest.unwrap_or(self.place);
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn settle(&self, ids: &[String]) -> Result<u64, Failure> {
        let ids = ids.to_vec();
        let values: [Value<'_>; 2] = [(&ids, Type::TEXT_ARRAY), (&self.token, Type::TEXT)];
        self.client.execute_typed(SETTLE, &values).await.map_err(failed("settle"))
    }

    /// The median of so many claims in milliseconds.
    async fn claims(mut self, count: usize) -> Result<f64, Failure> {
        let mut took = Vec::new();
        for _ in 0..count {
            let start = Instant::now();
            let claimed = self.claim().await?;
            took.push(start.elapsed().as_secs_f64() * 1_000.0);
            self.settle(&claimed).await?;
        }
        Ok(super::median(took))
    }
}

fn lane(args: &RelayArgs, target: &Arc<dyn Target>, order: Order) -> Result<Lane, Failure> {
    Ok(Lane::named("main")?.to(Arc::clone(target)).order(order).window(args.window))
}
