//! A connection to one of the databases, which says SQL and hears text.

use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A database that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Postgres,
    Mariadb,
}

impl Base {
    /// The text for this one.
    pub(crate) fn either(self, postgres: &'static str, mariadb: &'static str) -> &'static str {
        match self {
            Self::Postgres => postgres,
            Self::Mariadb => mariadb,
        }
    }
}

/// A connection.
pub(crate) enum Session {
    Postgres(Client),
    Mariadb(Mutex<MySqlConnection>),
}

impl Session {
    #[expect(clippy::disallowed_methods, reason = "the driver's connection lives as long as its client")]
    pub(crate) async fn connect(url: &str) -> Self {
        if url.starts_with("mysql:") {
            return Self::Mariadb(Mutex::new(MySqlConnection::connect(url).await.unwrap()));
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        Self::Postgres(client)
    }

    pub(crate) async fn say(&self, sql: &str) {
        match self {
            Self::Postgres(client) => client.batch_execute(sql).await.unwrap(),
            Self::Mariadb(connection) => {
                let mut connection = connection.lock().await;
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut *connection).await.unwrap();
            }
        }
    }

    /// The first column of every row that a query answers.
    pub(crate) async fn hear(&self, sql: &str) -> Vec<String> {
        match self {
            Self::Postgres(client) => {
                let rows = client.simple_query(sql).await.unwrap();
                let text = |message: &SimpleQueryMessage| match message {
                    SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
                    _ => None,
                };
                rows.iter().filter_map(text).collect()
            }
            Self::Mariadb(connection) => {
                let mut connection = connection.lock().await;
                let asked = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
                let rows = asked.fetch_all(&mut *connection).await.unwrap();
                let text =
                    |row: &sqlx::mysql::MySqlRow| row.try_get_unchecked::<Option<String>, _>(0).unwrap();
                rows.iter().map(|row| text(row).unwrap_or_default()).collect()
            }
        }
    }
}
