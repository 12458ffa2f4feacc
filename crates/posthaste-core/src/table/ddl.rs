//! What one would need: printed for whoever owns the table, and never run by Posthaste.

mod index;
mod lacking;

use self::index::indexes;
pub use self::lacking::{Present, mysql_lacking_ddl, postgres_lacking_ddl, sqlite_lacking_ddl};
use super::{Column, Found, Profile};

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
    /// Whether a column can be added with a default that is computed, several at once, and its default
    /// changed afterwards.
    has_free_alter: bool,
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
    has_free_alter: true,
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
    has_free_alter: false,
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
    has_free_alter: true,
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
        index::text(&indexes(profile, words, &everything(profile)))
    )
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

/// The columns of a table that is created as its profile says.
fn everything(profile: &Profile) -> Vec<(Column, Option<&Found>)> {
    let is_created = |column: &&Column| **column != Column::OrderingKey || profile.name() == "custom";
    profile.columns.keys().filter(is_created).map(|column| (*column, None)).collect()
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
        index::text(&indexes(profile, words, &everything(profile)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Kind;
    use crate::table::shape::tests::reference;

    fn found(columns: &[(&str, Kind, &str)]) -> Present {
        let column = |(name, kind, sql_type): &(&str, Kind, &str)| Found {
            name: (*name).to_owned(),
            kind: *kind,
            sql_type: (*sql_type).to_owned(),
            nullable: true,
            chars_max: None,
        };
        Present { columns: columns.iter().map(column).collect(), indexes: vec![vec!["event_id".to_owned()]] }
    }

    /// A table with a number for its id, and nothing of how far a row is.
    fn ordinary(time: &str) -> Present {
        found(&[
            ("event_id", Kind::Int, "bigint"),
            ("event_type", Kind::Text, "text"),
            ("payload", Kind::Json, "json"),
            ("created_at", Kind::Time, time),
        ])
    }

    #[test]
    fn a_table_that_is_there_is_added_to_in_its_own_types() {
        let profile = Profile::open_outbox();
        let postgres = postgres_lacking_ddl(&profile, &ordinary("timestamp with time zone"));
        for part in [
            "ADD COLUMN \"status\" text NOT NULL DEFAULT 'DELIVERED'",
            "ADD COLUMN \"available_at\" timestamp with time zone NOT NULL DEFAULT now()",
            "ADD COLUMN \"locked_at\" timestamp with time zone",
            "ALTER COLUMN \"status\" SET DEFAULT 'PENDING'",
            "-- UPDATE \"openoutbox_events\" SET \"status\" = 'PENDING'",
            "CREATE INDEX \"openoutbox_events_pickup\"",
        ] {
            assert!(postgres.contains(part), "{part}: {postgres}");
        }
        for absent in ["CREATE TABLE", "uuid", "\"payload\" ", "partition_key", "_order", "NOT SOLVED"] {
            assert!(!postgres.contains(absent), "{absent}: {postgres}");
        }
        let mysql = mysql_lacking_ddl(&profile, &ordinary("timestamp(6)"));
        assert!(
            mysql.contains("`available_at` timestamp(6) NOT NULL DEFAULT current_timestamp(6)"),
            "{mysql}"
        );
        let mysql = mysql_lacking_ddl(&profile, &ordinary("datetime"));
        assert!(mysql.contains("`available_at` datetime NOT NULL DEFAULT (utc_timestamp(6))"), "{mysql}");
        assert!(!mysql.contains('"') && !mysql.contains("BEGIN") && !mysql.contains("UNIQUE"), "{mysql}");
        let without = Present { indexes: Vec::new(), ..ordinary("datetime") };
        assert!(mysql_lacking_ddl(&profile, &without).contains("CREATE UNIQUE INDEX `openoutbox_events_id`"));
        let sqlite = sqlite_lacking_ddl(&profile, &ordinary("DATETIME"));
        assert!(sqlite.contains("\"available_at\" DATETIME NOT NULL DEFAULT '1970-"), "{sqlite}");
        assert!(sqlite.contains("\nUPDATE \"openoutbox_events\" SET \"status\" = 'DELIVERED';"), "{sqlite}");
    }

    #[test]
    fn what_a_table_has_is_not_added_and_what_only_its_owner_can_change_is_said() {
        let profile = Profile::open_outbox();
        let mut present = Present { columns: reference(), indexes: Vec::new() };
        let ddl = postgres_lacking_ddl(&profile, &present);
        assert!(!ddl.contains("ALTER TABLE") && ddl.contains("_pickup"), "{ddl}");
        let begins = ["available_at", "locked_at", "partition_key", "created_at", "delivered_at"];
        present.indexes = begins.iter().map(|column| vec![(*column).to_owned()]).collect();
        let ddl = postgres_lacking_ddl(&profile, &present);
        assert!(ddl.starts_with("-- The table openoutbox_events has every column and every index"), "{ddl}");
        assert!(mysql_lacking_ddl(&profile, &present).contains("_pickup"), "there the state comes first");
        present.columns.retain(|found| found.name != "event_type" && found.name != "locked_by");
        present.columns.iter_mut().filter(|found| found.name == "created_at").for_each(|found| {
            (found.kind, found.sql_type) = (Kind::Other, "timestamp without time zone".to_owned());
        });
        let ddl = postgres_lacking_ddl(&profile, &present);
        assert!(ddl.contains("NOT SOLVED BELOW: no column event_type, and producers fill it"), "{ddl}");
        assert!(
            ddl.contains("NOT SOLVED BELOW: the column created_at has the type timestamp without"),
            "{ddl}"
        );
        assert!(ddl.contains("ADD COLUMN \"locked_by\" text;"), "{ddl}");
    }

    #[test]
    fn what_says_that_it_was_published_is_believed() {
        let profile = Profile::named("axcom").unwrap();
        let present = found(&[
            ("id", Kind::Uuid, "uuid"),
            ("topic", Kind::Text, "text"),
            ("payload", Kind::Json, "jsonb"),
            ("created_at", Kind::Time, "timestamp with time zone"),
            ("published_at", Kind::Time, "timestamp with time zone"),
        ]);
        let ddl = postgres_lacking_ddl(&profile, &present);
        assert!(ddl.contains("SET \"status\" = 'PENDING' WHERE \"published_at\" IS NULL;"), "{ddl}");
        let ddl = sqlite_lacking_ddl(&profile, &present);
        assert!(ddl.contains("SET \"status\" = 'DELIVERED' WHERE \"published_at\" IS NOT NULL;"), "{ddl}");
    }

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
