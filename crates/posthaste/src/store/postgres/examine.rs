//! What goes wrong in practice with a Postgres server and these tables, told before it happens.

use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::findings::{Finding, Mend, asked};
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::{Clock as _, SystemClock, Timestamp};
use tokio_postgres::Row;

use super::error::{Db, explain};
use super::pool::{CONNECTIONS_MAX, Connections, begin_looking, commit};
use super::value::args;
use super::{PostgresStore, check, migrate, rows};
use crate::store::table::examine::ASK_WITHIN;

/// A clock that differs by more confuses whoever compares times of two machines.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(2);
/// A transaction that is open for longer was forgotten.
const OPEN_SECONDS_MAX: i64 = 600;
/// The same where its time cannot be seen: that many ids were given since.
const OPEN_IDS_MAX: i32 = 10_000_000;
/// More dead rows than this make every look at a table slow.
const DEAD_ROWS_MAX: i64 = 100_000;

/// Everything, each question by itself.
pub(super) async fn examine(store: &PostgresStore) -> Vec<Finding> {
    let (connections, prefix) = (&store.connections, store.prefix.as_str());
    let mut found = asked("tables", ASK_WITHIN, async {
        let client = connections.get().await?;
        let mut found = check::findings(&client, &store.sql, prefix).await?;
        found.push(functions(migrate::has_functions(&client, &store.prefix).await.map_err(explain)?));
        Ok(found)
    })
    .await;
    let tables = ["parked", "lanes", "ticks", "relays", "events"].map(|table| format!("{prefix}{table}"));
    let of_server = server(connections, &store.sql, tables.to_vec()).await;
    // Acquiring asks for it too, so that it was looked at.
    found.extend(of_server.into_iter().filter(|finding| finding.check != "fsync"));
    found
}

/// Whether the busiest statements are functions.
fn functions(are_there: bool) -> Finding {
    if are_there {
        return Finding::ok("functions", "the busiest statements keep their plans");
    }
    let seen = "the functions for the busiest statements are missing, or this user may not call them, so the server \
                plans every look again";
    Finding::warning("functions", seen, Mend::command("posthaste migrate up"))
}

/// What is the same for whatever lies in the database; these are the tables in which rows change.
pub(super) async fn server(
    connections: &Connections,
    sql: &PostgresSql,
    tables: Vec<String>,
) -> Vec<Finding> {
    let mut found = asked("settings", ASK_WITHIN, async {
        let rows = connections.get().await?.query_typed(&sql.examine_settings, &[]).await;
        rows.and_then(|rows| settings(&rows)).map_err(explain)
    })
    .await;
    found.extend(asked("clock", ASK_WITHIN, clock(connections, &sql.now)).await);
    found.extend(
        asked("connections", ASK_WITHIN, async {
            let row = connections.get().await?.query_typed_one(&sql.examine_connections, &[]).await;
            row.and_then(|row| room(&row)).map_err(explain)
        })
        .await,
    );
    found.extend(
        asked("open transactions", ASK_WITHIN, async {
            let limits = args![OPEN_SECONDS_MAX, OPEN_IDS_MAX];
            let rows = connections.get().await?.query_typed(&sql.examine_holders, &limits).await;
            rows.and_then(|rows| holders(&rows)).map_err(explain)
        })
        .await,
    );
    found.extend(asked("pooler", ASK_WITHIN, pooler(connections)).await);
    found.extend(
        asked("autovacuum of the tables", ASK_WITHIN, async {
            let rows = connections.get().await?.query_typed(&sql.examine_vacuum, &args![tables]).await;
            rows.and_then(|rows| vacuumed(&rows)).map_err(explain)
        })
        .await,
    );
    found
}

