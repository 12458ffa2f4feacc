//! What was committed, in the words of the producers' own tables.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::Result;
use crate::base::{Base, PRODUCERS, Wire};
use crate::engine::Engine;

const TABLES: &str = "
    CREATE TABLE nemesis_aggregates (\"key\" varchar(50) PRIMARY KEY, n bigint NOT NULL);
    CREATE TABLE nemesis_truth (id varchar(50) PRIMARY KEY, tx varchar(50) NOT NULL, event_type varchar(50) NOT NULL,
        topic varchar(50) NOT NULL, \"key\" varchar(50), n bigint NOT NULL);";
/// How many keys there can be.
const KEYS_MAX: u32 = 100;

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
    pub(crate) wire: Wire,
}

impl Direct {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self { wire: Wire::connect(url, false).await? })
    }

    pub(crate) async fn make_tables(&self) -> Result<()> {
        let base = self.wire.base();
        let keys = base.series(KEYS_MAX);
        let fill = format!("INSERT INTO nemesis_aggregates SELECT 'key-' || g, 0 FROM {keys}");
        self.wire.say(&format!("{TABLES} {fill}")).await?;
        match base {
            Base::Postgres => {
                self.wire.say("ALTER TABLE nemesis_aggregates SET (fillfactor = 50)").await?;
                self.wire.say(crate::consumer::TABLE).await
            }
            Base::Mariadb => {
                self.wire
                    .say(&format!("CREATE USER {PRODUCERS}; GRANT ALL ON posthaste.* TO {PRODUCERS}"))
                    .await
            }
        }
    }

    /// Ends every connection but this one.
    pub(crate) async fn terminate_others(&self) -> Result<()> {
        match self.wire.base() {
            Base::Postgres => {
                let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                              WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
                self.wire.say(others).await
            }
            Base::Mariadb => {
                for id in self.others().await? {
                    // It may have ended by itself.
                    let _ = self.wire.say(&format!("KILL {id}")).await;
                }
                Ok(())
            }
        }
    }

    /// Ends one connection, where a server's clients have no processes of their own.
    pub(crate) async fn terminate_one(&self, rng: &mut fastrand::Rng) -> Result<()> {
        let others = self.others().await?;
        match rng.choice(&others) {
            Some(id) => self.wire.say(&format!("KILL {id}")).await,
            None => Ok(()),
        }
    }

    /// The connections of relays and producers on MariaDB.
    async fn others(&self) -> Result<Vec<String>> {
        let others = "SELECT id FROM information_schema.processlist \
                      WHERE id <> connection_id() AND user IN ('posthaste', 'producer') ORDER BY id";
        Ok(self.wire.rows(others).await?.into_iter().flatten().flatten().collect())
    }

    /// Waits until no producer's transaction is left, and ends prepared ones: some are committed, some rolled back.
    pub(crate) async fn end_transactions(&self, rng: &mut fastrand::Rng, within: Duration) -> Result<()> {
        let left = match self.wire.base() {
            Base::Postgres => {
                format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{PRODUCERS}'")
            }
            Base::Mariadb => {
                format!("SELECT count(*) FROM information_schema.processlist WHERE user = '{PRODUCERS}'")
            }
        };
        let begun = Instant::now();
        while self.wire.number(&left).await? > 0 {
            if begun.elapsed() > within {
                return Err(format!("producers' connections are still there after {within:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if self.wire.base() == Base::Mariadb {
            return Ok(());
        }
        let prepared = self.wire.rows("SELECT gid FROM pg_prepared_xacts ORDER BY gid").await?;
        for gid in prepared.into_iter().flatten().flatten() {
            let verb = if rng.bool() { "COMMIT" } else { "ROLLBACK" };
            self.wire.say(&format!("{verb} PREPARED '{gid}'")).await?;
        }
        Ok(())
    }

    /// Everything that was committed, in the order of each key.
    pub(crate) async fn truth(&self) -> Result<Vec<Truth>> {
        let all = "SELECT id, tx, event_type, topic, \"key\", n FROM nemesis_truth ORDER BY \"key\", n, id";
        let read = self.wire.rows(all).await?.into_iter().map(|row| {
            let row: [Option<String>; 6] =
                row.try_into().map_err(|row| format!("not six columns: {row:?}"))?;
            let [id, tx, event_type, topic, key, n] = row;
            let there = |value: Option<String>| value.ok_or("a column of the truth is null");
            Ok(Truth {
                id: there(id)?,
                tx: there(tx)?,
                event_type: there(event_type)?,
                topic: there(topic)?,
                key,
                n: there(n)?.parse()?,
            })
        });
        read.collect()
    }

    pub(crate) async fn count(&self) -> Result<i64> {
        self.wire.number("SELECT count(*) FROM nemesis_truth").await
    }

    /// How many events each lane has not passed, and how many are parked and not dead. Exact, unlike what an operator is
    /// shown, which must not cost a scan.
    pub(crate) async fn pending(&self, engine: Engine) -> Result<i64> {
        let of_table = "SELECT count(*) FROM nemesis_outbox WHERE status IN ('PENDING', 'DELIVERING')";
        let of_log = "SELECT coalesce(sum(l.waiting), 0)::bigint + (SELECT count(*) FROM posthaste_events e, posthaste_lanes l \
                JOIN posthaste_ticks a ON a.id = l.tick_a LEFT JOIN posthaste_ticks b ON b.id = l.tick_b \
                WHERE NOT pg_visible_in_snapshot(e.xid, a.snap) \
                  AND (b.id IS NULL OR e.seq > l.position OR NOT pg_visible_in_snapshot(e.xid, b.snap))) \
            FROM posthaste_lanes l";
        self.wire.number(if engine == Engine::Table { of_table } else { of_log }).await
    }

    /// The dead events of each lane.
    pub(crate) async fn dead(&self, engine: Engine) -> Result<HashMap<String, Vec<String>>> {
        let of_table = "SELECT 'main', event_id FROM nemesis_outbox WHERE status = 'DEAD'";
        let of_log = "SELECT p.lane, e.event_id FROM posthaste_parked p JOIN posthaste_events e USING (seq) \
                    WHERE p.state = 'dead'";
        let dead = if engine == Engine::Table { of_table } else { of_log };
        let mut lanes = HashMap::<String, Vec<String>>::new();
        for row in self.wire.rows(dead).await? {
            let [Some(lane), Some(id)] = &row[..] else { return Err("a dead event has no name".into()) };
            lanes.entry(lane.clone()).or_default().push(id.clone());
        }
        // As Rust sorts, whatever the database's collation is.
        lanes.values_mut().for_each(|ids| ids.sort());
        Ok(lanes)
    }
}
