//! The Postgres store under the laws, in a database of its own: directly, and through a pooler in transaction mode.
//!
//! Directly, stores and producers have no more rights than the roles of `posthaste migrate print --roles` give them. The
//! pooler of the tests makes everybody a superuser.
//!
//! The database's clock cannot be moved, so a scope with a manual clock has functions of its own that tell the time; its
//! search path puts them before the system's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::outbox::Outbox;
use posthaste::prefix::TablePrefix;
use posthaste::publish::Publish;
use posthaste::schema::Backend;
use posthaste::sql::Dialect;
use posthaste::store::{StoreOptions, open_with};
use posthaste::time::{Clock, Timestamp};
use posthaste::{BoxFuture, Error, Result};
use posthaste_testkit::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls};

const OWN_SIGNAL: &str = "two opened stores have a signal each, and hear of each other by polling";

/// Postgres itself, and Postgres behind PgBouncer.
pub(crate) const RIGS: [PostgresRigs; 2] = [
    PostgresRigs { name: "postgres", variable: "POSTHASTE_TEST_POSTGRES" },
    PostgresRigs { name: "postgres-pooled", variable: "POSTHASTE_TEST_PGBOUNCER" },
];

pub(crate) struct PostgresRigs {
    name: &'static str,
    variable: &'static str,
}

impl PostgresRigs {
    #[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
    pub(crate) fn server(&self) -> Option<String> {
        std::env::var(self.variable).ok().filter(|url| !url.is_empty())
    }
}

impl RigMaker for PostgresRigs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn missing(&self) -> Option<String> {
        self.server().is_none().then(|| format!("{} is not set", self.variable))
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>> {
        Box::pin(posthaste::store::open(url))
    }

    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>> {
        let server = self.server().unwrap_or_default();
        let users = (self.name == "postgres").then_some(USERS);
        Box::pin(async move { Ok(Arc::new(PostgresRig::new(&server, clock, users).await?) as Arc<dyn Rig>) })
    }
}

/// A database that goes with it.
struct PostgresRig {
    /// The server's own database, from which the scope is made and dropped.
    server: String,
    name: String,
    clock: AnyClock,
    /// The users of stores and of producers; `None`: the server's own.
    users: Option<[&'static str; 2]>,
}

/// A server that relays and publishes, and a program that publishes. They belong to the whole server, and whoever comes
/// first makes them.
const USERS: [&str; 2] = ["law_server", "law_producer"];
const MAKE_USERS: &str = "
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'law_producer') THEN
            CREATE ROLE law_server LOGIN;
            CREATE ROLE law_producer LOGIN;
            GRANT posthaste_relay, posthaste_publish TO law_server;
            GRANT posthaste_publish TO law_producer;
        END IF;
    END $$;";

impl PostgresRig {
    async fn new(server: &str, clock: RigClock, users: Option<[&'static str; 2]>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("law_{}_{count}", std::process::id());
        let maker = connect(server).await?;
        maker.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.map_err(away)?;
        maker.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.map_err(away)?;
        let rig = Self { server: server.to_owned(), name, clock: AnyClock::new(clock), users };
        if clock == RigClock::Manual {
            let path = format!("ALTER DATABASE {} SET search_path = public, pg_catalog", rig.name);
            maker.batch_execute(&path).await.map_err(away)?;
            connect(&rig.address()).await?.batch_execute(CLOCK).await.map_err(away)?;
            rig.tell_time().await?;
        }
        open_with(&rig.address(), StoreOptions::default()).await?.migrate().await?;
        if users.is_some() {
            rig.give_rights().await?;
        }
        Ok(rig)
    }

    async fn give_rights(&self) -> Result<()> {
        let roles = posthaste_core::sql::postgres_roles(&TablePrefix::default());
        let all = format!("{roles} {MAKE_USERS}");
        // One after the other, as roles belong to the whole server; a lock belongs to a database, so it is taken in the one
        // that all share.
        let shared = connect(&self.server).await?;
        shared.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7070)").await.map_err(away)?;
        connect(&self.address()).await?.batch_execute(&all).await.map_err(away)?;
        shared.batch_execute("COMMIT").await.map_err(away)
    }

    /// The scope's address for one of its users.
    fn address_of(&self, user: usize) -> String {
        match (self.users, self.address().split_once('@')) {
            (Some(users), Some((_, host))) => format!("postgres://{}@{host}", users[user]),
            _ => self.address(),
        }
    }

    /// Where the scope is: the server's address with another database.
    fn address(&self) -> String {
        let base = self.server.rsplit_once('/').map_or(self.server.as_str(), |(base, _)| base);
        format!("{base}/{}", self.name)
    }

    async fn tell_time(&self) -> Result<()> {
        let client = connect(&self.address()).await?;
        let now = self.clock.now().as_micros();
        client.batch_execute(&format!("UPDATE public.law_clock SET micros = {now}")).await.map_err(away)
    }
}

/// Functions that tell the time of a table, in place of the system's.
pub(crate) const CLOCK: &str = "
    CREATE TABLE public.law_clock (micros bigint NOT NULL);
    INSERT INTO public.law_clock VALUES (0);
    GRANT SELECT ON public.law_clock TO PUBLIC;
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS
        $$ SELECT 'epoch'::timestamptz + micros * interval '1 microsecond' FROM public.law_clock $$;
    CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS
        $$ SELECT 'epoch'::timestamptz + micros * interval '1 microsecond' FROM public.law_clock $$;";

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let config: Config = url.parse().map_err(away)?;
    let (client, connection) = config.connect(NoTls).await.map_err(away)?;
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

impl Rig for PostgresRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Ok(()), wake_across: Err(OWN_SIGNAL) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        Box::pin(async move { open_with(&self.address_of(0), StoreOptions::default()).await })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Ok(self.address_of(0))
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>> {
        Box::pin(async move {
            let client = connect(&self.address_of(1)).await?;
            client.batch_execute("BEGIN").await.map_err(away)?;
            Ok(Box::new(Begun { client }) as Box<dyn RigTx>)
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

impl Drop for PostgresRig {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // What is left behind goes with the private server; a failure here must not hide a law's.
        let _ = blocking(async move {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            connect(&server).await?.batch_execute(&drop).await.map_err(away)
        });
    }
}

/// Runs this on a thread of its own, as the laws' clock is moved by a call that is not async.
pub(crate) fn blocking(work: impl Future<Output = Result<()>> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(away)?;
            runtime.block_on(work)
        });
        done.join().expect("the work does not panic")
    })
}

pub(crate) fn away(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unavailable("a law's own connection failed").because(error)
}

/// A producer's transaction on a connection of its own, which ends with it.
struct Begun {
    client: Client,
}

impl Begun {
    async fn say(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(away)
    }

    async fn insert(&self, event: Envelope) -> Result<()> {
        let statement = Outbox::new("").statement(Dialect::Postgres, Publish::from(event))?;
        let values: Vec<(&(dyn ToSql + Sync), Type)> = statement
            .values
            .iter()
            .map(|value| -> (&(dyn ToSql + Sync), Type) {
                match value {
                    posthaste::sql::Value::Int(int) => (int, Type::INT8),
                    posthaste::sql::Value::Text(text) => (text, Type::TEXT),
                    posthaste::sql::Value::Bytes(bytes) => (bytes, Type::BYTEA),
                    _ => (&None::<i64>, Type::INT8),
                }
            })
            .collect();
        self.client.execute_typed(&statement.sql, &values).await.map(drop).map_err(away)
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
