//! The tables of consumers on MariaDB and MySQL. There is no log engine there: events are rows of an outbox table.

use crate::prefix::TablePrefix;

/// The statements that make the tables of consumers, to be run by hand.
pub fn mysql_ddl(prefix: &TablePrefix) -> String {
    prefix.apply(include_str!("tables.sql"))
}

/// The statements of idempotency records, and those that prune what consumers remember, with the table prefix in its place and plain placeholders.
#[derive(Debug)]
#[non_exhaustive]
pub struct MysqlSql {
    /// Begins one that is not there: consumer, event id, source, token.
    pub dedup_begin: String,
    /// Locks one and answers its state and its age in microseconds: consumer, event id, source.
    pub dedup_get: String,
    /// Takes one over: token, consumer, event id, source.
    pub dedup_take: String,
    /// Ends one: state, error, consumer, event id, source, token.
    pub dedup_finish: String,
    /// Removes old ones: age in microseconds, rows at most.
    pub dedup_prune: String,
    /// Counts them: age in microseconds.
    pub dedup_count: String,
    /// Removes old rows of the inbox: age in microseconds, rows at most.
    pub inbox_prune: String,
    /// Counts them: age in microseconds.
    pub inbox_count: String,
}

/// Idempotency records that ended before this age, and rows of the inbox that are older.
const OLD_DEDUP: &str = "FROM {prefix}dedup WHERE state IN ('processed', 'failed') AND at < utc_timestamp(6) - INTERVAL ? MICROSECOND";
const OLD_INBOX: &str = "FROM {prefix}inbox WHERE handled_at < utc_timestamp(6) - INTERVAL ? MICROSECOND";

impl MysqlSql {
    /// The statements on tables with this prefix.
    pub fn new(prefix: &TablePrefix) -> Self {
        Self {
            dedup_begin: prefix.apply(
                "INSERT IGNORE INTO {prefix}dedup (consumer, event_id, source, state, token, at)
                 VALUES (?, ?, ?, 'in_progress', ?, utc_timestamp(6))",
            ),
            dedup_get: prefix.apply(
                "SELECT state, TIMESTAMPDIFF(MICROSECOND, at, utc_timestamp(6)) FROM {prefix}dedup
                 WHERE consumer = ? AND event_id = ? AND source = ? FOR UPDATE",
            ),
            dedup_take: prefix.apply(
                "UPDATE {prefix}dedup SET state = 'in_progress', token = ?, at = utc_timestamp(6), last_error = NULL
                 WHERE consumer = ? AND event_id = ? AND source = ?",
            ),
            dedup_finish: prefix.apply(
                "UPDATE {prefix}dedup SET state = ?, at = utc_timestamp(6), last_error = ?
                 WHERE consumer = ? AND event_id = ? AND source = ? AND token = ? AND state = 'in_progress'",
            ),
            dedup_prune: prefix.apply(&format!("DELETE {OLD_DEDUP} LIMIT ?")),
            dedup_count: prefix.apply(&format!("SELECT count(*) {OLD_DEDUP}")),
            inbox_prune: prefix.apply(&format!("DELETE {OLD_INBOX} LIMIT ?")),
            inbox_count: prefix.apply(&format!("SELECT count(*) {OLD_INBOX}")),
        }
    }
}
