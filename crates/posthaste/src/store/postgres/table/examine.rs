//! What goes wrong in practice with an outbox table of somebody else on Postgres.

use posthaste_core::findings::{Finding, asked};
use posthaste_core::lane::LaneSpec;
use posthaste_core::prefix::TablePrefix;
use posthaste_core::sql::PostgresSql;
use posthaste_core::table::postgres_table_ddl;

use super::super::examine::server;
use super::{PostgresTable, check};
use crate::store::table::examine::ASK_WITHIN;

/// Everything, each question by itself. What the table lacks is the answer of its status.
pub(super) async fn examine(table: &PostgresTable, lanes: &[LaneSpec]) -> Vec<Finding> {
    let profile = &table.options.profile;
    let mut found = asked("indexes", ASK_WITHIN, async {
        let client = table.connections.get().await?;
        let sql = table.sql(&client).await?;
        let indexes = check::indexes(&client, sql.shape()).await?;
        Ok(indexes.findings(sql.shape(), lanes, &postgres_table_ddl(profile)))
    })
    .await;
    // None of these looks at tables of ours.
    let sql = PostgresSql::new(&TablePrefix::default());
    found.extend(server(&table.connections, &sql, vec![profile.table.quoted()]).await);
    found
}
