//! Outbox tables on MariaDB and MySQL.
//!
//! * A claim is a transaction of three statements (`claim.rs`). In order per key, claims follow a named lock.
//! * Outcomes go by kind, one statement each, in one transaction where there are several (`settle.rs`).
//! * A connection on which something was asked and not answered is closed and never used again (`pool.rs`):
//!   the driver's own pool would hand it on, with a transaction that may be open.
//! * What a dropped claim may have taken is handed back after the server has ended its connection (`KILL`).

mod admin;
mod check;
mod claim;
mod count;
mod dedup;
mod error;
mod pool;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::envelope::Envelope;
use posthaste_core::findings::{Finding, asked};
use posthaste_core::lane::LaneSpec;
use posthaste_core::publisher::Published;
use posthaste_core::review::{AuditEntry, AuditPicker, Audited};
use posthaste_core::signal::Signal;
use posthaste_core::sql::MysqlSql;
use posthaste_core::table::{
    AuditSql, Column, MysqlTableSql, Present, Profile, Shape, mysql_lacking_ddl, mysql_table_ddl,
};
use posthaste_core::time::Timestamp;

pub(in crate::store) use self::dedup::MysqlDedup;
use self::error::{Db, explain, told};
use self::pool::{Connection, Connections};
use super::table::count::Counted;
use super::table::cursor::{Left, Sorted};
use super::table::driver::{Ask, Driver, Question, Seen, Sweep, Swept, Terminal, Wish};
use super::table::engine::Table;
use super::table::examine::ASK_WITHIN;
use super::table::ledger::Ledger;
use super::table::ring;
use super::table::row::RawRow;
use crate::store::{StoreOptions, TableOptions};

/// An outbox table of somebody else in a MariaDB or MySQL database.
pub(in crate::store) type MysqlTable = Table<Mysql>;

/// A MariaDB or MySQL server.
pub(in crate::store) struct Mysql {
    connections: Connections,
    consumers: MysqlSql,
    audit: AuditSql,
}

/// Opens the database at this URL; nothing is connected before it is needed, and nothing is ever made there.
///
/// # Errors
/// `Config` for a URL that cannot be used, and for a profile that makes no sense.
pub(in crate::store) fn open(url: &str, table: TableOptions, options: StoreOptions) -> Result<MysqlTable> {
    let connections = Connections::open(url, &options)?;
    let consumers = MysqlSql::new(&options.prefix);
    let audit = AuditSql::mysql(&options.prefix);
    Table::new(Mysql { connections, consumers, audit }, table, options)
}

/// How often a transaction is tried that the server ended for the sake of another one.
const TRIES_MAX: u32 = 5;

/// Counts the tries of one transaction.
#[derive(Default)]
struct Tries(u32);

impl Tries {
    /// Whether what failed like this should be tried again. Its transaction is undone first.
    async fn again(&mut self, error: &sqlx::Error, on: &mut Connection) -> bool {
        on.undo().await;
        self.0 += 1;
        error::is_deadlock(error) && self.0 < TRIES_MAX && on.is_usable()
    }
}

/// Runs a transaction on a connection, again if it lost a deadlock; answers what the server says about a table that is not ours.
macro_rules! tried {
    ($sql:expr, $connection:expr, $once:expr) => {
        tried!($sql, $connection, $once, super::error::told)
    };
    ($sql:expr, $connection:expr, $once:expr, $told:expr) => {{
        let mut tries = super::Tries::default();
        loop {
            match $once.await {
                Ok(answer) => break Ok(answer),
                Err(error) if tries.again(&error, $connection).await => {}
                Err(error) => break Err($told(error, $sql)),
            }
        }
    }};
}
use tried;

impl Driver for Mysql {
    type Sql = MysqlTableSql;
    /// The connection on which claims are made.
    type Kept = Option<Connection>;

    fn shape(sql: &MysqlTableSql) -> &Shape {
        sql.shape()
    }

    fn insert_columns(sql: &MysqlTableSql) -> &[Column] {
        &sql.insert_columns
    }

    async fn look(&self, profile: &Profile) -> Result<MysqlTableSql> {
        let mut connection = self.connections.get().await?;
        let (shape, indexes) = check::check(&mut connection, profile).await?;
        Ok(MysqlTableSql::new(shape, indexes))
    }

    async fn present(&self, profile: &Profile) -> Result<Option<Present>> {
        check::present(&mut self.connections.get().await?, profile).await
    }

    fn ddl(profile: &Profile, present: Option<&Present>) -> String {
        match present {
            Some(present) => mysql_lacking_ddl(profile, present),
            None => mysql_table_ddl(profile),
        }
    }

    async fn warn(&self, sql: &MysqlTableSql, lane: &LaneSpec) -> Result<()> {
        let mut connection = self.connections.get().await?;
        check::warn(&mut connection, sql.shape(), lane).await.map_err(|error| told(error, sql))
    }

    async fn examine(&self, sql: &MysqlTableSql, lanes: &[LaneSpec]) -> Vec<Finding> {
        asked("indexes and settings", ASK_WITHIN, async {
            let mut connection = self.connections.get().await?;
            check::findings(&mut connection, sql.shape(), lanes).await.map_err(|error| told(error, sql))
        })
        .await
    }

