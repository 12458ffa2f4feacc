//! The table engine on Postgres under the laws, in a database of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, open_table};
use posthaste::table::postgres_audit_ddl;
use posthaste::time::{Clock, Moment, Timestamp};
use posthaste::{BoxFuture, Result};
use posthaste_testkit::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::postgres::{CLOCK, RIGS, away, blocking, connect};
use super::table::{exempt, options};

const OWN_SIGNAL: &str = "two opened stores have a signal each, and hear of each other by polling";

const MAKE: &str = "
    CREATE TABLE law_outbox (
        event_id text PRIMARY KEY, event_type text NOT NULL, payload bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(), status text NOT NULL DEFAULT 'PENDING', attempts int NOT NULL DEFAULT 0,
        available_at timestamptz NOT NULL DEFAULT now(), locked_by text, locked_at timestamptz,
        topic text, partition_key text, headers jsonb NOT NULL DEFAULT '{}', source text, subject text, content_type text,
        version int NOT NULL DEFAULT 1, occurred_at timestamptz, delivered_at timestamptz,
        updated_at timestamptz NOT NULL DEFAULT now(), last_error text, sequence bigint GENERATED ALWAYS AS IDENTITY,
        CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
        -- The row invariants of the specification, at every moment.
        CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')), CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
        CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED')));
    CREATE INDEX ON law_outbox (available_at, created_at) WHERE status = 'PENDING';
    CREATE INDEX ON law_outbox (locked_at) WHERE status = 'DELIVERING';
    CREATE INDEX ON law_outbox (partition_key, created_at) WHERE status IN ('PENDING', 'DELIVERING');";

pub(crate) struct TablePostgresRigs;

impl RigMaker for TablePostgresRigs {
    fn name(&self) -> &'static str {
        "table-postgres"
    }

    fn missing(&self) -> Option<String> {
        RIGS[0].missing()
    }

    fn exempt(&self, law: &str) -> Option<&'static str> {
        exempt(law)
    }

    fn leases_rows(&self) -> bool {
        true
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>> {
        Box::pin(open_table(url, options(), StoreOptions::default()))
    }

    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>> {
        let server = RIGS[0].server().unwrap_or_default();
        Box::pin(async move { Ok(Arc::new(TableRig::new(&server, clock).await?) as Arc<dyn Rig>) })
    }
}

/// A database that goes with it.
struct TableRig {
    server: String,
    name: String,
    clock: AnyClock,
}

impl TableRig {
    async fn new(server: &str, clock: RigClock) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("table_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let maker = connect(server).await?;
        maker.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.map_err(away)?;
        maker.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.map_err(away)?;
        let rig = Self { server: server.to_owned(), name, clock: AnyClock::new(clock) };
        if clock == RigClock::Manual {
            let path = format!("ALTER DATABASE {} SET search_path = public, pg_catalog", rig.name);
            maker.batch_execute(&path).await.map_err(away)?;
            connect(&rig.address()).await?.batch_execute(CLOCK).await.map_err(away)?;
            rig.tell_time().await?;
        }
        let audit = postgres_audit_ddl(&TablePrefix::default());
        connect(&rig.address()).await?.batch_execute(&format!("{MAKE};\n{audit}")).await.map_err(away)?;
        Ok(rig)
    }

    fn address(&self) -> String {
        let base = self.server.rsplit_once('/').map_or(self.server.as_str(), |(base, _)| base);
        format!("{base}/{}", self.name)
    }

    async fn tell_time(&self) -> Result<()> {
        let now = self.clock.now().as_micros();
        let tell = format!("UPDATE public.law_clock SET micros = {now}");
        connect(&self.address()).await?.batch_execute(&tell).await.map_err(away)
    }
}

impl Rig for TableRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Ok(()), wake_across: Err(OWN_SIGNAL) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        Box::pin(async move { open_table(&self.address(), options(), StoreOptions::default()).await })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.address())
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>> {
        Box::pin(async move {
            let client = connect(&self.address()).await?;
            client.batch_execute("BEGIN").await.map_err(away)?;
            Ok(Box::new(Begun { client, now: self.clock.now() }) as Box<dyn RigTx>)
        })
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
        blocking(self.tell_time()).expect("the scope's clock can be moved");
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Drop for TableRig {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // What is left behind goes with the private server; a failure here must not hide a law's.
        let _ = blocking(async move {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            connect(&server).await?.batch_execute(&drop).await.map_err(away)
        });
    }
}

/// A producer's transaction on a connection of its own, which ends with it.
struct Begun {
    client: Client,
    now: Timestamp,
}

impl Begun {
    async fn say(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(away)
    }

    /// As any language does it: plain SQL.
    async fn insert(&self, event: Envelope) -> Result<()> {
        let wait = match event.available {
            Some(Moment::In(span)) => span.as_secs_f64(),
            Some(Moment::At(at)) => at.since(self.now).as_secs_f64(),
            None => 0.0,
        };
        let text =
            "INSERT INTO law_outbox (event_id, event_type, payload, topic, partition_key, available_at)
            VALUES ($1, $2, $3, $4, $5, now() + $6 * interval '1 second')";
        self.client
            .execute_typed(
                text,
                &[
                    (&event.id, Type::TEXT),
                    (&event.event_type, Type::TEXT),
                    (&event.payload, Type::BYTEA),
                    (&event.topic, Type::TEXT),
                    (&event.key, Type::TEXT),
                    (&wait, Type::FLOAT8),
                ],
            )
            .await
            .map(drop)
            .map_err(away)
    }
}

impl RigTx for Begun {
    fn publish(&mut self, event: Envelope) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.insert(event))
    }

    fn savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.say("SAVEPOINT law"))
    }

    fn rollback_to_savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.say("ROLLBACK TO SAVEPOINT law"))
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.say("COMMIT").await })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.say("ROLLBACK").await })
    }
}
