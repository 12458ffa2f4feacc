//! What a driver's error means for whoever would do the same again.

use std::error::Error as StdError;

/// What a driver's error means for whoever would do the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The server is away, starting or ending, or the connection was lost.
    Connection,
    /// No connection was free in time, or the server takes no more of them.
    Exhausted,
    /// It took too long, or somebody ended it.
    Timeout,
    /// It met another transaction: a deadlock, a lock, a serialization failure.
    Conflict,
    /// The values are not what the columns take: the same again fails again.
    Invalid,
    /// This user may not do that.
    NotAllowed,
    /// Something else.
    Other,
}

impl Fault {
    /// What this error means, if it is one of a driver that is compiled in. What caused it is not looked at.
    pub fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let known: [fn(&(dyn StdError + 'static)) -> Option<Self>; 6] =
            [of_sqlx, of_postgres, of_pool, of_rusqlite, of_diesel, of_sea_orm];
        known.iter().find_map(|of| of(error))
    }

    /// What a code of the SQL standard means, as Postgres uses them.
    pub fn of_sqlstate(code: &str) -> Self {
        match code {
            // Of a connection that ended under us: an operator, a crash, a fail-over that made the server read-only.
            "57P01" | "57P02" | "57P03" | "57P05" | "25006" => Self::Connection,
            "53300" => Self::Exhausted,
            "57014" | "25P03" => Self::Timeout,
            "55P03" => Self::Conflict,
            "23502" | "23514" => Self::Invalid,
            "42501" => Self::NotAllowed,
            _ => match code.get(..2) {
                Some("08") => Self::Connection,
                Some("40") => Self::Conflict,
                Some("22") => Self::Invalid,
                _ => Self::Other,
            },
        }
    }

    /// What one of SQLite's extended result codes means.
    pub fn of_sqlite(code: i32) -> Self {
        // SQLITE_CONSTRAINT_CHECK, SQLITE_CONSTRAINT_NOTNULL.
        if matches!(code, 275 | 1299) {
            return Self::Invalid;
        }
        // The primary code is the lowest byte.
        match code & 0xff {
            // BUSY, LOCKED.
            5 | 6 => Self::Conflict,
            // CANTOPEN.
            14 => Self::Connection,
            // TOOBIG, MISMATCH.
            18 | 20 => Self::Invalid,
            // PERM, AUTH.
            3 | 23 => Self::NotAllowed,
            _ => Self::Other,
        }
    }
}

#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "sqlx-mysql", feature = "sea-orm"))]
fn of_sqlx(error: &(dyn StdError + 'static)) -> Option<Fault> {
    match error.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::PoolTimedOut => Some(Fault::Exhausted),
        sqlx::Error::PoolClosed => Some(Fault::Connection),
        sqlx::Error::Database(said) => {
            let code = said.code().unwrap_or_default();
            // SQLite's codes are decimal numbers of up to four digits, SQLSTATEs have five characters.
            Some(match code.parse::<i32>() {
                Ok(number) if code.len() < 5 => Fault::of_sqlite(number),
                _ => Fault::of_sqlstate(&code),
            })
        }
        // What lies under it says more.
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => None,
        _ => Some(Fault::Other),
    }
}

#[cfg(not(any(
    feature = "sqlx-postgres",
    feature = "sqlx-sqlite",
    feature = "sqlx-mysql",
    feature = "sea-orm"
)))]
fn of_sqlx(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(feature = "tokio-postgres")]
fn of_postgres(error: &(dyn StdError + 'static)) -> Option<Fault> {
    let error = error.downcast_ref::<tokio_postgres::Error>()?;
    match error.code() {
        Some(code) => Some(Fault::of_sqlstate(code.code())),
        None if error.is_closed() => Some(Fault::Connection),
        // What lies under it says more, if there is something.
        None => error.source().is_none().then_some(Fault::Other),
    }
}

#[cfg(not(feature = "tokio-postgres"))]
fn of_postgres(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(feature = "deadpool-postgres")]
fn of_pool(error: &(dyn StdError + 'static)) -> Option<Fault> {
    match error.downcast_ref::<deadpool_postgres::PoolError>()? {
        deadpool_postgres::PoolError::Timeout(_) => Some(Fault::Exhausted),
        deadpool_postgres::PoolError::Closed => Some(Fault::Connection),
        // Some of its variants do not name what they hold as their source.
        deadpool_postgres::PoolError::Backend(error) => of_postgres(error),
        _ => None,
    }
}

#[cfg(not(feature = "deadpool-postgres"))]
fn of_pool(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(feature = "rusqlite")]
fn of_rusqlite(error: &(dyn StdError + 'static)) -> Option<Fault> {
    match error.downcast_ref::<rusqlite::Error>()? {
        rusqlite::Error::SqliteFailure(said, _) => Some(Fault::of_sqlite(said.extended_code)),
        _ => Some(Fault::Other),
    }
}

#[cfg(not(feature = "rusqlite"))]
fn of_rusqlite(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite", feature = "diesel-async"))]
fn of_diesel(error: &(dyn StdError + 'static)) -> Option<Fault> {
    use diesel::result::{DatabaseErrorKind as Kind, Error};
    #[cfg(feature = "diesel-async")]
    if let Some(fault) = of_diesel_pool(error) {
        return Some(fault);
    }
    match error.downcast_ref::<Error>()? {
        Error::DatabaseError(kind, said) => Some(match kind {
            Kind::UnableToSendCommand | Kind::ClosedConnection | Kind::ReadOnlyTransaction => {
                Fault::Connection
            }
            Kind::SerializationFailure => Fault::Conflict,
            Kind::NotNullViolation | Kind::CheckViolation => Fault::Invalid,
            // SQLite's; diesel has no kind for it.
            _ if said.message().starts_with("database is locked") => Fault::Conflict,
            _ => Fault::Other,
        }),
        Error::BrokenTransactionManager => Some(Fault::Connection),
        _ => Some(Fault::Other),
    }
}

#[cfg(not(any(feature = "diesel-postgres", feature = "diesel-sqlite", feature = "diesel-async")))]
fn of_diesel(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(feature = "diesel-async")]
fn of_diesel_pool(error: &(dyn StdError + 'static)) -> Option<Fault> {
    use diesel_async::pooled_connection::deadpool::PoolError;
    match error.downcast_ref::<PoolError>()? {
        PoolError::Timeout(_) => Some(Fault::Exhausted),
        _ => Some(Fault::Connection),
    }
}

#[cfg(feature = "sea-orm")]
fn of_sea_orm(error: &(dyn StdError + 'static)) -> Option<Fault> {
    use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr};
    match error.downcast_ref::<DbErr>()? {
        DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) => Some(Fault::Exhausted),
        DbErr::ConnectionAcquire(_) => Some(Fault::Connection),
        // It does not name what it holds as its source; what sqlx leaves to its own source is a connection's.
        DbErr::Conn(RuntimeErr::SqlxError(said))
        | DbErr::Exec(RuntimeErr::SqlxError(said))
        | DbErr::Query(RuntimeErr::SqlxError(said)) => Some(of_sqlx(&**said).unwrap_or(Fault::Connection)),
        _ => Some(Fault::Other),
    }
}

#[cfg(not(feature = "sea-orm"))]
fn of_sea_orm(_: &(dyn StdError + 'static)) -> Option<Fault> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_standard_say_what_is_vain() {
        for (code, fault) in [
            ("08006", Fault::Connection),
            ("08001", Fault::Connection),
            ("57P01", Fault::Connection),
            ("25006", Fault::Connection),
            ("53300", Fault::Exhausted),
            ("57014", Fault::Timeout),
            ("40001", Fault::Conflict),
            ("40P01", Fault::Conflict),
            ("55P03", Fault::Conflict),
            ("22001", Fault::Invalid),
            ("22P02", Fault::Invalid),
            ("23502", Fault::Invalid),
            ("23514", Fault::Invalid),
            ("42501", Fault::NotAllowed),
            // What is missing may come: the row that a foreign key means, the table of the next release.
            ("23503", Fault::Other),
            ("23505", Fault::Other),
            ("42P01", Fault::Other),
            // A wrong password is no fault of the event.
            ("28P01", Fault::Other),
            ("53100", Fault::Other),
            ("", Fault::Other),
            ("é", Fault::Other),
        ] {
            assert_eq!(Fault::of_sqlstate(code), fault, "{code}");
        }
    }

    #[test]
    fn codes_of_sqlite_say_what_is_vain() {
        for (code, fault) in [
            (5, Fault::Conflict),
            (517, Fault::Conflict),
            (6, Fault::Conflict),
            (14, Fault::Connection),
            (18, Fault::Invalid),
            (20, Fault::Invalid),
            (275, Fault::Invalid),
            (1299, Fault::Invalid),
            (3, Fault::NotAllowed),
            (23, Fault::NotAllowed),
            (787, Fault::Other),
            (2067, Fault::Other),
            (13, Fault::Other),
            (0, Fault::Other),
        ] {
            assert_eq!(Fault::of_sqlite(code), fault, "{code}");
        }
    }

    #[test]
    fn only_errors_of_drivers_mean_something() {
        assert_eq!(Fault::of(&std::io::Error::other("x")), None);
        assert_eq!(Fault::of(&sqlx::Error::PoolTimedOut), Some(Fault::Exhausted));
        assert_eq!(Fault::of(&sqlx::Error::RowNotFound), Some(Fault::Other));
        assert_eq!(Fault::of(&sqlx::Error::Io(std::io::Error::other("x"))), None, "its cause says more");
        let constraint = rusqlite::ffi::Error::new(1299);
        assert_eq!(Fault::of(&rusqlite::Error::SqliteFailure(constraint, None)), Some(Fault::Invalid));
        let timeout = deadpool_postgres::PoolError::Timeout(deadpool_postgres::TimeoutType::Wait);
        assert_eq!(Fault::of(&timeout), Some(Fault::Exhausted));
    }

    #[test]
    fn what_diesel_and_sea_orm_say_means_the_same() {
        use diesel::result::{DatabaseErrorKind as Kind, Error};
        let said = |kind| Error::DatabaseError(kind, Box::new("words".to_owned()));
        assert_eq!(Fault::of(&said(Kind::SerializationFailure)), Some(Fault::Conflict));
        assert_eq!(Fault::of(&said(Kind::ClosedConnection)), Some(Fault::Connection));
        assert_eq!(Fault::of(&said(Kind::CheckViolation)), Some(Fault::Invalid));
        assert_eq!(Fault::of(&said(Kind::UniqueViolation)), Some(Fault::Other));
        let full = sea_orm::DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::Timeout);
        assert_eq!(Fault::of(&full), Some(Fault::Exhausted));
        let cut = sqlx::Error::Io(std::io::Error::other("cut")).into();
        let cut = sea_orm::DbErr::Exec(sea_orm::RuntimeErr::SqlxError(cut));
        assert_eq!(Fault::of(&cut), Some(Fault::Connection));
    }
}