    async fn claim(&self, sql: &MysqlTableSql, ask: Ask<'_>, kept: &mut Self::Kept) -> Result<Vec<RawRow>> {
        // One that was dropped half-way is closed; what it may have taken is known by its token.
        if kept.as_ref().is_none_or(|connection| !connection.is_usable()) {
            claim::end(&self.connections, kept).await?;
            *kept = Some(self.connections.get().await?);
        }
        let connection = kept.as_mut().expect("it was just put there");
        claim::claim(connection, sql, ask).await
    }

    async fn due(&self, sql: &MysqlTableSql, ask: Ask<'_>) -> Result<Option<String>> {
        let due = claim::due(&mut self.connections.get().await?, sql, ask).await;
        due.map_err(|error| told(error, sql))
    }

    async fn record(&self, sql: &MysqlTableSql, sorted: &Arc<Sorted>) -> Result<(u64, u64)> {
        settle::record(&mut self.connections.get().await?, sql, sorted).await
    }

    async fn hand_back(&self, sql: &MysqlTableSql, left: Left, kept: &mut Self::Kept) -> Result<()> {
        if !left.unsure.is_empty() {
            claim::end(&self.connections, kept).await?;
        }
        *kept = None;
        settle::hand_back(&mut self.connections.get().await?, sql, &left).await
    }

    async fn sweep(&self, sql: &MysqlTableSql, sweep: Sweep) -> Result<Swept> {
        settle::sweep(&mut self.connections.get().await?, sql, sweep).await
    }

    async fn expired(&self, sql: &MysqlTableSql, sweep: Sweep) -> Result<Option<String>> {
        let expired = settle::expired(&mut self.connections.get().await?, sql, sweep).await;
        expired.map_err(|error| told(error, sql))
    }

    async fn count(&self, sql: &MysqlTableSql) -> Result<Counted> {
        let counted = count::count(&mut self.connections.get().await?, sql).await;
        counted.map_err(|error| told(error, sql))
    }

    async fn find(&self, sql: &MysqlTableSql, question: &Question) -> Result<Vec<Seen>> {
        let found = admin::find(&mut self.connections.get().await?, sql, question).await;
        found.map_err(|error| told(error, sql))
    }

    async fn matched(&self, sql: &MysqlTableSql, question: &Question) -> Result<(u64, Timestamp)> {
        let matched = admin::matched(&mut self.connections.get().await?, sql, question).await;
        matched.map_err(|error| told(error, sql))
    }

    async fn change(
        &self,
        sql: &MysqlTableSql,
        question: &Question,
        wish: &Wish,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let mut connection = self.connections.get().await?;
        admin::change(&mut connection, (sql, &self.audit), question, wish, ledger).await
    }

    async fn count_old(&self, sql: &MysqlTableSql, what: Terminal, age: Duration) -> Result<u64> {
        let counted = admin::count_old(&mut self.connections.get().await?, sql, what, age).await;
        counted.map_err(|error| told(error, sql))
    }

    async fn prune(
        &self,
        sql: &MysqlTableSql,
        what: Terminal,
        age: Duration,
        rows: u32,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let mut connection = self.connections.get().await?;
        admin::prune(&mut connection, (sql, &self.audit), (what, age), rows, ledger).await
    }

    async fn record_table(&self) -> Result<Option<String>> {
        admin::record_table(&mut self.connections.get().await?, &self.audit).await.map_err(explain)
    }

    async fn write_record(&self, entry: AuditEntry) -> Result<()> {
        admin::write_record(&mut self.connections.get().await?, &self.audit, &entry).await.map_err(explain)
    }

    async fn read_record(&self, mut picker: AuditPicker) -> Result<Audited> {
        admin::pick(&mut self.connections.get().await?, &self.audit, &mut picker).await.map_err(explain)?;
        Ok(picker.picked())
    }

    async fn prune_memory(&self, age: Duration, remove: Option<u32>) -> Result<Option<u64>> {
        let mut connection = self.connections.get().await?;
        dedup::prune_memory(&mut connection, &self.consumers, age, remove).await.map(Some)
    }

    async fn insert(
        &self,
        sql: &MysqlTableSql,
        events: Vec<Envelope>,
        bell: &Signal,
    ) -> Result<Vec<Published>> {
        let mut connection = self.connections.get().await?;
        let published = match settle::insert(&mut connection, sql, &events).await {
            // The server ended it: for the sake of another transaction, or because this process stood still.
            Err(error) if error.retryable() && connection.is_rolled_back() => {
                drop(connection);
                settle::insert(&mut self.connections.get().await?, sql, &events).await
            }
            answer => answer,
        }?;
        ring(bell, &published);
        Ok(published)
    }
}

/// A column of a row, of which the statement says what it is.
fn get<'r, T>(row: &'r sqlx::mysql::MySqlRow, column: usize) -> Db<T>
where
    T: sqlx::Decode<'r, sqlx::MySql>,
{
    sqlx::Row::try_get_unchecked(row, column)
}
