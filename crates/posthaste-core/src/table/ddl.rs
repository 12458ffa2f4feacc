//! What one would need: printed for whoever owns the table, and never run by Posthaste.

use super::{Column, Profile, StateName};

/// The SQL that makes a table of this profile on Postgres or, for tables that do not say how far a row is, adds what is missing.
pub fn postgres_table_ddl(profile: &Profile) -> String {
    made_or_added(profile, &POSTGRES)
}

/// The same for MariaDB and MySQL: times are in UTC whatever the zone of a connection is.
pub fn mysql_table_ddl(profile: &Profile) -> String {
    // Other names than those of the standard, so that it can be read by a connection in the server's own mode.
    made_or_added(profile, &MYSQL).replace('"', "`")
}

/// The same for SQLite: times are text, as `datetime` writes them.
pub fn sqlite_table_ddl(profile: &Profile) -> String {
    made(profile, &SQLITE)
}

/// The words of a database for what a column holds.
struct Words {
    id: &'static str,
    /// Text that an index takes.
    name: &'static str,
    text: &'static str,
    bytes: &'static str,
    json: &'static str,
    time: &'static str,
    now: &'static str,
    token: &'static str,
    uuid_token: &'static str,
    sequence: &'static str,
    /// Whether an index may be on part of a table.
    has_partial_indexes: bool,
    /// Whether tables are changed in transactions.
    has_transactional_ddl: bool,
    /// What stands after the columns.
    end: &'static str,
}

const POSTGRES: Words = Words {
    id: "uuid PRIMARY KEY DEFAULT gen_random_uuid()",
    name: "text",
    text: "text",
    bytes: "bytea",
    json: "jsonb",
    time: "timestamptz",
    now: "now()",
    token: "text",
    uuid_token: "uuid",
    sequence: "bigint GENERATED ALWAYS AS IDENTITY",
    has_partial_indexes: true,
    has_transactional_ddl: true,
    end: "",
};
const SQLITE: Words = Words {
    id: "text PRIMARY KEY NOT NULL",
    name: "text",
    text: "text",
    bytes: "blob",
    json: "text",
    time: "text",
    now: "(strftime('%Y-%m-%d %H:%M:%f', 'now'))",
    token: "text",
    uuid_token: "text",
    sequence: "integer",
    has_partial_indexes: true,
    has_transactional_ddl: true,
    end: "",
};
const MYSQL: Words = Words {
    id: "char(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT (uuid()) PRIMARY KEY",
    name: "varchar(255)",
    text: "text",
    bytes: "longblob",
    json: "json",
    time: "datetime(6)",
    now: "(utc_timestamp(6))",
    token: "varchar(255)",
    uuid_token: "char(36) CHARACTER SET ascii COLLATE ascii_bin",
    sequence: "bigint NOT NULL AUTO_INCREMENT UNIQUE",
    has_partial_indexes: false,
    has_transactional_ddl: false,
    end: " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
};

fn made_or_added(profile: &Profile, words: &Words) -> String {
    match profile.name() {
        "axcom" | "debezium" => added(profile, words),
        _ => made(profile, words),
    }
}

fn made(profile: &Profile, words: &Words) -> String {
    let table = profile.table.quoted();
    // As a reader expects them: the event, then how far it is.
    let columns: Vec<_> = Column::ALL
        .into_iter()
        .filter(|column| *column != Column::OrderingKey || profile.name() == "custom")
        .filter_map(|column| Some((column, profile.columns.get(&column)?.quoted())))
        .map(|(column, name)| format!("    {name} {}", definition(profile, column, words)))
        .collect();
    let states = &profile.states;
    let status = profile.columns[&Column::Status].quoted();
    let all =
        [&states.pending, &states.delivering, &states.delivered, &states.dead].map(|state| state.literal());
    format!(
        "-- The table of the profile {}. Posthaste never changes a table that is not its own: run this yourself.\n\
         CREATE TABLE {table} (\n{},\n    CHECK ({status} IN ({}))\n){};\n{}",
        profile.name(),
        columns.join(",\n"),
        all.join(", "),
        words.end,
        indexes(profile, words)
    )
}

/// The indexes without which a claim, a sweep or a prune reads the whole table.
fn indexes(profile: &Profile, words: &Words) -> String {
    let (table, name) = (profile.table.quoted(), profile.table.name());
    let column = |column: Column| profile.columns.get(&column).map(|name| name.quoted());
    let needed = |column: Column| profile.columns[&column].quoted();
    let (status, states) = (needed(Column::Status), &profile.states);
    // Where there is no index on a part, the state comes first.
    let index = |suffix: &str, columns: &str, state: &StateName| {
        if words.has_partial_indexes {
            let state = state.literal();
            format!("CREATE INDEX \"{name}_{suffix}\" ON {table} ({columns}) WHERE {status} = {state};\n")
        } else {
            format!("CREATE INDEX \"{name}_{suffix}\" ON {table} ({status}, {columns});\n")
        }
    };
    let mut all = "-- What is to be claimed, and what is claimed.\n".to_owned();
    let mut pickup = format!("{}, {}", needed(Column::AvailableAt), needed(Column::CreatedAt));
    // What tells rows of one moment apart ends the index, or a claim in order sorts all of them. MySQL ends every index by the primary key.
    let by_id = words.has_partial_indexes.then(|| needed(Column::Id));
    let tie = column(Column::Sequence).or(by_id).map(|tie| format!(", {tie}")).unwrap_or_default();
    pickup.push_str(&tie);
    all.push_str(&index("pickup", &pickup, &states.pending));
    all.push_str(&index("stuck", &needed(Column::LockedAt), &states.delivering));
    if let Some(key) = column(Column::Key) {
        let open =
            format!(" WHERE {status} IN ({}, {})", states.pending.literal(), states.delivering.literal());
        let created = needed(Column::CreatedAt);
        let (columns, open) = if words.has_partial_indexes {
            (format!("{key}, {created}{tie}"), open.as_str())
        } else {
            (format!("{key}, {status}, {created}"), "")
        };
        all.push_str(&format!(
            "-- For a lane with order = 'key' only.\n\
             CREATE INDEX \"{name}_order\" ON {table} ({columns}){open};\n"
        ));
    }
    // Elsewhere the index on what is to be claimed begins with the state.
    if words.has_partial_indexes {
        all.push_str("-- For operators, and for whoever measures: what is dead.\n");
        all.push_str(&index("dead", &needed(Column::CreatedAt), &states.dead));
    }
    // Not made unasked: it has all rows, and every claim and outcome writes into it.
    all.push_str(&format!(
        "-- If operators list events of all states (event list): without it that reads the whole table.\n\
         -- CREATE INDEX \"{name}_created\" ON {table} ({});\n",
        needed(Column::CreatedAt)
    ));
    if let Some(delivered) = column(Column::DeliveredAt) {
        all.push_str("-- For pruning.\n");
        all.push_str(&index("delivered", &delivered, &states.delivered));
    }
    all
}

