//! The bench's tables: made in a database that has none of that prefix, and removed at the end.

use posthaste_terminal::exit::{Code, Failure};
use tokio_postgres::{Client, NoTls};

/// What the names of everything that the bench makes begin with.
pub(crate) const PREFIX: &str = "bench_";

/// Everything in the current schema whose name begins with the prefix.
const FOUND: &str = "SELECT count(*) FROM pg_class \
    WHERE relnamespace = current_schema()::regnamespace AND starts_with(relname, 'bench_') AND relkind IN ('r', 'p', 'S', 'v')";

/// Nothing of that prefix was there before, so all of it is the bench's own.
const REMOVE: &str = "DO $$ DECLARE thing record; BEGIN
    FOR thing IN SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND starts_with(relname, 'bench_') AND relkind IN ('r', 'p')
    LOOP EXECUTE format('DROP TABLE IF EXISTS %s CASCADE', thing.name); END LOOP;
    FOR thing IN SELECT oid::regprocedure AS name FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'bench_')
    LOOP EXECUTE format('DROP ROUTINE IF EXISTS %s CASCADE', thing.name); END LOOP;
    FOR thing IN SELECT oid::regclass AS name FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND starts_with(relname, 'bench_') AND relkind = 'S'
    LOOP EXECUTE format('DROP SEQUENCE IF EXISTS %s CASCADE', thing.name); END LOOP;
END $$";

pub(crate) struct Tables {
    /// A connection without the store's pool: for the raw reader, and for what must not be measured.
    pub(crate) client: Client,
}

impl Tables {
    /// Looks that the database has no such tables; the store makes them.
    pub(crate) async fn make(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        let found: i64 = client.query_one(FOUND, &[]).await.map_err(failed("look for tables"))?.get(0);
        if found > 0 {
            return Err(Failure::usage(format!(
                "the database has {found} tables or sequences that begin with {PREFIX}; the bench makes and removes such \
                 tables, so drop them or name another database"
            )));
        }
        Ok(Self { client })
    }

    /// Lets the server do now what it would do beside the first rounds: filling the log has left it work in proportion to the log.
    pub(crate) async fn settle_down(&self) -> Result<(), Failure> {
        self.client.batch_execute("VACUUM (ANALYZE) bench_events").await.map_err(failed("vacuum the log"))?;
        checkpoint(&self.client).await;
        Ok(())
    }

    pub(crate) async fn remove(&self) -> Result<(), Failure> {
        self.client.batch_execute(REMOVE).await.map_err(failed("remove the bench's tables"))
    }
}

/// Lets the server write now what it would write beside the next round.
pub(crate) async fn checkpoint(client: &Client) {
    // Whoever has not the right to order one has to live with the next that comes by itself.
    let _ = client.batch_execute("CHECKPOINT").await;
}

/// A connection of the bench's own, without TLS.
pub(crate) async fn connect(url: &str) -> Result<Client, Failure> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    // The URL may hold a password, so it is not shown.
    let (client, connection) = connected.map_err(failed("connect to the store"))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the driver's connection ends when its client is dropped, at the end of the bench"
    )]
    tokio::spawn(async {
        // What went wrong is told to whoever uses the client.
        let _ = connection.await;
    });
    Ok(client)
}

/// Says what could not be done.
pub(crate) fn failed(doing: &'static str) -> impl FnOnce(tokio_postgres::Error) -> Failure {
    move |error| {
        let said = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
        Failure::new(Code::Store, format!("{doing}: {said}"))
    }
}
