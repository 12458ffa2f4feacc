//! The table engine on MariaDB under the laws, in a database of its own.
//!
//! A connection can be told the time there: a store with a manual clock tells it before each statement, and so does a producer.

use std::sync::Arc;
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::prefix::TablePrefix;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, open_table};
use posthaste::table::mysql_audit_ddl;
use posthaste::time::{Clock, Moment, Timestamp};
use posthaste::{BoxFuture, Result};
use posthaste_testkit::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};
use sqlx::MySqlConnection;

use super::mariadb::{Scope, away, connect, missing, say, server};
use super::table::{exempt, options};

const OWN_SIGNAL: &str = "two opened stores have a signal each, and hear of each other by polling";

pub(crate) const MAKE: &str = "
    CREATE TABLE law_outbox (
        event_id varchar(255) PRIMARY KEY, event_type varchar(255) NOT NULL, payload longblob NOT NULL,
        created_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)), status varchar(16) NOT NULL DEFAULT 'PENDING',
        attempts int NOT NULL DEFAULT 0, available_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)),
        locked_by varchar(255), locked_at datetime(6), topic varchar(255), partition_key varchar(1024),
        headers json NOT NULL DEFAULT '{}', source varchar(1024), subject varchar(1024), content_type varchar(255),
        version int NOT NULL DEFAULT 1, occurred_at datetime(6), delivered_at datetime(6),
        updated_at datetime(6) NOT NULL DEFAULT (utc_timestamp(6)), last_error text, sequence bigint NOT NULL AUTO_INCREMENT UNIQUE,
        CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
        -- The row invariants of the specification, at every moment.
        CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')), CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
        CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED')),
        KEY pickup (status, available_at, created_at, sequence), KEY stuck (status, locked_at),
        KEY by_key (partition_key(255), created_at))
        ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

pub(crate) struct TableMariadbRigs;

impl RigMaker for TableMariadbRigs {
    fn name(&self) -> &'static str {
        "table-mariadb"
    }

    fn missing(&self) -> Option<String> {
        missing()
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
        let server = server().unwrap_or_default();
        Box::pin(async move {
            let scope = Scope::new(&server).await?;
            say(&mut connect(&scope.url()).await?, MAKE).await?;
            let audit = mysql_audit_ddl(&TablePrefix::default());
            say(&mut connect(&scope.url()).await?, &audit).await?;
            Ok(Arc::new(TableRig { scope, clock: AnyClock::new(clock) }) as Arc<dyn Rig>)
        })
    }
}

struct TableRig {
    scope: Scope,
    clock: AnyClock,
}

impl Rig for TableRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Ok(()), wake_across: Err(OWN_SIGNAL) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        let mut how = StoreOptions::default();
        how.clock = Arc::new(self.clock.clone());
        Box::pin(async move { open_table(&self.scope.url(), options(), how).await })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.scope.url())
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>> {
        Box::pin(async move {
            let mut connection = connect(&self.scope.url()).await?;
            say(&mut connection, "START TRANSACTION").await?;
            Ok(Box::new(Begun { connection, clock: self.clock.clone() }) as Box<dyn RigTx>)
        })
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// A producer's transaction on a connection of its own, which ends with it.
struct Begun {
    connection: MySqlConnection,
    clock: AnyClock,
}

impl Begun {
    /// As any language does it: plain SQL.
    async fn insert(&mut self, event: Envelope) -> Result<()> {
        let now = self.clock.now();
        if !self.clock.is_host() {
            let micros = now.as_micros();
            let tell = format!("SET timestamp = {}.{:06}", micros / 1_000_000, micros % 1_000_000);
            say(&mut self.connection, &tell).await?;
        }
        let wait = match event.available {
            Some(Moment::In(span)) => span,
            Some(Moment::At(at)) => at.since(now),
            None => Duration::ZERO,
        };
        let text =
            "INSERT INTO law_outbox (event_id, event_type, payload, topic, partition_key, available_at)
            VALUES (?, ?, ?, ?, ?, utc_timestamp(6) + INTERVAL ? MICROSECOND)";
        sqlx::query(text)
            .bind(event.id)
            .bind(event.event_type)
            .bind(event.payload)
            .bind(event.topic)
            .bind(event.key)
            .bind(i64::try_from(wait.as_micros()).unwrap_or(i64::MAX))
            .execute(&mut self.connection)
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
        Box::pin(say(&mut self.connection, "SAVEPOINT law"))
    }

    fn rollback_to_savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(say(&mut self.connection, "ROLLBACK TO SAVEPOINT law"))
    }

    fn commit(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { say(&mut self.connection, "COMMIT").await })
    }

    fn rollback(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { say(&mut self.connection, "ROLLBACK").await })
    }
}
