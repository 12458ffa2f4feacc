//! The tables: made and brought up to date when somebody asks for it, never by themselves.

use posthaste_core::prefix::TablePrefix;
use posthaste_core::schema::SchemaStatus;
use posthaste_core::sql::{
    POSTGRES_COMPATIBLE_FROM, POSTGRES_SCHEMA, PostgresSql, postgres_functions, postgres_functions_exist,
    postgres_migrations,
};
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Transaction};

use super::error::{Db, explain};
use super::value::args;

/// What is there, compared with what this binary wants.
pub(super) async fn status(client: &Client, sql: &PostgresSql) -> Db<SchemaStatus> {
    let exists: bool = client.query_typed_one(&sql.meta_exists, &[]).await?.try_get(0)?;
    if !exists {
        return Ok(SchemaStatus::new(None, 0, POSTGRES_SCHEMA));
    }
    let row = client.query_typed_one(&sql.meta_get, &[]).await?;
    let version = |column: usize| Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(u32::MAX));
    Ok(SchemaStatus::new(Some(version(0)?), version(1)?, POSTGRES_SCHEMA))
}

/// Refuses tables that are missing, or that this binary does not understand.
pub(super) async fn understand(client: &Client, sql: &PostgresSql) -> Result<()> {
    let status = status(client, sql).await.map_err(explain)?;
    if status.present.is_none() {
        return Err(Error::config(
            "the tables are missing; run `posthaste migrate up`, or look at store.prefix and the database's name if they \
             should be there",
        ));
    }
    check(status)
}

/// Refuses tables that a newer release has changed beyond what this binary understands.
fn check(status: SchemaStatus) -> Result<()> {
    if POSTGRES_SCHEMA >= status.compatible_from {
        return Ok(());
    }
    Err(Error::config(format!(
        "the tables were made by a newer release (schema {}, usable from {} on), and this binary brings schema \
         {POSTGRES_SCHEMA}; use a newer binary",
        status.present.unwrap_or_default(),
        status.compatible_from,
    )))
}

/// Applies what is missing, in a transaction that keeps others from doing the same: whoever comes second finds nothing
/// to do.
pub(super) async fn apply_missing(
    tx: &Transaction<'_>,
    prefix: &TablePrefix,
    sql: &PostgresSql,
) -> Result<Vec<u32>> {
    tx.query_typed(&sql.migrate_lock, &[]).await.map_err(explain)?;
    let now = status(tx.client(), sql).await.map_err(explain)?;
    check(now)?;
    let present = now.present.unwrap_or(0);
    let mut applied = Vec::new();
    for (version, text) in postgres_migrations(prefix).into_iter().filter(|(version, _)| *version > present) {
        tx.batch_execute(&text).await.map_err(explain)?;
        tx.execute_typed(&sql.meta_set, &args![i64::from(version), i64::from(POSTGRES_COMPATIBLE_FROM)])
            .await
            .map_err(explain)?;
        applied.push(version);
    }
    // Their names tell their definitions apart, so a new release only adds its own.
    if !has_functions(tx.client(), prefix).await.map_err(explain)? {
        tx.batch_execute(&postgres_functions(prefix)).await.map_err(explain)?;
    }
    Ok(applied)
}

/// Whether the database has the functions of this release, and this user may call them.
pub(super) async fn has_functions(client: &Client, prefix: &TablePrefix) -> Db<bool> {
    client.query_typed_one(&postgres_functions_exist(prefix), &[]).await?.try_get(0)
}