fn settings(rows: &[Row]) -> Db<Vec<Finding>> {
    let mut found = Vec::new();
    for row in rows {
        let (name, setting): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let danger = match name.as_str() {
            "synchronous_commit" => {
                "commits of this user do not wait for the disk: a crash of the server may take back the last moments of \
                 what was published and answered"
            }
            "full_page_writes" => {
                "a crash of the machine in the middle of a write may break pages, unless its file system prevents that"
            }
            "fsync" => {
                "a crash of the server's machine takes back what was delivered, or breaks the database"
            }
            _ => "dead rows are never removed, and every look at the tables gets slower",
        };
        found.push(if setting == "off" {
            let back = row.try_get::<_, Option<String>>(2)?;
            let mend = back.map_or_else(|| check::turn_on(&name), Mend::sql);
            let seen = format!("off: {danger}");
            if name == "fsync" {
                Finding::failure(name, seen, mend)
            } else {
                Finding::warning(name, seen, mend)
            }
        } else {
            Finding::ok(name, setting)
        });
    }
    Ok(found)
}

async fn clock(connections: &Connections, now: &str) -> Result<Vec<Finding>> {
    // A connection that is there, so that what is measured is one way there and back.
    let client = connections.get().await?;
    client.query_typed_one(now, &[]).await.map_err(explain)?;
    let before = SystemClock.now();
    let row = client.query_typed_one(now, &[]).await.map_err(explain)?;
    let after = SystemClock.now();
    Ok(vec![clocks(before, rows::time(&row, 0).map_err(explain)?, after)])
}

/// What is to be said about a clock that was read there between two readings here.
fn clocks(before: Timestamp, there: Timestamp, after: Timestamp) -> Finding {
    let (ahead, behind) = (there.since(after), before.since(there));
    let by = ahead.max(behind);
    if by <= CLOCK_DIFFERENCE_MAX {
        return Finding::ok("clock", "the server's and this machine's agree");
    }
    let which = if ahead > behind { "ahead of" } else { "behind" };
    Finding::warning(
        "clock",
        format!(
            "the server's clock is {} s {which} this machine's: leases go by the server's, but due times and ages that \
             programs give look wrong",
            by.as_secs()
        ),
        Mend::command("timedatectl set-ntp true"),
    )
}

fn room(row: &Row) -> Db<Vec<Finding>> {
    let (used, room): (i64, i64) = (row.try_get("used")?, row.try_get("room")?);
    let wanted = i64::try_from(CONNECTIONS_MAX).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    if room - used < wanted {
        let seen =
            format!("{used} of {room} are in use, and one relay or server opens up to {wanted} under load");
        let mend = Mend::words("raise max_connections, or put a pooler in transaction mode in front");
        found.push(Finding::warning("connections", seen, mend));
    }
    for (whose, limit, mend) in [
        ("this user", row.try_get::<_, Option<i64>>("user_limit")?, row.try_get::<_, String>("user_mend")?),
        ("this database", row.try_get("database_limit")?, row.try_get("database_mend")?),
    ] {
        if let Some(limit) = limit.filter(|limit| *limit < wanted) {
            let seen = format!(
                "{whose} may have {limit} connections, and one relay or server opens up to {wanted} under load"
            );
            found.push(Finding::warning("connections", seen, Mend::sql(mend)));
        }
    }
    if found.is_empty() {
        found.push(Finding::ok("connections", format!("{used} of {room} are in use")));
    }
    Ok(found)
}

