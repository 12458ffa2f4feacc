//! What goes wrong in practice with an outbox table of somebody else on Postgres.

use posthaste_core::findings::{Finding, asked};
use posthaste_core::lane::LaneSpec;
use posthaste_core::prefix::TablePrefix;
use posthaste_core::sql::PostgresSql;
use posthaste_core::table::{PostgresTableSql, postgres_table_ddl};

use super::super::error::explain;
use super::super::examine::server;
use super::super::pool::Connections;
use super::check;
use crate::store::table::examine::ASK_WITHIN;

/// Everything, each question by itself. What the table lacks is the answer of its status.
pub(super) async fn examine(
    connections: &Connections,
    sql: &PostgresTableSql,
    lanes: &[LaneSpec],
) -> Vec<Finding> {
    let (shape, profile) = (sql.shape(), &sql.shape().profile);
    let mut found = asked("indexes", ASK_WITHIN, async {
        let indexes = check::indexes(&connections.get().await?, profile).await.map_err(explain)?;
        Ok(indexes.findings(shape, lanes, &postgres_table_ddl(profile)))
    })
    .await;
    // None of these looks at tables of ours.
    let of_server = PostgresSql::new(&TablePrefix::default());
    found.extend(server(connections, &of_server, vec![profile.table.quoted()]).await);
    found
}
