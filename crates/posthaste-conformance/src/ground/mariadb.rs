//! MariaDB.

use posthaste::BoxFuture;
use posthaste::prefix::TablePrefix;
use posthaste::table::{Profile, mysql_table_ddl};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use tokio::sync::Mutex;

use super::{Ground, Held, Owners, Rows, hex};
use crate::Stop;

/// As a relay of ours has it: names in double quotes, times in UTC, no locks on gaps.
const HELLO: &str = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES', time_zone = '+00:00'; \
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

const OWNERS: Owners = Owners {
    id: "id char(36) PRIMARY KEY DEFAULT (uuid())",
    text: "varchar(255)",
    bytes: "longblob",
    time: "datetime(6)",
};

pub(super) struct Mariadb {
    url: String,
    connection: Mutex<MySqlConnection>,
}

impl Mariadb {
    /// `None` for a URL of another kind.
    pub(super) async fn open(url: &str) -> Option<Result<Self, Stop>> {
        let rest = url.strip_prefix("mariadb://").or_else(|| url.strip_prefix("mysql://"))?;
        let url = format!("mysql://{rest}");
        Some(connect(&url).await.map(|connection| Self { url, connection: Mutex::new(connection) }))
    }
}

async fn connect(url: &str) -> Result<MySqlConnection, Stop> {
    let mut connection = MySqlConnection::connect(url).await.map_err(told)?;
    execute(&mut connection, HELLO).await?;
    Ok(connection)
}

fn told(error: sqlx::Error) -> Stop {
    // The URL may hold a password, so nothing but the server's own words is shown.
    let said = error.as_database_error().map_or_else(|| error.to_string(), |db| db.message().to_owned());
    Stop(format!("the database said: {said}"))
}

async fn execute(connection: &mut MySqlConnection, sql: &str) -> Result<(), Stop> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop).map_err(told)
}

/// In the protocol of plain text every value is what one would read on a terminal.
fn as_text(row: &MySqlRow) -> Result<Vec<Option<String>>, sqlx::Error> {
    let value = |n: usize| {
        let bytes = row.try_get_unchecked::<Option<Vec<u8>>, _>(n)?;
        Ok(bytes.map(|bytes| String::from_utf8(bytes).unwrap_or_else(|error| hex(error.as_bytes()))))
    };
    (0..row.len()).map(value).collect()
}

struct HeldConnection(MySqlConnection);

impl HeldConnection {
    async fn end(mut self, word: &str) -> Result<(), Stop> {
        execute(&mut self.0, word).await
    }
}

impl Held for HeldConnection {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(self.end("COMMIT"))
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>> {
        Box::pin(self.end("ROLLBACK"))
    }
}

impl Ground for Mariadb {
    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move { execute(&mut *self.connection.lock().await, sql).await })
    }

    fn rows<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Stop>> {
        Box::pin(async move {
            let mut connection = self.connection.lock().await;
            let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *connection).await.map_err(told)?;
            rows.iter().map(as_text).collect::<Result<_, _>>().map_err(told)
        })
    }

    fn hold<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Stop>> {
        Box::pin(async move {
            let mut connection = connect(&self.url).await?;
            execute(&mut connection, &format!("START TRANSACTION; {sql}")).await?;
            Ok(Box::new(HeldConnection(connection)) as Box<dyn Held>)
        })
    }

    fn table(&self, profile: &Profile) -> String {
        format!("{}{}", OWNERS.part(profile), mysql_table_ddl(profile))
    }

    fn audit(&self, prefix: &TablePrefix) -> String {
        posthaste::table::mysql_audit_ddl(prefix)
    }

    fn counting(&self) -> &'static str {
        "bigint AUTO_INCREMENT PRIMARY KEY"
    }

    fn triggers(&self, table: &str, moves: &str, update: &str, delete: &str) -> String {
        let trigger = |name: &str, on: &str, values: &str| {
            format!(
                "CREATE TRIGGER {table}_{name} AFTER {on} ON {table} FOR EACH ROW INSERT INTO {moves} VALUES (NULL, {values});"
            )
        };
        trigger("note", "UPDATE", update) + &trigger("gone", "DELETE", delete)
    }

    fn remove_triggers(&self, _: &str) -> String {
        // They go with their table.
        String::new()
    }

    fn moment(&self, from_now_ms: i64) -> String {
        format!("sysdate(6) + INTERVAL {} MICROSECOND", from_now_ms * 1_000)
    }

    fn now_ms(&self) -> &'static str {
        "CAST(unix_timestamp(sysdate(6)) * 1000 AS signed)"
    }

    fn ms_until(&self, time: &str) -> String {
        format!("timestampdiff(MICROSECOND, sysdate(6), {time}) DIV 1000")
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        format!("x'{}'", hex(bytes))
    }

    fn same(&self, one: &str, other: &str) -> String {
        format!("({one} <=> {other})")
    }

    fn text(&self, value: &str) -> String {
        format!("CAST({value} AS char)")
    }

    fn lock(&self, table: &str, condition: &str) -> String {
        format!("SELECT 1 FROM {table} WHERE {condition} FOR UPDATE")
    }

    fn end_waiting(&self, table: &str) -> String {
        format!(
            "BEGIN NOT ATOMIC
                 DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;
                 FOR waiting IN (SELECT id FROM information_schema.processlist
                                 WHERE id <> connection_id() AND position('{table}' IN info) > 0)
                 DO EXECUTE IMMEDIATE concat('KILL ', waiting.id); END FOR;
             END"
        )
    }

    fn has_one_writer(&self) -> bool {
        false
    }
}
