//! Outbox tables on Postgres.
//!
//! * A claim is one statement that picks, leases and reads (`claim.rs`); in order per key it follows a lock, so that claims in
//!   order come one after another.
//! * Outcomes go by kind, one statement each, in one transaction where there are several (`settle.rs`).
//! * Leases that have ended are taken back in statements of bounded size (`settle.rs`).
//! * The table is looked at when a lane is acquired (`check.rs`): what is missing is said with its column or GRANT.
//!
//! Claims of one lease have a connection of their own: should a claim be dropped half-way, the server may still carry it out,
//! and what is sent on the same connection afterwards comes after it. So a relay that stops hands back what such a claim took.

mod admin;
mod check;
mod claim;
mod count;
mod examine;
mod publish;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::findings::Finding;
use posthaste_core::lane::LaneSpec;
use posthaste_core::publisher::Published;
use posthaste_core::review::{AuditEntry, AuditPicker, Audited};
use posthaste_core::signal::Signal;
use posthaste_core::table::{
    AuditSql, Column, PostgresTableSql, Present, Profile, Shape, postgres_lacking_ddl, postgres_table_ddl,
};
use posthaste_core::time::Timestamp;
use posthaste_core::{Error, Result};

use super::admin::review::pick;
use super::error::explain;
use super::pool::{Connection, Connections};
use crate::store::table::count::Counted;
use crate::store::table::cursor::{Left, Sorted};
use crate::store::table::driver::{Ask, Driver, Question, Seen, Sweep, Swept, Terminal, Wish};
use crate::store::table::engine::Table;
use crate::store::table::ledger::Ledger;
use crate::store::table::refusal::is_refusal;
use crate::store::table::ring;
use crate::store::table::row::RawRow;
use crate::store::{StoreOptions, TableOptions};

/// An outbox table of somebody else in a Postgres database.
pub(in crate::store) type PostgresTable = Table<Postgres>;

/// A Postgres server.
pub(in crate::store) struct Postgres {
    connections: Connections,
    audit: AuditSql,
}

/// Opens the database at this URL; nothing is connected before it is needed, and nothing is ever made there.
///
/// # Errors
/// `Config` for a URL that cannot be used, and for a profile that makes no sense.
pub(in crate::store) fn open(url: &str, table: TableOptions, options: StoreOptions) -> Result<PostgresTable> {
    let connections = Connections::open(url, &options)?;
    let audit = AuditSql::postgres(&options.prefix);
    Table::new(Postgres { connections, audit }, table, options)
}

/// Asks on a connection, unless the server leaves a question without any answer for too long.
macro_rules! asked {
    ($connections:expr, |$on:ident| $work:expr) => {
        $connections
            .watched(async {
                let $on = &mut $connections.get().await?;
                $work.await
            })
            .await
    };
    ($connections:expr, $sql:expr, |$on:ident| $work:expr) => {
        asked!($connections, |$on| async { $work.await.map_err(|error| told(error, $sql)) })
    };
}

/// Looks on a connection, as `asked` does. Whoever looks may lose patience: then the server is asked to end it.
macro_rules! looked {
    ($connections:expr, |$on:ident| $work:expr) => {
        asked!($connections, |$on| async {
            $on.begin_look();
            let answer = $work.await;
            $on.end_look();
            answer
        })
    };
    ($connections:expr, $sql:expr, |$on:ident| $work:expr) => {
        looked!($connections, |$on| async { $work.await.map_err(|error| told(error, $sql)) })
    };
}

impl Driver for Postgres {
    type Sql = PostgresTableSql;
    /// The connection on which claims are made.
    type Kept = Option<Connection>;

    fn shape(sql: &PostgresTableSql) -> &Shape {
        sql.shape()
    }

    fn insert_columns(sql: &PostgresTableSql) -> &[Column] {
        &sql.insert_columns
    }

    async fn look(&self, profile: &Profile) -> Result<PostgresTableSql> {
        let (shape, has_order_index) = asked!(self.connections, |on| check::check(on, profile))?;
        Ok(PostgresTableSql::new(shape, has_order_index))
    }

    async fn present(&self, profile: &Profile) -> Result<Option<Present>> {
        asked!(self.connections, |on| async { check::present(on, profile).await.map_err(explain) })
    }

    fn ddl(profile: &Profile, present: Option<&Present>) -> String {
        match present {
            Some(present) => postgres_lacking_ddl(profile, present),
            None => postgres_table_ddl(profile),
        }
    }

    async fn warn(&self, sql: &PostgresTableSql, lane: &LaneSpec) -> Result<()> {
        check::warn_of_order(sql, lane);
        Ok(())
    }

    async fn examine(&self, sql: &PostgresTableSql, lanes: &[LaneSpec]) -> Vec<Finding> {
        examine::examine(&self.connections, sql, lanes).await
    }

    async fn claim(
        &self,
        sql: &PostgresTableSql,
        ask: Ask<'_>,
        kept: &mut Self::Kept,
    ) -> Result<Vec<RawRow>> {
        let claim = async {
            if kept.is_none() {
                *kept = Some(self.connections.get().await?);
            }
            let claimed = claim::claim(kept.as_mut().expect("it was just put there"), sql, ask).await;
            if claimed.as_ref().is_err_and(|error| !is_refusal(error)) {
                // It may be cut; the next claim takes another.
                *kept = None;
            }
            claimed
        };
        self.connections.watched(claim).await
    }

