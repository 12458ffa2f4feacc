//! What the server's errors mean, and who must act.

use std::io;

use posthaste_core::table::MysqlTableSql;
use posthaste_core::{Error, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

/// What a statement answers.
pub(super) type Db<T> = std::result::Result<T, sqlx::Error>;

/// The server's number of an error, if it is the server's.
pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// A transaction that was ended, or a statement that waited too long, because of another one.
pub(super) fn is_deadlock(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(1213 | 1205 | 1020))
}

pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    number(error) == Some(1062)
}

/// No answer came in time.
pub(super) fn silence(within: std::time::Duration) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("the database did not answer within {within:?} (store.statement_timeout)"),
    ))
}

/// Translates an error.
pub(super) fn explain(error: sqlx::Error) -> Error {
    let said = match &error {
        sqlx::Error::Database(database) => database.message().to_owned(),
        other => other.to_string(),
    };
    let (kind, message) = match number(&error) {
        Some(number) => meaning(number, &said),
        None => match &error {
            sqlx::Error::Tls(_) if said.contains("does not support TLS") => (
                ErrorKind::Config,
                "the server offers no TLS; let it show a certificate, or write sslmode=disable where the network is private"
                    .to_owned(),
            ),
            sqlx::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                (ErrorKind::Config, untrusted(&said))
            }
            sqlx::Error::Tls(_) => (ErrorKind::Config, untrusted(&said)),
            sqlx::Error::Configuration(_) => {
                (ErrorKind::Config, format!("no connection can be made: {said}"))
            }
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. } => {
                (ErrorKind::Corrupt, format!("an answer cannot be understood: {said}"))
            }
            _ => (ErrorKind::Unavailable, format!("the database is away: {said}")),
        },
    };
    Error::new(kind, message).because(error)
}

fn untrusted(said: &str) -> String {
    format!(
        "the server's certificate is not accepted ({said}); name its CA by sslrootcert=FILE in the store URL or store.tls_ca, and \
         the host as the certificate has it"
    )
}

fn meaning(number: u16, said: &str) -> (ErrorKind, String) {
    match number {
        1044 | 1045 | 1698 | 1251 => (
            ErrorKind::Config,
            format!("the server refuses the login ({said}); look at user and password of the store URL"),
        ),
        1049 => (
            ErrorKind::Config,
            format!("{said}; make it with CREATE DATABASE, or name another one in the store URL"),
        ),
        1062 => (ErrorKind::Conflict, format!("it exists already ({said})")),
        1205 => (
            ErrorKind::Unavailable,
            format!(
                "somebody else holds a lock for longer than store.lock_timeout ({said}); look at SHOW ENGINE INNODB STATUS"
            ),
        ),
        1969 | 3024 => (
            ErrorKind::Unavailable,
            format!(
                "a statement took longer than store.statement_timeout ({said}); raise it, or look for what keeps the server busy"
            ),
        ),
        1048 | 1264 | 1265 | 1292 | 1366 | 1406 | 3140 | 3819 | 4025 => {
            (ErrorKind::Rejected, format!("the database refuses a value: {said}"))
        }
        1064 | 1054 | 1146 | 1142 | 1143 | 1193 | 1227 | 1305 | 1665 => {
            (ErrorKind::Config, format!("the server does not understand us: {said}"))
        }
        // Shutting down, too many connections, a deadlock, read only: all pass.
        _ => (ErrorKind::Unavailable, format!("the server cannot do it now: {said}")),
    }
}

/// There is no such table, which may still come.
pub(super) fn absent(table: &str) -> Error {
    Error::unavailable(format!(
        "there is no table {table} in this database yet; look at store.table and at the database of the store URL"
    ))
}

pub(super) fn no_right(table: &str) -> Error {
    Error::config(format!(
        "the user of the store URL may not do this with {table}: GRANT SELECT, UPDATE ON it for relaying, DELETE for pruning, \
         INSERT for publishing"
    ))
}

/// What the server says about claims and outcomes. A value that breaks a rule, and what a trigger of theirs signals, is a refusal: it would say
/// the same another time.
pub(super) fn refused(error: sqlx::Error, sql: &MysqlTableSql) -> Error {
    let state = error.as_database_error().and_then(|said| said.code()).unwrap_or_default().into_owned();
    // A trigger may signal any state; the number then says that it was one.
    let is_signal = number(&error) == Some(1644);
    if is_signal || ["22", "23", "44", "45"].iter().any(|class| state.starts_with(class)) {
        let said = error.as_database_error().map(|said| said.message().to_owned()).unwrap_or_default();
        return Error::rejected(format!("the table refuses it: {said}")).because(error);
    }
    told(error, sql)
}

/// What the server says about a table that is not ours.
pub(super) fn told(error: sqlx::Error, sql: &MysqlTableSql) -> Error {
    let table = sql.shape().profile.table.to_string();
    match number(&error) {
        Some(1146) => absent(&table).because(error),
        Some(1142 | 1143) => no_right(&table).because(error),
        Some(1054) => Error::config(format!("the table {table} has changed since the relay looked at it"))
            .because(error),
        _ => explain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_who_must_act() {
        assert_eq!(meaning(1045, "x").0, ErrorKind::Config);
        assert_eq!(meaning(1053, "x").0, ErrorKind::Unavailable);
        assert_eq!(meaning(1406, "x").0, ErrorKind::Rejected);
        assert_eq!(explain(silence(std::time::Duration::from_secs(3))).kind(), ErrorKind::Unavailable);
    }
}
