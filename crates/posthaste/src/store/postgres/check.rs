//! What reading without gaps relies on, asked at each acquisition: a lane is not driven where events could be lost.

use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Row};

use super::error::{Db, explain};

/// The oldest server that has transaction ids of 64 bits as a type.
const VERSION_MIN: i64 = 130_000;

/// Refuses a server or tables on which events could be lost; says what to mend.
pub(super) async fn check(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<()> {
    let row = client.query_typed_one(&sql.server_check, &[]).await.map_err(explain)?;
    match problem(&row, prefix).map_err(explain)? {
        None => Ok(()),
        Some(Problem::Standby) => Err(Error::unavailable(
            "the server is a standby, which shows transactions that are open as if they had ended; name the primary",
        )),
        Some(Problem::Mend(what)) => Err(Error::config(what)),
    }
}

enum Problem {
    Standby,
    Mend(String),
}

fn problem(row: &Row, prefix: &str) -> Db<Option<Problem>> {
    let version: i64 = row.try_get(0)?;
    let is = |column: usize| row.try_get::<_, Option<bool>>(column);
    let seq_default: Option<&str> = row.try_get(2)?;
    let xid_default: Option<&str> = row.try_get(3)?;
    let is_seq_plain = seq_default.is_some_and(|text| {
        text.contains("pg_current_xact_id() >") && text.contains("nextval(") && text.contains("events_seq")
    });
    let mend = if version < VERSION_MIN {
        format!("the server is version {}; at least 13 is needed", version / 10_000)
    } else if is(1)? == Some(true) {
        return Ok(Some(Problem::Standby));
    } else if !is_seq_plain {
        format!("the default of {prefix}events.seq was changed; put back what `posthaste migrate print` says")
    } else if xid_default != Some("pg_current_xact_id()") {
        format!("the default of {prefix}events.xid was changed; put back DEFAULT pg_current_xact_id()")
    } else if is(4)? != Some(true) {
        format!("events would be lost; run ALTER SEQUENCE {prefix}events_seq INCREMENT BY 1 CACHE 1 NO CYCLE")
    } else if is(5)? != Some(true) {
        format!("the index {prefix}events_xid is not valid; run REINDEX INDEX {prefix}events_xid")
    } else if is(6)? == Some(true) {
        format!("row security hides events of {prefix}events from this user; give it BYPASSRLS")
    } else if is(7)? != Some(true) {
        "the server runs with fsync off, and a crash of its machine would take back what was delivered; turn it on"
            .to_owned()
    } else if is(8)? == Some(true) {
        format!(
            "{prefix}events holds ids of transactions of another server: this database was copied or restored"
        )
    } else {
        return Ok(None);
    };
    Ok(Some(Problem::Mend(mend)))
}