    async fn due(&self, sql: &PostgresTableSql, ask: Ask<'_>) -> Result<Option<String>> {
        asked!(self.connections, sql, |on| claim::due(on, sql, ask))
    }

    async fn record(&self, sql: &PostgresTableSql, sorted: &Arc<Sorted>) -> Result<(u64, u64)> {
        asked!(self.connections, |on| settle::record(on, sql, sorted))
    }

    async fn hand_back(&self, sql: &PostgresTableSql, left: Left, kept: &mut Self::Kept) -> Result<()> {
        asked!(self.connections, |on| async {
            // Taken: if this is dropped half-way, the connection is closed, and the next try goes without it.
            let mut claims = kept.take();
            let handed_back = settle::hand_back(on, &mut claims, sql, &left).await;
            if handed_back.as_ref().err().is_none_or(is_refusal) {
                *kept = claims;
            }
            handed_back
        })
    }

    async fn sweep(&self, sql: &PostgresTableSql, sweep: Sweep) -> Result<Swept> {
        asked!(self.connections, |on| settle::sweep(on, sql, sweep))
    }

    async fn expired(&self, sql: &PostgresTableSql, sweep: Sweep) -> Result<Option<String>> {
        asked!(self.connections, sql, |on| settle::expired(on, sql, sweep))
    }

    async fn count(&self, sql: &PostgresTableSql) -> Result<Counted> {
        looked!(self.connections, |on| count::count(on, sql))
    }

    async fn find(&self, sql: &PostgresTableSql, question: &Question) -> Result<Vec<Seen>> {
        looked!(self.connections, sql, |on| admin::find(on, sql, question))
    }

    async fn matched(&self, sql: &PostgresTableSql, question: &Question) -> Result<(u64, Timestamp)> {
        looked!(self.connections, sql, |on| admin::matched(on, sql, question))
    }

    async fn change(
        &self,
        sql: &PostgresTableSql,
        question: &Question,
        wish: &Wish,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let with = (sql, &self.audit);
        asked!(self.connections, |on| admin::change(on, with, question, wish, ledger))
    }

    async fn count_old(&self, sql: &PostgresTableSql, what: Terminal, age: Duration) -> Result<u64> {
        looked!(self.connections, sql, |on| admin::count_old(on, sql, what, age))
    }

    async fn prune(
        &self,
        sql: &PostgresTableSql,
        what: Terminal,
        age: Duration,
        rows: u32,
        ledger: &mut Ledger,
    ) -> Result<u64> {
        let with = (sql, &self.audit);
        asked!(self.connections, |on| admin::prune(on, with, (what, age), rows, ledger))
    }

    async fn record_table(&self) -> Result<Option<String>> {
        asked!(self.connections, |on| async { admin::record_table(on, &self.audit).await.map_err(explain) })
    }

    async fn write_record(&self, entry: AuditEntry) -> Result<()> {
        asked!(self.connections, |on| admin::write_record(on, &self.audit, &entry))
    }

    async fn read_record(&self, mut picker: AuditPicker) -> Result<Audited> {
        asked!(self.connections, |on| async {
            pick(on, &self.audit.down, &mut picker).await.map_err(explain)
        })?;
        Ok(picker.picked())
    }

    async fn insert(
        &self,
        sql: &PostgresTableSql,
        events: Vec<Envelope>,
        bell: &Signal,
    ) -> Result<Vec<Published>> {
        let published = asked!(self.connections, |on| publish::insert(on, sql, &events))?;
        ring(bell, &published);
        Ok(published)
    }
}

/// What the server says about claims and outcomes. A value that breaks a rule, and what a trigger of theirs raises, is a refusal: it would say
/// the same another time.
fn refused(error: tokio_postgres::Error, sql: &PostgresTableSql) -> Error {
    match error.as_db_error() {
        Some(db) if is_rule(db.code().code()) => {
            Error::rejected(format!("the table refuses it: {}", db.message())).because(error)
        }
        _ => told(error, sql),
    }
}

/// Whether a SQLSTATE says that a rule was broken: one of the classes for that, or one that a trigger made up. Those begin with 5 to 9
/// or I to Z, as the standard leaves them to everybody; of these the server itself uses a few for what passes.
fn is_rule(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    let is_made_up = class.starts_with(|first: char| matches!(first, '5'..='9' | 'I'..='Z'));
    let is_servers = matches!(class, "53" | "54" | "55" | "57" | "58" | "72" | "XX");
    matches!(class, "09" | "22" | "23" | "27" | "2F" | "38" | "39" | "44") || is_made_up && !is_servers
}

/// What the server says about a table that is not ours.
fn told(error: tokio_postgres::Error, sql: &PostgresTableSql) -> Error {
    let code = error.as_db_error().map(|db| db.code().code().to_owned()).unwrap_or_default();
    let table = sql.shape().profile.table.to_string();
    match code.as_str() {
        "42P01" => check::absent(&table).because(error),
        "42501" => check::no_right(&table).because(error),
        "42703" | "42804" | "42883" => {
            Error::config(format!("the table {table} has changed since the relay looked at it"))
                .because(error)
        }
        _ => explain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::is_rule;

    #[test]
    fn a_trigger_may_refuse_with_a_code_of_its_own() {
        for code in ["P0001", "23514", "22001", "OB001", "U0001", "70000"] {
            assert!(is_rule(code), "{code}");
        }
        for code in ["57P01", "53300", "55P03", "40001", "40P01", "42501", "08006", "XX000", "25006", ""] {
            assert!(!is_rule(code), "{code}");
        }
    }
}
