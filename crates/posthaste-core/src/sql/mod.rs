//! All SQL text of Posthaste, as data: one file per statement and dialect, with `{prefix}` where the table prefix goes.
//!
//! Core runs none of it. A store hands the texts to its driver, reads a row of events into a [`StoredEvent`], and
//! everything else about the statements can be read here without knowing a driver.

mod mysql;
mod postgres;
mod sqlite;
mod stored_event;

pub use mysql::{MysqlSql, mysql_ddl};
pub use postgres::{
    POSTGRES_COMPATIBLE_FROM, POSTGRES_SCHEMA, PostgresSql, postgres_ddl, postgres_functions,
    postgres_functions_exist, postgres_migrations, postgres_roles,
};
pub use sqlite::{SQLITE_COMPATIBLE_FROM, SQLITE_SCHEMA, SqliteSql, sqlite_ddl, sqlite_migrations};
pub use stored_event::StoredEvent;
