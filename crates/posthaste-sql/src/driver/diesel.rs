//! diesel: a connection on which a transaction was begun, on Postgres or SQLite; and what its errors mean.

use diesel::result::{DatabaseErrorKind, Error};

use crate::SqlError;

#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
pub use self::blocking::{DieselBackend, DieselTx};

#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
mod blocking {
    use diesel::backend::Backend;
    use diesel::connection::Connection;
    use diesel::{QueryResult, RunQueryDsl as _};

    use super::error;
    use crate::{BlockingTx, Dialect, Result, Statement};

    /// Lends a connection of diesel, inside of `connection.transaction(|connection| …)`.
    ///
    /// A wrapper and not the connection itself, so that one implementation fits every connection of a backend: also one
    /// from a pool, and one of another crate.
    #[derive(Debug)]
    pub struct DieselTx<'a, C>(pub &'a mut C);

    impl<C> BlockingTx for DieselTx<'_, C>
    where
        C: Connection,
        C::Backend: DieselBackend,
    {
        fn dialect(&self) -> Dialect {
            C::Backend::DIALECT
        }

        fn execute(&mut self, statement: Statement) -> Result<u64> {
            let changed = C::Backend::run(self.0, statement).map_err(error)?;
            Ok(changed as u64)
        }
    }

    /// A backend of diesel whose SQL Posthaste speaks.
    pub trait DieselBackend: Backend {
        /// Which SQL it is.
        const DIALECT: Dialect;
        /// Runs the statement and answers how many rows it changed.
        ///
        /// # Errors
        /// What diesel says.
        fn run<C: Connection<Backend = Self>>(connection: &mut C, statement: Statement)
        -> QueryResult<usize>;
    }

    #[cfg(feature = "diesel-postgres")]
    impl DieselBackend for diesel::pg::Pg {
        const DIALECT: Dialect = Dialect::Postgres;

        fn run<C: Connection<Backend = Self>>(
            connection: &mut C,
            statement: Statement,
        ) -> QueryResult<usize> {
            super::bound!(statement, Self).execute(connection)
        }
    }

    #[cfg(feature = "diesel-sqlite")]
    impl DieselBackend for diesel::sqlite::Sqlite {
        const DIALECT: Dialect = Dialect::Sqlite;

        fn run<C: Connection<Backend = Self>>(
            connection: &mut C,
            statement: Statement,
        ) -> QueryResult<usize> {
            super::bound!(statement, Self).execute(connection)
        }
    }
}

/// A statement as diesel wants it, for one backend. What a function would have to say about which of its types a backend
/// knows is longer than what it does.
macro_rules! bound {
    ($statement:expr, $backend:ty) => {{
        use diesel::sql_types::{BigInt, Binary, Nullable, Text};
        let $crate::Statement { sql, values } = $statement;
        let mut query = diesel::sql_query(sql).into_boxed::<$backend>();
        for value in values {
            query = match value {
                $crate::Value::Int(int) => query.bind::<Nullable<BigInt>, _>(int),
                $crate::Value::Text(text) => query.bind::<Nullable<Text>, _>(text),
                $crate::Value::Bytes(bytes) => query.bind::<Nullable<Binary>, _>(bytes),
            };
        }
        query
    }};
}
pub(super) use bound;

pub(super) fn error(error: Error) -> SqlError {
    let duplicate = matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _));
    let error = SqlError::new(error);
    if duplicate { error.as_duplicate() } else { error }
}