fn holders(rows: &[Row]) -> Db<Vec<Finding>> {
    let mut found = Vec::new();
    for row in rows {
        let (what, name, seconds): (String, String, Option<i64>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let since = seconds.map_or_else(|| "long".to_owned(), |seconds| format!("{seconds} s"));
        let mend: String = row.try_get(3)?;
        let (check, seen, mend) = match what.as_str() {
            "slot" => (
                "replication slots",
                format!(
                    "nobody reads the slot {name}, for which the server keeps its log until the disk is full"
                ),
                Mend::sql(mend),
            ),
            "prepared" => (
                "open transactions",
                format!(
                    "the prepared transaction {name} waits since {since}: what it published is not delivered, and no dead \
                         row goes"
                ),
                Mend::words(format!("{mend} or COMMIT PREPARED; whoever prepared it knows which")),
            ),
            _ => (
                "open transactions",
                format!(
                    "the transaction of process {name} is open since {since}: no row that died since then goes, and \
                         tables grow"
                ),
                Mend::sql(mend),
            ),
        };
        found.push(Finding::warning(check, seen, mend));
    }
    for check in ["open transactions", "replication slots"] {
        if !found.iter().any(|finding| finding.check == check) {
            found.push(Finding::ok(check, "nothing holds dead rows or the server's log back"));
        }
    }
    Ok(found)
}

fn vacuumed(rows: &[Row]) -> Db<Vec<Finding>> {
    const CHECK: &str = "autovacuum of the tables";
    let mut found = Vec::new();
    for row in rows {
        let (name, live, dead): (String, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if row.try_get(3)? {
            let seen = format!("somebody turned it off for {name}, where dead rows make every claim slower");
            let mend = Mend::sql(format!("ALTER TABLE {name} RESET (autovacuum_enabled)"));
            found.push(Finding::warning(CHECK, seen, mend));
        } else if dead > DEAD_ROWS_MAX && dead > live {
            let seen = format!("{name} has {dead} dead rows beside {live} that live");
            found.push(Finding::warning(CHECK, seen, Mend::sql(format!("VACUUM {name}"))));
        }
    }
    if found.is_empty() {
        found.push(Finding::ok(CHECK, "on, and dead rows go"));
    }
    Ok(found)
}

/// Whether a pooler stands in between, and whether it leaves a transaction on one connection. Two sessions have transactions
/// side by side, twice: whoever shares connections gives one of them another connection than before.
async fn pooler(connections: &Connections) -> Result<Vec<Finding>> {
    let refused = |error: &posthaste_core::Error| error.to_string().contains("statement pooling");
    match is_shared(connections).await {
        Ok(true) => Ok(vec![Finding::ok("pooler", "one in transaction mode, which is as good as none")]),
        Ok(false) => Ok(vec![Finding::ok("pooler", "none, or one that gives each session its connection")]),
        Err(error) if refused(&error) => Ok(vec![Finding::failure(
            "pooler",
            "a pooler in statement mode, in which nothing can be settled",
            Mend::words("write pool_mode = transaction in its settings, and reload it"),
        )]),
        Err(error) => Err(error),
    }
}

async fn is_shared(connections: &Connections) -> Result<bool> {
    const BACKEND: &str = "SELECT pg_backend_pid()";
    let (mut one, mut other) = (connections.get().await?, connections.get().await?);
    let mut seen: Option<i32> = None;
    // Poolers take what was given back last, or first: so it is given back in both orders.
    for is_first_back_first in [true, false, true] {
        let first = begin_looking(&mut one).await?;
        let backend: i32 = pid(&first.query_typed_one(BACKEND, &[]).await.map_err(explain)?)?;
        if *seen.get_or_insert(backend) != backend {
            return Ok(true);
        }
        let second = begin_looking(&mut other).await?;
        second.query_typed_one(BACKEND, &[]).await.map_err(explain)?;
        if is_first_back_first {
            commit(first).await?;
            commit(second).await?;
        } else {
            commit(second).await?;
            commit(first).await?;
        }
    }
    Ok(false)
}

fn pid(row: &Row) -> Result<i32> {
    row.try_get(0).map_err(explain)
}

#[cfg(test)]
mod tests {
    use posthaste_core::findings::Verdict;

    use super::*;

    #[test]
    fn clocks_that_differ_by_more_than_the_way_there_took_are_told() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        for (before, there, after, says) in [
            (100, 100, 100, "agree"),
            (100, 101, 103, "agree"),
            (100, 102, 100, "agree"),
            (100, 110, 100, "10 s ahead of"),
            (100, 90, 100, "10 s behind"),
            // Whoever waited long for the answer knows no better.
            (100, 130, 160, "agree"),
        ] {
            let finding = clocks(at(before), at(there), at(after));
            assert!(finding.seen.contains(says), "{finding:?}");
            assert_eq!(finding.verdict == Verdict::Ok, says == "agree");
        }
    }
}
