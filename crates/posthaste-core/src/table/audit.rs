//! The record of operators' commands beside an outbox table: in a table that the owner of the database makes, or not at all.

use crate::prefix::TablePrefix;

/// The statements on that table; it has the columns of the log engine's.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditSql {
    /// Its name.
    pub table: String,
    /// Whether it is there: true, or a number above zero.
    pub exists: String,
    /// Writes a record: (SQLite only: when, in microseconds since 1970,) actor, via, command, filter, matched, changed.
    pub insert: String,
    /// Reads records down from a number: that, and (but on SQLite) how many.
    pub down: String,
}

impl AuditSql {
    /// On Postgres; values have numbers.
    pub fn postgres(prefix: &TablePrefix) -> Self {
        Self::new(
            prefix,
            "SELECT to_regclass('{prefix}audit') IS NOT NULL",
            include_str!("../sql/postgres/audit_insert.sql"),
            include_str!("../sql/postgres/audit_down.sql"),
        )
    }

    /// On SQLite; values have numbers.
    pub fn sqlite(prefix: &TablePrefix) -> Self {
        Self::new(
            prefix,
            "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{prefix}audit')",
            include_str!("../sql/sqlite/audit_insert.sql"),
            include_str!("../sql/sqlite/audit_down.sql"),
        )
    }

    /// On MariaDB and MySQL; placeholders are plain.
    pub fn mysql(prefix: &TablePrefix) -> Self {
        Self::new(
            prefix,
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{prefix}audit'",
            "INSERT INTO {prefix}audit (at, actor, via, command, filter, matched, changed)
             VALUES (UTC_TIMESTAMP(6), ?, ?, ?, ?, ?, ?)",
            "SELECT id, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', at), actor, via, command, filter, matched, changed
             FROM {prefix}audit WHERE id < ? ORDER BY id DESC LIMIT ?",
        )
    }

    fn new(prefix: &TablePrefix, exists: &str, insert: &str, down: &str) -> Self {
        let [table, exists, insert, down] =
            ["{prefix}audit", exists, insert, down].map(|text| prefix.apply(text));
        Self { table, exists, insert, down }
    }
}

/// What stands above the table, whatever the database is.
const WHY: &str = "\
-- Optional: where this table is, every command of an operator on an outbox table or on dead letters of a broker is recorded in it, and
-- `posthaste audit` lists them. Run this yourself, and grant operators SELECT and INSERT and no more: nothing else is ever done to it.
";

/// The SQL that makes the table for the record on Postgres.
pub fn postgres_audit_ddl(prefix: &TablePrefix) -> String {
    let ddl = "CREATE TABLE {prefix}audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    via     text        NOT NULL,
    command text        NOT NULL,
    filter  text        NOT NULL DEFAULT '{}',
    matched bigint      NOT NULL,
    changed bigint      NOT NULL
);
";
    prefix.apply(&format!("{WHY}{ddl}"))
}

/// The SQL that makes the table for the record on MariaDB and MySQL.
pub fn mysql_audit_ddl(prefix: &TablePrefix) -> String {
    let ddl = "CREATE TABLE {prefix}audit (
    id      bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at      datetime(6)  NOT NULL DEFAULT (utc_timestamp(6)),
    actor   varchar(255) NOT NULL,
    via     varchar(255) NOT NULL,
    command varchar(64)  NOT NULL,
    filter  mediumtext   NOT NULL,
    matched bigint       NOT NULL,
    changed bigint       NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
";
    prefix.apply(&format!("{WHY}{ddl}"))
}

/// The SQL that makes the table for the record on SQLite: times are microseconds since 1970.
pub fn sqlite_audit_ddl(prefix: &TablePrefix) -> String {
    let ddl = "CREATE TABLE {prefix}audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    via     TEXT    NOT NULL,
    command TEXT    NOT NULL,
    filter  TEXT    NOT NULL DEFAULT '{}',
    matched INTEGER NOT NULL,
    changed INTEGER NOT NULL
) STRICT;
-- A file has no roles, so whoever can write it can do anything; but nobody changes the record by mistake or in passing.
CREATE TRIGGER {prefix}audit_update BEFORE UPDATE ON {prefix}audit
BEGIN SELECT RAISE(ABORT, 'the record of commands is only added to'); END;
CREATE TRIGGER {prefix}audit_delete BEFORE DELETE ON {prefix}audit
BEGIN SELECT RAISE(ABORT, 'the record of commands is only added to'); END;
";
    prefix.apply(&format!("{WHY}{ddl}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns between `CREATE TABLE …audit (` and its end.
    fn columns(ddl: &str) -> &str {
        let begin = ddl.find("audit (\n").expect("it makes the table");
        let rest = &ddl[begin..];
        &rest[..rest.find("\n)").expect("and ends")]
    }

    #[test]
    fn the_table_is_that_of_the_log_engine() {
        let prefix = TablePrefix::default();
        let log = crate::sql::postgres_ddl(&prefix);
        assert!(log.contains(columns(&postgres_audit_ddl(&prefix))), "{log}");
        let log = crate::sql::sqlite_ddl(&prefix);
        let beside = sqlite_audit_ddl(&prefix);
        assert!(log.contains(columns(&beside)), "{log}");
        let triggers = &beside[beside.find("-- A file has no roles").expect("it is only added to")..];
        assert!(log.contains(triggers), "{log}");
    }
}
