//! What reading without gaps relies on, asked at each acquisition: a lane is not driven where events could be lost.

use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Row};

use super::error::{Db, explain};
use super::value::args;

/// The oldest server that has transaction ids of 64 bits as a type.
const VERSION_MIN: i64 = 130_000;
/// What a lane's row says whose database was moved; `rebase_done.sql` knows it by its first word.
const RESTORED: &str = "restored: this database was restored, copied or upgraded, or its ids were changed; run `posthaste lane rebase`";

/// Refuses a server or tables on which events could be lost; says what to mend.
pub(super) async fn check(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<()> {
    let row = ask(client, sql).await?;
    let problem = Findings { row: &row, prefix }.problem().map_err(explain)?;
    if matches!(problem, Some(Problem::Moved(_))) {
        // So that whoever lists the lanes sees it too; a user who may not write it is told all the same.
        let told = client.execute_typed(&sql.lanes_moved, &args![RESTORED]).await;
        told.map(drop)
            .unwrap_or_else(|error| tracing::debug!(%error, "the lanes do not say that they were moved"));
    }
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}

/// Why the ids in these tables mean nothing on this server, if so.
pub(super) async fn moved(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<Option<Error>> {
    let row = ask(client, sql).await?;
    let found = Findings { row: &row, prefix };
    if let Some(standby) = found.standby().map_err(explain)? {
        return Err(standby.into());
    }
    Ok(found.moved().map_err(explain)?.map(Error::from))
}

async fn ask(client: &Client, sql: &PostgresSql) -> Result<Row> {
    client.query_typed_opt(&sql.server_check, &[]).await.map_err(explain)?.ok_or_else(|| {
        Error::corrupt("the table of facts about the schema is empty; restore it from a backup")
    })
}

enum Problem {
    Standby,
    Moved(String),
    Mend(String),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Standby => Self::unavailable(
                "the server is a standby, which shows transactions that are open as if they had ended; name the primary",
            ),
            Problem::Moved(what) | Problem::Mend(what) => Self::config(what),
        }
    }
}

/// What the server says about itself and the tables.
struct Findings<'a> {
    row: &'a Row,
    prefix: &'a str,
}

impl Findings<'_> {
    fn is(&self, column: &str) -> Db<bool> {
        Ok(self.row.try_get::<_, Option<bool>>(column)? == Some(true))
    }

    fn text(&self, column: &str) -> Db<Option<&str>> {
        self.row.try_get(column)
    }

    fn problem(&self) -> Db<Option<Problem>> {
        for look in
            [Self::version, Self::standby, Self::rights, Self::moved, Self::defaults, Self::surroundings]
        {
            let found = look(self)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn version(&self) -> Db<Option<Problem>> {
        let version: i64 = self.row.try_get("version")?;
        let said = || format!("the server is version {}; at least 13 is needed", version / 10_000);
        Ok((version < VERSION_MIN).then(|| Problem::Mend(said())))
    }

    fn standby(&self) -> Db<Option<Problem>> {
        Ok(self.is("is_standby")?.then_some(Problem::Standby))
    }

    fn rights(&self) -> Db<Option<Problem>> {
        let said = |grants| format!("this user lacks rights that a relay needs; run {grants}");
        Ok(self.text("missing_rights")?.map(|grants| Problem::Mend(said(grants))))
    }

    fn moved(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        let how = if self.is("is_other_server")? {
            "this database was restored from a dump, copied or upgraded: another server filled it"
        } else if self.is("is_other_database")? {
            "this database is a copy of another one of this server"
        } else if self.is("has_foreign_ids")? {
            "this database holds ids of transactions that this server has not given yet"
        } else {
            return Ok(None);
        };
        Ok(Some(Problem::Moved(format!(
            "{how}, so nobody can say what was delivered; nothing is delivered until somebody runs `posthaste lane rebase \
             --yes`, or after pg_upgrade `posthaste lane rebase --upgraded --yes`, as a user who may change {prefix}events, \
             such as the one that made the tables"
        ))))
    }

    fn defaults(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        let is_seq_plain = self.text("seq_default")?.is_some_and(|text| {
            text.contains("pg_current_xact_id() >")
                && text.contains("nextval(")
                && text.contains("events_seq")
        });
        Ok(Some(Problem::Mend(if !is_seq_plain {
            format!(
                "the default of {prefix}events.seq was changed; put back what `posthaste migrate print` says"
            )
        } else if self.text("xid_default")? != Some("pg_current_xact_id()") {
            format!("the default of {prefix}events.xid was changed; put back DEFAULT pg_current_xact_id()")
        } else if !self.is("is_sequence_plain")? {
            format!(
                "events would be lost; run ALTER SEQUENCE {prefix}events_seq INCREMENT BY 1 CACHE 1 NO CYCLE"
            )
        } else if !self.is("is_index_valid")? {
            format!("the index {prefix}events_xid is not valid; run REINDEX INDEX {prefix}events_xid")
        } else if let Some(names) = self.text("other_triggers")? {
            format!(
                "{prefix}events has row triggers that are not ours ({names}), which can change ids or drop rows; drop \
                 them with DROP TRIGGER … ON {prefix}events"
            )
        } else if !self.is("has_own_trigger")? {
            format!(
                "rows that replication brings would carry ids of another server; run ALTER TABLE {prefix}events ENABLE \
                 REPLICA TRIGGER {prefix}own_xid (if it is missing, `posthaste migrate print` shows it)"
            )
        } else {
            return Ok(None);
        })))
    }

    fn surroundings(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        Ok(Some(Problem::Mend(if self.is("is_row_security_active")? {
            format!("row security hides events of {prefix}events from this user; give it BYPASSRLS")
        } else if !self.is("is_fsync_on")? {
            "the server runs with fsync off, and a crash of its machine would take back what was delivered; turn it on"
                .to_owned()
        } else if self.text("encoding")? != Some("UTF8") {
            let encoding = self.text("encoding")?.unwrap_or_default();
            format!(
                "the database's encoding is {encoding}, which cannot hold every event; make one with CREATE DATABASE … \
                 ENCODING 'UTF8' TEMPLATE template0"
            )
        } else {
            return Ok(None);
        })))
    }
}
