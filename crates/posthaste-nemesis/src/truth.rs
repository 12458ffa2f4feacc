//! What was committed, in the words of the producers' own tables.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::Result;
use crate::engine::Engine;
use crate::producer::APPLICATION;

const TABLES: &str = "
    CREATE TABLE nemesis_aggregates (key text PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
    INSERT INTO nemesis_aggregates SELECT 'key-' || g, 0 FROM generate_series(0, 99) g;
    CREATE TABLE nemesis_truth (id text PRIMARY KEY, tx text NOT NULL, event_type text NOT NULL, topic text NOT NULL,
        key text, n bigint NOT NULL);";

/// One committed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    pub(crate) id: String,
    pub(crate) tx: String,
    pub(crate) event_type: String,
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) n: i64,
}

/// A connection past all proxies and poolers.
pub(crate) struct Direct {
    pub(crate) client: Client,
    _tasks: JoinSet<()>,
}

impl Direct {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { drop(connection.await) });
        Ok(Self { client, _tasks: tasks })
    }

    pub(crate) async fn make_tables(&self) -> Result<()> {
        self.client.batch_execute(TABLES).await?;
        Ok(self.client.batch_execute(crate::consumer::TABLE).await?)
    }

    /// Ends every connection but this one.
    pub(crate) async fn terminate_others(&self) -> Result<()> {
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        Ok(self.client.batch_execute(others).await?)
    }

    /// Waits until no producer's transaction is left, and ends prepared ones: some are committed, some rolled back.
    pub(crate) async fn end_transactions(&self, rng: &mut fastrand::Rng, within: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
            let text = tokio_postgres::types::Type::TEXT;
            let row = self.client.query_typed_one(left, &[(&APPLICATION, text)]).await?;
            if row.try_get::<_, i64>(0)? == 0 {
                break;
            }
            if begun.elapsed() > within {
                return Err(format!("producers' connections are still there after {within:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for row in self.client.query_typed("SELECT gid FROM pg_prepared_xacts ORDER BY gid", &[]).await? {
            let verb = if rng.bool() { "COMMIT" } else { "ROLLBACK" };
            self.client.batch_execute(&format!("{verb} PREPARED '{}'", row.try_get::<_, &str>(0)?)).await?;
        }
        Ok(())
    }

    /// Everything that was committed, in the order of each key.
    pub(crate) async fn truth(&self) -> Result<Vec<Truth>> {
        let all = "SELECT id, tx, event_type, topic, key, n FROM nemesis_truth ORDER BY key, n, id";
        let rows = self.client.query_typed(all, &[]).await?;
        let read = rows.iter().map(|row| {
            Ok(Truth {
                id: row.try_get(0)?,
                tx: row.try_get(1)?,
                event_type: row.try_get(2)?,
                topic: row.try_get(3)?,
                key: row.try_get(4)?,
                n: row.try_get(5)?,
            })
        });
        read.collect()
    }

    pub(crate) async fn count(&self) -> Result<i64> {
        Ok(self.client.query_typed_one("SELECT count(*) FROM nemesis_truth", &[]).await?.try_get(0)?)
    }

    /// How many events each lane has not passed, and how many are parked and not dead. Exact, unlike what an operator is
    /// shown, which must not cost a scan.
    pub(crate) async fn pending(&self, engine: Engine) -> Result<i64> {
        if engine == Engine::Table {
            let open = "SELECT count(*) FROM nemesis_outbox WHERE status IN ('PENDING', 'DELIVERING')";
            return Ok(self.client.query_typed_one(open, &[]).await?.try_get(0)?);
        }
        let pending = "SELECT coalesce(sum(l.waiting), 0)::bigint + (SELECT count(*) FROM posthaste_events e, posthaste_lanes l \
                JOIN posthaste_ticks a ON a.id = l.tick_a LEFT JOIN posthaste_ticks b ON b.id = l.tick_b \
                WHERE NOT pg_visible_in_snapshot(e.xid, a.snap) \
                  AND (b.id IS NULL OR e.seq > l.position OR NOT pg_visible_in_snapshot(e.xid, b.snap))) \
            FROM posthaste_lanes l";
        Ok(self.client.query_typed_one(pending, &[]).await?.try_get(0)?)
    }

    /// The dead events of each lane.
    pub(crate) async fn dead(&self, engine: Engine) -> Result<HashMap<String, Vec<String>>> {
        let of_table =
            "SELECT 'main'::text, event_id FROM nemesis_outbox WHERE status = 'DEAD' ORDER BY event_id";
        let of_log = "SELECT p.lane, e.event_id FROM posthaste_parked p JOIN posthaste_events e USING (seq) \
                    WHERE p.state = 'dead' ORDER BY e.event_id";
        let dead = if engine == Engine::Table { of_table } else { of_log };
        let mut lanes = HashMap::<String, Vec<String>>::new();
        for row in self.client.query_typed(dead, &[]).await? {
            lanes.entry(row.try_get(0)?).or_default().push(row.try_get(1)?);
        }
        Ok(lanes)
    }
}
