//! Outbox tables that already exist: which column is what, and the SQL that follows from it.
//!
//! A [`Profile`] is data: the names of a table, its columns and its states. What is really there ([`Found`]) is compared with
//! it once, which gives a [`Shape`] or says what is missing; a shape has everything that the statements need. Nothing here
//! talks to a database.
//!
//! ```text
//! pending ──claim──► delivering ──► delivered        terminal rows never move by themselves
//!    ▲                  │    └────► dead             (an operator's redrive or replay makes them pending; a bury
//!    │                  │                             claims pending ones and makes them dead, at once)
//!    └──retry, release,─┘
//!       lease expired
//! ```
//!
//! Profiles and SQL text are here and not in the stores because they are pure and every driver needs them. A
//! missing optional column costs nothing. A column of another type is cast, or refused by its name. A state
//! that a profile does not name is left alone: only the owner knows what it means, and a relay that looked
//! for such rows would read the whole table. Counting reads it anyway, so `stats` shows them.

mod audit;
mod change;
mod column;
mod ddl;
mod insert;
pub mod meters;
mod mysql;
mod name;
mod postgres;
mod profile;
mod shape;
mod sqlite;
mod text;

pub use audit::{AuditSql, mysql_audit_ddl, postgres_audit_ddl, sqlite_audit_ddl};
pub use change::RowChange;
pub use column::{Column, Kind};
pub use ddl::{
    Present, mysql_lacking_ddl, mysql_table_ddl, postgres_lacking_ddl, postgres_table_ddl,
    sqlite_lacking_ddl, sqlite_table_ddl,
};
pub use insert::{fits, insert_values};
pub use mysql::{Asked, Indexes, MysqlInsert, MysqlTableSql, MysqlText};
pub use name::{ColumnName, StateName, TableName};
pub use postgres::PostgresTableSql;
pub use profile::{Profile, States};
pub use shape::{Found, Shape, not_ready};
pub use sqlite::{SqliteTableSql, TOPIC_FUNCTION};
pub use text::{REPLAYED, topic_expression};