fn definition(profile: &Profile, column: Column, words: &Words) -> String {
    match column {
        Column::Id => words.id.to_owned(),
        Column::Type => format!("{} NOT NULL", words.name),
        Column::Payload => format!("{} NOT NULL", words.bytes),
        Column::Headers => format!("{} NOT NULL DEFAULT '{{}}'", words.json),
        Column::Status => format!("{} NOT NULL DEFAULT {}", words.name, profile.states.pending.literal()),
        Column::Attempts => "integer NOT NULL DEFAULT 0".to_owned(),
        Column::MaxAttempts => "integer NOT NULL DEFAULT 10".to_owned(),
        Column::Version => "integer NOT NULL DEFAULT 1".to_owned(),
        Column::CreatedAt | Column::UpdatedAt | Column::AvailableAt => {
            format!("{} NOT NULL DEFAULT {}", words.time, words.now)
        }
        Column::LockedAt | Column::DeliveredAt | Column::OccurredAt => words.time.to_owned(),
        Column::LockedBy if profile.name() == "servicekit" => words.uuid_token.to_owned(),
        Column::LockedBy => words.token.to_owned(),
        Column::ContentType => format!("{} NOT NULL DEFAULT 'application/json'", words.name),
        Column::Sequence => words.sequence.to_owned(),
        Column::Topic
        | Column::Key
        | Column::OrderingKey
        | Column::Source
        | Column::Subject
        | Column::TraceId
        | Column::CorrelationId => words.name.to_owned(),
        Column::LastError => words.text.to_owned(),
    }
}

/// What a table lacks that has no states: what is there counts as delivered, unless it says that it is not.
fn added(profile: &Profile, words: &Words) -> String {
    let table = profile.table.quoted();
    let quoted = |column: Column| profile.columns[&column].quoted();
    let (status, states) = (quoted(Column::Status), &profile.states);
    let mut lacking: Vec<_> = [
        Column::Status,
        Column::Attempts,
        Column::AvailableAt,
        Column::LockedBy,
        Column::LockedAt,
        Column::LastError,
    ]
    .map(|column| format!("ADD COLUMN {} {}", quoted(column), definition(profile, column, words)))
    .to_vec();
    lacking[0] =
        format!("ADD COLUMN {status} {} NOT NULL DEFAULT {}", words.name, states.delivered.literal());
    if profile.name() == "debezium" {
        lacking.push(format!(
            "ADD COLUMN IF NOT EXISTS {} {}",
            quoted(Column::CreatedAt),
            definition(profile, Column::CreatedAt, words)
        ));
    }
    let open = match profile.columns.get(&Column::DeliveredAt) {
        Some(delivered) => format!(
            "-- What was not published yet.\nUPDATE {table} SET {status} = {} WHERE {} IS NULL;\n",
            states.pending.literal(),
            delivered.quoted()
        ),
        None => "-- What is in the table now counts as delivered.\n".to_owned(),
    };
    let (begin, commit) = if words.has_transactional_ddl { ("BEGIN;\n", "COMMIT;\n") } else { ("", "") };
    format!(
        "-- What the profile {} needs beside the table's own columns. Posthaste never changes a table that is not its own: run\n\
         -- this yourself. Producers need not change.\n\
         {begin}ALTER TABLE {table}\n    {};\n\
         ALTER TABLE {table} ALTER COLUMN {status} SET DEFAULT {};\n{open}{}{commit}",
        profile.name(),
        lacking.join(",\n    "),
        states.pending.literal(),
        indexes(profile, words)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_prints_what_it_needs() {
        for name in Profile::NAMES {
            let profile = Profile::named(name).expect(name);
            let ddl = postgres_table_ddl(&profile);
            for column in [Column::Status, Column::Attempts, Column::LockedBy, Column::LockedAt] {
                assert!(ddl.contains(&profile.columns[&column].quoted()), "{name}: {ddl}");
            }
            assert!(!ddl.to_lowercase().contains("drop "), "{name}: {ddl}");
        }
        for name in Profile::NAMES {
            let ddl = mysql_table_ddl(&Profile::named(name).expect(name));
            assert!(
                !ddl.contains('"') && !ddl.contains(") WHERE") && ddl.contains("datetime(6)"),
                "{name}: {ddl}"
            );
        }
        let ddl = postgres_table_ddl(&Profile::named("axcom").unwrap());
        assert!(ddl.contains("DEFAULT 'DELIVERED'") && ddl.contains("SET DEFAULT 'PENDING'"), "{ddl}");
    }
}
