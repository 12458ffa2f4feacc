//! What one would need: printed for whoever owns the table, and never run by Posthaste.

use super::{Column, Profile};

/// The SQL that makes a table of this profile on Postgres or, for tables that do not say how far a row is, adds what is missing.
pub fn postgres_table_ddl(profile: &Profile) -> String {
    match profile.name() {
        "axcom" | "debezium" => added(profile),
        _ => made(profile, Dialect::Postgres),
    }
}

/// The same for SQLite: times are text, as `datetime` writes them.
pub fn sqlite_table_ddl(profile: &Profile) -> String {
    made(profile, Dialect::Sqlite)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Postgres,
    Sqlite,
}

fn made(profile: &Profile, dialect: Dialect) -> String {
    let table = profile.table.quoted();
    // As a reader expects them: the event, then how far it is.
    let columns: Vec<_> = Column::ALL
        .into_iter()
        .filter(|column| *column != Column::OrderingKey || profile.name() == "custom")
        .filter_map(|column| Some((column, profile.columns.get(&column)?.quoted())))
        .map(|(column, name)| format!("    {name} {}", definition(profile, column, dialect)))
        .collect();
    let states = &profile.states;
    let status = profile.columns[&Column::Status].quoted();
    let all =
        [&states.pending, &states.delivering, &states.delivered, &states.dead].map(|state| state.literal());
    format!(
        "-- The table of the profile {}. Posthaste never changes a table that is not its own: run this yourself.\n\
         CREATE TABLE {table} (\n{},\n    CHECK ({status} IN ({}))\n);\n{}",
        profile.name(),
        columns.join(",\n"),
        all.join(", "),
        indexes(profile)
    )
}

/// The indexes without which a claim, a sweep or a prune reads the whole table.
fn indexes(profile: &Profile) -> String {
    let (table, name) = (profile.table.quoted(), profile.table.name());
    let column = |column: Column| profile.columns.get(&column).map(|name| name.quoted());
    let needed = |column: Column| profile.columns[&column].quoted();
    let (status, states) = (needed(Column::Status), &profile.states);
    let mut all = format!(
        "-- What is to be claimed, and what is claimed.\n\
         CREATE INDEX \"{name}_pickup\" ON {table} ({}, {}) WHERE {status} = {};\n\
         CREATE INDEX \"{name}_stuck\" ON {table} ({}) WHERE {status} = {};\n",
        needed(Column::AvailableAt),
        needed(Column::CreatedAt),
        states.pending.literal(),
        needed(Column::LockedAt),
        states.delivering.literal(),
    );
    if let Some(key) = column(Column::Key) {
        all.push_str(&format!(
            "-- For a lane with order = \"key\" only.\n\
             CREATE INDEX \"{name}_order\" ON {table} ({key}, {}) WHERE {status} IN ({}, {});\n",
            needed(Column::CreatedAt),
            states.pending.literal(),
            states.delivering.literal(),
        ));
    }
    if let Some(delivered) = column(Column::DeliveredAt) {
        all.push_str(&format!(
            "-- For pruning.\n\
             CREATE INDEX \"{name}_delivered\" ON {table} ({delivered}) WHERE {status} = {};\n",
            states.delivered.literal()
        ));
    }
    all
}

fn definition(profile: &Profile, column: Column, dialect: Dialect) -> String {
    let is_postgres = dialect == Dialect::Postgres;
    let time = if is_postgres { "timestamptz" } else { "text" };
    let now = if is_postgres { "now()" } else { "(strftime('%Y-%m-%d %H:%M:%f', 'now'))" };
    match column {
        Column::Id if is_postgres => "uuid PRIMARY KEY DEFAULT gen_random_uuid()".to_owned(),
        Column::Id => "text PRIMARY KEY NOT NULL".to_owned(),
        Column::Type => "text NOT NULL".to_owned(),
        Column::Payload => format!("{} NOT NULL", if is_postgres { "bytea" } else { "blob" }),
        Column::Headers => format!("{} NOT NULL DEFAULT '{{}}'", if is_postgres { "jsonb" } else { "text" }),
        Column::Status => format!("text NOT NULL DEFAULT {}", profile.states.pending.literal()),
        Column::Attempts => "integer NOT NULL DEFAULT 0".to_owned(),
        Column::MaxAttempts => "integer NOT NULL DEFAULT 10".to_owned(),
        Column::Version => "integer NOT NULL DEFAULT 1".to_owned(),
        Column::CreatedAt | Column::UpdatedAt | Column::AvailableAt => {
            format!("{time} NOT NULL DEFAULT {now}")
        }
        Column::LockedAt | Column::DeliveredAt | Column::OccurredAt => time.to_owned(),
        Column::LockedBy if is_postgres && profile.name() == "servicekit" => "uuid".to_owned(),
        Column::ContentType => "text NOT NULL DEFAULT 'application/json'".to_owned(),
        Column::Sequence if is_postgres => "bigint GENERATED ALWAYS AS IDENTITY".to_owned(),
        Column::Sequence => "integer".to_owned(),
        Column::Topic
        | Column::Key
        | Column::OrderingKey
        | Column::Source
        | Column::Subject
        | Column::LockedBy
        | Column::LastError => "text".to_owned(),
    }
}

/// What a table lacks that has no states: what is there counts as delivered, unless it says that it is not.
fn added(profile: &Profile) -> String {
    let table = profile.table.quoted();
    let quoted = |column: Column| profile.columns[&column].quoted();
    let (status, states) = (quoted(Column::Status), &profile.states);
    let mut lacking = vec![
        format!("ADD COLUMN {status} text NOT NULL DEFAULT {}", states.delivered.literal()),
        format!("ADD COLUMN {} integer NOT NULL DEFAULT 0", quoted(Column::Attempts)),
        format!("ADD COLUMN {} timestamptz NOT NULL DEFAULT now()", quoted(Column::AvailableAt)),
        format!("ADD COLUMN {} text", quoted(Column::LockedBy)),
        format!("ADD COLUMN {} timestamptz", quoted(Column::LockedAt)),
        format!("ADD COLUMN {} text", quoted(Column::LastError)),
    ];
    if profile.name() == "debezium" {
        lacking.push(format!(
            "ADD COLUMN IF NOT EXISTS {} timestamptz NOT NULL DEFAULT now()",
            quoted(Column::CreatedAt)
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
    format!(
        "-- What the profile {} needs beside the table's own columns. Posthaste never changes a table that is not its own: run\n\
         -- this yourself. Producers need not change.\n\
         BEGIN;\nALTER TABLE {table}\n    {};\n\
         ALTER TABLE {table} ALTER COLUMN {status} SET DEFAULT {};\n{open}{}COMMIT;\n",
        profile.name(),
        lacking.join(",\n    "),
        states.pending.literal(),
        indexes(profile)
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
        let ddl = postgres_table_ddl(&Profile::named("axcom").unwrap());
        assert!(ddl.contains("DEFAULT 'DELIVERED'") && ddl.contains("SET DEFAULT 'PENDING'"), "{ddl}");
    }
}
