//! The database that is given, as the kit sees it: SQL in, text out. A dialect is one file beside this one.

#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use posthaste::BoxFuture;
use posthaste::prefix::TablePrefix;
use posthaste::table::Profile;

use super::Stop;

/// Rows as text, whatever their types.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// A database, and how its dialect says what the kit needs.
pub(super) trait Ground: Send + Sync {
    /// Runs statements, each in a transaction of its own.
    fn run<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<(), Stop>>;
    /// The rows of a query.
    fn rows<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Stop>>;
    /// Opens a transaction on a connection of its own, runs this in it, and holds it.
    fn hold<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Box<dyn Held>, Stop>>;

    /// The statements that make a table of this profile.
    fn table(&self, profile: &Profile) -> String;
    /// The statement that makes a table for the record of commands.
    fn audit(&self, prefix: &TablePrefix) -> String;
    /// A column that numbers its rows as they come.
    fn counting(&self) -> &'static str;
    /// The statements that make the triggers: after an update these values go to `moves`, after a delete those.
    fn triggers(&self, table: &str, moves: &str, update: &str, delete: &str) -> String;
    /// The statements that remove what `triggers` left beside the table.
    fn remove_triggers(&self, table: &str) -> String;
    /// Now and so many milliseconds.
    fn moment(&self, from_now_ms: i64) -> String;
    /// The time as a number of milliseconds.
    fn now_ms(&self) -> &'static str;
    /// How many milliseconds it is from now until a time.
    fn ms_until(&self, time: &str) -> String;
    /// These bytes.
    fn bytes(&self, bytes: &[u8]) -> String;
    /// Whether two values are the same, also where both are nothing: 1 or 0.
    fn same(&self, one: &str, other: &str) -> String;
    /// A value as text.
    fn text(&self, value: &str) -> String;
    /// The statement that locks rows in a held transaction.
    fn lock(&self, table: &str, condition: &str) -> String;
    /// The statement that ends what somebody who is gone still has in the server, waiting for a lock on this table.
    fn end_waiting(&self, table: &str) -> String;
    /// Whether a held transaction keeps everybody else from writing anything.
    fn has_one_writer(&self) -> bool;
}

/// A transaction that is held.
pub(super) trait Held: Send {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>>;
    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<(), Stop>>;
}

/// Connects to the database at this URL.
pub(super) async fn open(url: &str) -> Result<Box<dyn Ground>, Stop> {
    #[cfg(feature = "sqlite")]
    if let Some(ground) = sqlite::Sqlite::open(url) {
        return ground.map(|ground| Box::new(ground) as Box<dyn Ground>);
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Box::new(postgres::Postgres::open(url).await?));
    }
    #[cfg(feature = "mysql")]
    if let Some(ground) = mariadb::Mariadb::open(url).await {
        return ground.map(|ground| Box::new(ground) as Box<dyn Ground>);
    }
    let scheme = url.split(':').next().unwrap_or_default();
    Err(Stop(format!(
        "this build cannot check a database of the kind {scheme:?}; it knows postgres, mariadb and sqlite"
    )))
}

/// A value between quotes.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// How a dialect writes the tables of profiles that do not say how far a row is.
#[cfg(any(feature = "postgres", feature = "mysql"))]
struct Owners {
    id: &'static str,
    text: &'static str,
    bytes: &'static str,
    time: &'static str,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl Owners {
    /// What their owners have, before what the profile adds.
    fn part(&self, profile: &Profile) -> String {
        let Self { id, text, bytes, time } = self;
        let columns = match profile.name() {
            "axcom" => format!(
                "topic {text} NOT NULL, payload {bytes} NOT NULL, source {text}, version integer NOT NULL DEFAULT 1,
                 trace_id {text}, correlation_id {text}, published_at {time} NULL"
            ),
            "debezium" => format!(
                "aggregatetype {text} NOT NULL, aggregateid {text} NOT NULL, type {text} NOT NULL, payload {bytes} NOT NULL"
            ),
            _ => return String::new(),
        };
        let table = profile.table.quoted();
        format!("CREATE TABLE {table} ({id}, {columns}, created_at {time} NOT NULL DEFAULT now());\n")
    }
}

/// Bytes as hexadecimal digits.
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
