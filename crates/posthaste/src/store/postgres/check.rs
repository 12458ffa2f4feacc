//! What reading without gaps and in order relies on. The store asks at each acquisition, on each new
//! connection that claims, and once per minute while a lane is driven: an administrator can change a sequence
//! or a trigger at any time.
//!
//! Acquiring stops at the first thing that is wrong; an [examination](findings) tells of each.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::findings::{Finding, Mend};
use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio::time::Instant;
use tokio_postgres::{Client, Row};

use super::error::{Db, explain};
use super::value::args;

/// How often the store asks while lanes are driven.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// The oldest server that has transaction ids of 64 bits as a type.
const VERSION_MIN: i64 = 130_000;
/// What a lane's row says whose database was moved; `rebase_done.sql` knows it by its first word.
const RESTORED: &str = "restored: this database was restored, copied or upgraded, or its ids were changed; run `posthaste lane rebase`";

/// The first thing that is wrong with the server or the tables, if anything is.
pub(super) async fn check(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<Option<Problem>> {
    let row = ask(client, sql).await?;
    Facts { row: &row, prefix }.problem().map_err(explain)
}

/// Notes in the lanes' rows that the database was moved, so that a list of lanes shows it. A user who may not
/// write there gets the error all the same.
pub(super) async fn tell_lanes(client: &Client, sql: &PostgresSql, problem: &Problem) {
    if problem.why != Why::Moved {
        return;
    }
    if let Err(error) = client.execute_typed(&sql.lanes_moved, &args![RESTORED]).await {
        tracing::debug!(%error, "the rows of the lanes do not say that the database was moved");
    }
}

/// Why the ids in these tables mean nothing on this server, if so.
pub(super) async fn moved(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<Option<Error>> {
    let row = ask(client, sql).await?;
    let facts = Facts { row: &row, prefix };
    if let Some(standby) = facts.standby().map_err(explain)? {
        return Err(standby.into());
    }
    Ok(facts.moved().map_err(explain)?.map(Error::from))
}

/// All that is looked at, each with its verdict; changes nothing.
pub(super) async fn findings(client: &Client, sql: &PostgresSql, prefix: &str) -> Result<Vec<Finding>> {
    let row = ask(client, sql).await?;
    Facts { row: &row, prefix }.findings().map_err(explain)
}

async fn ask(client: &Client, sql: &PostgresSql) -> Result<Row> {
    client.query_typed_opt(&sql.server_check, &[]).await.map_err(explain)?.ok_or_else(|| {
        Error::corrupt("the table of facts about the schema is empty; restore it from a backup")
    })
}

/// When the store last asked.
#[derive(Default)]
pub(super) struct Checked(Mutex<Option<Instant>>);

impl Checked {
    fn last(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self) -> bool {
        self.last().is_none_or(|last| last.elapsed() >= CHECK_EVERY)
    }

    /// Somebody asks; others need not.
    pub(super) fn begin(&self) {
        *self.last() = Some(Instant::now());
    }

    /// Something is wrong: every other lane must ask too.
    pub(super) fn failed(&self) {
        *self.last() = None;
    }
}

/// What is wrong.
pub(super) struct Problem {
    why: Why,
    seen: String,
    mend: Mend,
}

/// What it means for whoever asked.
#[derive(PartialEq, Eq)]
enum Why {
    /// The server will not do, and another one may.
    Standby,
    /// The ids in the tables mean nothing here.
    Moved,
    /// Somebody must mend it.
    Wrong,
}

impl Problem {
    fn new(seen: impl Into<String>, mend: Mend) -> Self {
        Self { why: Why::Wrong, seen: seen.into(), mend }
    }
}

impl From<Problem> for Error {
    fn from(Problem { why, seen, mend }: Problem) -> Self {
        let message = format!("{seen}; {mend}");
        if why == Why::Standby { Self::unavailable(message) } else { Self::config(message) }
    }
}

/// The name of a look, what is said when all is well, and the look itself.
type Look<F> = (&'static str, &'static str, fn(&F) -> Db<Option<Problem>>);

/// What the server says about itself and the tables.
struct Facts<'a> {
    row: &'a Row,
    prefix: &'a str,
}

impl Facts<'_> {
    fn is(&self, column: &str) -> Db<bool> {
        Ok(self.row.try_get::<_, Option<bool>>(column)? == Some(true))
    }

    fn text(&self, column: &str) -> Db<Option<&str>> {
        self.row.try_get(column)
    }

    /// In the order in which they matter: what comes first may be the reason of what comes later.
    fn looks() -> [Look<Self>; 13] {
        [
            ("server version", "at least 13", Self::version),
            ("primary", "not a standby", Self::standby),
            ("rights", "a relay may do what it must", Self::rights),
            ("origin", "the ids in the tables are this server's own", Self::moved),
            ("default of seq", "as the tables were made", Self::seq_default),
            ("default of xid", "as the tables were made", Self::xid_default),
            ("sequence", "one number at a time", Self::sequence),
            ("index of late commits", "valid", Self::index),
            ("triggers", "none that change events", Self::other_triggers),
            ("replication trigger", "on", Self::own_trigger),
            ("row security", "hides nothing", Self::row_security),
            ("fsync", "on", Self::fsync),
            ("encoding", "UTF8", Self::encoding),
        ]
    }

    fn problem(&self) -> Db<Option<Problem>> {
        for (_, _, look) in Self::looks() {
            let found = look(self)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn findings(&self) -> Db<Vec<Finding>> {
        let told = |(check, well, look): Look<Self>| {
            Ok(match look(self)? {
                Some(Problem { seen, mend, .. }) => Finding::failure(check, seen, mend),
                None => Finding::ok(check, well),
            })
        };
        Self::looks().into_iter().map(told).collect()
    }

    fn version(&self) -> Db<Option<Problem>> {
        let version: i64 = self.row.try_get("version")?;
        let said = || format!("the server is version {}", version / 10_000);
        Ok((version < VERSION_MIN).then(|| Problem::new(said(), Mend::words("at least 13 is needed"))))
    }

    fn standby(&self) -> Db<Option<Problem>> {
        let said = "the server is a standby, which shows transactions that are open as if they had ended";
        let problem = || Problem { why: Why::Standby, ..Problem::new(said, Mend::words("name the primary")) };
        Ok(self.is("is_standby")?.then(problem))
    }

    fn rights(&self) -> Db<Option<Problem>> {
        let problem = |grants: &str| {
            let grants = grants.split("; ").map(str::to_owned).collect();
            Problem::new("this user lacks rights that a relay needs", Mend::Sql(grants))
        };
        Ok(self.text("missing_rights")?.map(problem))
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
        let mend = format!(
            "nothing is delivered until somebody runs `posthaste lane rebase --yes`, or after pg_upgrade `posthaste lane \
             rebase --upgraded --yes`, as a user who may change {prefix}events, such as the one that made the tables"
        );
        let seen = format!("{how}, so nobody can say what was delivered");
        Ok(Some(Problem { why: Why::Moved, ..Problem::new(seen, Mend::words(mend)) }))
    }

    fn seq_default(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        let is_plain = self.text("seq_default")?.is_some_and(|text| {
            text.contains("pg_current_xact_id() >")
                && text.contains("nextval(")
                && text.contains("events_seq")
        });
        let problem = || {
            let mend = format!(
                "ALTER TABLE {prefix}events ALTER COLUMN seq SET DEFAULT CASE WHEN pg_current_xact_id() > '0' THEN \
                 nextval('{prefix}events_seq') END"
            );
            let seen =
                format!("the default of {prefix}events.seq was changed, so that events could be passed over");
            Problem::new(seen, Mend::sql(mend))
        };
        Ok((!is_plain).then(problem))
    }

    fn xid_default(&self) -> Db<Option<Problem>> {
        let table = format!("{}events", self.prefix);
        let problem = || {
            let mend = format!("ALTER TABLE {table} ALTER COLUMN xid SET DEFAULT pg_current_xact_id()");
            Problem::new(format!("the default of {table}.xid was changed"), Mend::sql(mend))
        };
        Ok((self.text("xid_default")? != Some("pg_current_xact_id()")).then(problem))
    }

    fn sequence(&self) -> Db<Option<Problem>> {
        let sequence = format!("{}events_seq", self.prefix);
        let problem = || {
            let mend = format!("ALTER SEQUENCE {sequence} INCREMENT BY 1 CACHE 1 NO CYCLE");
            let seen = format!(
                "the sequence {sequence} was changed, so that events of one key could be delivered in the wrong order"
            );
            Problem::new(seen, Mend::sql(mend))
        };
        Ok((!self.is("is_sequence_plain")?).then(problem))
    }

    fn index(&self) -> Db<Option<Problem>> {
        let index = format!("{}events_xid", self.prefix);
        let problem = || {
            Problem::new(
                format!("the index {index} is not valid"),
                Mend::sql(format!("REINDEX INDEX {index}")),
            )
        };
        Ok((!self.is("is_index_valid")?).then(problem))
    }

    fn other_triggers(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        let problem = |names: &str| {
            let seen = format!(
                "{prefix}events has row triggers that are not ours ({names}), which can change ids or drop rows"
            );
            Problem::new(seen, Mend::words(format!("drop them with DROP TRIGGER … ON {prefix}events")))
        };
        Ok(self.text("other_triggers")?.map(problem))
    }

    fn own_trigger(&self) -> Db<Option<Problem>> {
        let prefix = self.prefix;
        let problem = || {
            let seen = format!(
                "rows that replication brings would carry ids of another server: the trigger {prefix}own_xid is off, or \
                 missing (`posthaste migrate print` shows it)"
            );
            let mend = format!("ALTER TABLE {prefix}events ENABLE REPLICA TRIGGER {prefix}own_xid");
            Problem::new(seen, Mend::sql(mend))
        };
        Ok((!self.is("has_own_trigger")?).then(problem))
    }

    fn row_security(&self) -> Db<Option<Problem>> {
        let seen = format!("row security hides events of {}events from this user", self.prefix);
        let problem = || Problem::new(seen, Mend::words("give it BYPASSRLS"));
        Ok(self.is("is_row_security_active")?.then(problem))
    }

    fn fsync(&self) -> Db<Option<Problem>> {
        let seen =
            "the server runs with fsync off, and a crash of its machine would take back what was delivered";
        Ok((!self.is("is_fsync_on")?).then(|| Problem::new(seen, turn_on("fsync"))))
    }

    fn encoding(&self) -> Db<Option<Problem>> {
        let encoding = self.text("encoding")?.unwrap_or_default();
        let problem = || {
            let seen = format!("the database's encoding is {encoding}, which cannot hold every event");
            let mend = "make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0";
            Problem::new(seen, Mend::words(mend))
        };
        Ok((encoding != "UTF8").then(problem))
    }
}

/// Turns a setting of the whole server on.
pub(super) fn turn_on(setting: &str) -> Mend {
    Mend::Sql(vec![format!("ALTER SYSTEM SET {setting} = on"), "SELECT pg_reload_conf()".to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_store_asks_once_per_minute_and_at_once_after_something_was_wrong() {
        let checked = Checked::default();
        assert!(checked.is_due());
        checked.begin();
        tokio::time::advance(CHECK_EVERY - Duration::from_secs(1)).await;
        assert!(!checked.is_due());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(checked.is_due());
        checked.begin();
        checked.failed();
        assert!(checked.is_due());
    }
}
