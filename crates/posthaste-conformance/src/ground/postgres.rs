//! Postgres.

use posthaste::BoxFuture;
use posthaste::prefix::TablePrefix;
use posthaste::table::{Profile, postgres_table_ddl};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use super::{Ground, Held, Owners, Rows, hex};
use crate::Stop;

pub(super) struct Postgres {
    url: String,
    client: Client,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self, Stop> {
        Ok(Self { url: url.to_owned(), client: connect(url).await? })
    }
}

async fn connect(url: &str) -> Result<Client, Stop> {
    // The URL may hold a password, so it is not shown.
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(told)?;
    #[expect(clippy::disallowed_methods, reason = "the driver's connection ends when its client is dropped")]
    tokio::spawn(async {
        // What went wrong is told to whoever uses the client.
        let _ = connection.await;
    });
    Ok(client)
}

fn told(error: tokio_postgres::Error) -> Stop {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    Stop(format!("the database said: {said}"))
}

const OWNERS: Owners = Owners {
    id: "id uuid PRIMARY KEY DEFAULT gen_random_uuid()",
    text: "text",
    bytes: "bytea",
    time: "timestamptz",
};

struct HeldClient(Client);

impl HeldClient {
    async fn end(self, word: &str) -> Result<(), Stop> {
        self.0.batch_execute(word).await.map_err(told)
    }
}

impl Held for HeldClient {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(self.end("COMMIT"))
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(self.end("ROLLBACK"))
    }
}

impl Ground for Postgres {
    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move { self.client.batch_execute(sql).await.map_err(told) })
    }

    fn rows<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Stop>> {
        Box::pin(async move {
            let answered = self.client.simple_query(sql).await.map_err(told)?;
            let row = |message| match message {
                SimpleQueryMessage::Row(row) => {
                    Some((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect())
                }
                _ => None,
            };
            Ok(answered.into_iter().filter_map(row).collect())
        })
    }

    fn hold<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Stop>> {
        Box::pin(async move {
            let client = connect(&self.url).await?;
            client.batch_execute(&format!("BEGIN; {sql}")).await.map_err(told)?;
            Ok(Box::new(HeldClient(client)) as Box<dyn Held>)
        })
    }

    fn table(&self, profile: &Profile) -> String {
        format!("{}{}", OWNERS.part(profile), postgres_table_ddl(profile))
    }

    fn audit(&self, prefix: &TablePrefix) -> String {
        posthaste::table::postgres_audit_ddl(prefix)
    }

    fn counting(&self) -> &'static str {
        "bigserial PRIMARY KEY"
    }

    fn triggers(&self, table: &str, moves: &str, update: &str, delete: &str) -> String {
        format!(
            "CREATE FUNCTION {table}_note() RETURNS trigger LANGUAGE plpgsql AS $note$ BEGIN
                 IF TG_OP = 'UPDATE' THEN INSERT INTO {moves} VALUES (DEFAULT, {update});
                 ELSE INSERT INTO {moves} VALUES (DEFAULT, {delete}); END IF;
                 RETURN NULL;
             END $note$;
             CREATE TRIGGER note AFTER UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_note();"
        )
    }

    fn remove_triggers(&self, table: &str) -> String {
        format!("DROP FUNCTION IF EXISTS {table}_note();")
    }

    fn moment(&self, from_now_ms: i64) -> String {
        format!("clock_timestamp() + {from_now_ms} * interval '1 millisecond'")
    }

    fn now_ms(&self) -> &'static str {
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
    }

    fn ms_until(&self, time: &str) -> String {
        format!("(extract(epoch FROM {time} - clock_timestamp()) * 1000)::bigint")
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        format!("'\\x{}'::bytea", hex(bytes))
    }

    fn same(&self, one: &str, other: &str) -> String {
        format!("({one} IS NOT DISTINCT FROM {other})::int")
    }

    fn text(&self, value: &str) -> String {
        format!("({value})::text")
    }

    fn lock(&self, table: &str, condition: &str) -> String {
        format!("SELECT 1 FROM {table} WHERE {condition} FOR UPDATE")
    }

    fn end_waiting(&self, table: &str) -> String {
        format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock' AND position('{table}' IN query) > 0"
        )
    }

    fn has_one_writer(&self) -> bool {
        false
    }
}
