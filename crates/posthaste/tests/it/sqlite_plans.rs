//! How SQLite would run the statements of the log engine: by an index, on a file with a million rows as on an empty one.

use posthaste::prefix::TablePrefix;
use posthaste_core::sql::{SqliteSql, sqlite_ddl};
use rusqlite::Connection;

/// Every line of the plan.
fn plan(file: &Connection, sql: &str) -> String {
    let mut statement = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let values = rusqlite::params_from_iter((0..count).map(|_| rusqlite::types::Null));
    let lines = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
    lines.map(|line| line.unwrap()).collect::<Vec<_>>().join("\n")
}

fn file() -> (Connection, SqliteSql) {
    let (file, prefix) = (Connection::open_in_memory().unwrap(), TablePrefix::default());
    file.execute_batch(&sqlite_ddl(&prefix)).unwrap();
    (file, SqliteSql::new(&prefix))
}

#[test]
fn no_statement_scans_or_sorts_what_grows() {
    let (file, sql) = file();
    let statements = [
        &sql.event_same,
        &sql.event_get,
        &sql.event_look,
        &sql.event_seqs,
        &sql.log_read,
        &sql.log_at_or_after,
        &sql.lane_get,
        &sql.lane_settle,
        &sql.lane_standing,
        &sql.due,
        &sql.parked_get,
        &sql.followers,
        &sql.key_first,
        &sql.key_first_dead,
        &sql.key_dead_after,
        &sql.parked_from,
        &sql.park,
        &sql.park_again,
        &sql.unpark,
        &sql.done_keep,
        &sql.done_forget,
        &sql.done_count,
        &sql.promote,
        &sql.promote_unordered,
        &sql.scan_log_down,
        &sql.scan_log_up,
        &sql.scan_parked_down,
        &sql.scan_parked_up,
        &sql.scan_parked_any_down,
        &sql.scan_parked_any_up,
        &sql.scan_one,
        &sql.views,
        &sql.redrive,
        &sql.discard,
        &sql.erase,
        &sql.lane_parked_delete,
        &sql.prune_over,
        &sql.over_delete,
        &sql.event_forget,
        &sql.prune_step,
        &sql.event_delete,
    ];
    for text in statements {
        let plan = plan(&file, text);
        let grows = ["SCAN posthaste_events", "SCAN posthaste_parked", "SCAN e", "SCAN p", "TEMP B-TREE"];
        for bad in grows {
            assert!(!plan.lines().any(|line| line.contains(bad)), "{text}\n{plan}");
        }
    }
}

/// The statements of the hot path use the index that was made for them.
#[test]
fn partial_indexes_are_used_where_they_are_meant() {
    let (file, sql) = file();
    let table = [
        (&sql.due, "posthaste_parked_due"),
        (&sql.key_first, "posthaste_parked_key (lane=? AND shard=? AND key=?"),
        (&sql.followers, "posthaste_parked_key (lane=? AND shard=? AND key=? AND seq>?"),
        (&sql.promote, "posthaste_parked_key (lane=? AND shard=? AND key=?"),
        (&sql.promote_all, "posthaste_parked_key (lane=? AND shard=? AND key>?"),
        (&sql.key_first_dead, "posthaste_parked_dead_key (lane=? AND shard=? AND key=?"),
        (&sql.prune_over, "posthaste_parked_over (lane=? AND (dead_at,seq)>(?,?) AND dead_at<?)"),
        (&sql.dead_codes, "posthaste_parked_state (lane=? AND state=?)"),
        (&sql.views, "posthaste_parked_seq"),
        (&sql.done_forget, "posthaste_parked_state (lane=? AND state=? AND seq<?"),
        (&sql.scan_ended_down, "posthaste_parked_state (lane=? AND state=? AND seq>? AND seq<?"),
        (&sql.scan_ended_up, "posthaste_parked_state (lane=? AND state=? AND seq>? AND seq<?"),
    ];
    for (text, index) in table {
        let plan = plan(&file, text);
        assert!(plan.contains(index), "{text}\n{plan}");
    }
    assert!(plan(&file, &sql.due).contains("COVERING INDEX posthaste_parked_due"));
}
