//! What is slow about a table of somebody else, whatever database it is in: the indexes that it lacks.

use std::time::Duration;

use posthaste_core::findings::{Finding, Mend};
use posthaste_core::lane::{LaneSpec, Order};
use posthaste_core::table::{Column, Shape};

/// The name of the check of the index by which claims find what is due.
const DUE: &str = "index of what is due";
/// The name of the check of the index by which claims in order find earlier rows of a key.
const KEYS: &str = "index of keys";

/// How long each question may take.
pub(in crate::store) const ASK_WITHIN: Duration = Duration::from_secs(4);

/// The indexes of a table.
pub(in crate::store) struct Indexes {
    /// The columns of each, in their order.
    pub(in crate::store) columns: Vec<Vec<String>>,
    /// Whether one may hold what is pending alone, so that it need not begin with the state.
    pub(in crate::store) may_be_partial: bool,
}

impl Indexes {
    fn begin_with(&self, columns: &[&str]) -> bool {
        self.columns
            .iter()
            .any(|index| index.iter().map(String::as_str).take(columns.len()).eq(columns.iter().copied()))
    }

    /// What they are worth for these lanes. `ddl` is what `migrate print` shows for the table.
    pub(in crate::store) fn findings(&self, shape: &Shape, lanes: &[LaneSpec], ddl: &str) -> Vec<Finding> {
        let mut found = vec![self.of_due(shape, ddl)];
        found.extend(
            lanes.iter().filter(|lane| lane.order == Order::PerKey).map(|_| self.of_keys(shape, ddl)),
        );
        found
    }

    fn of_due(&self, shape: &Shape, ddl: &str) -> Finding {
        let name = |column: Column| shape.profile.columns[&column].as_str();
        let (status, due) = (name(Column::Status), name(Column::AvailableAt));
        if self.may_be_partial && self.begin_with(&[due]) || self.begin_with(&[status, due]) {
            return Finding::ok(DUE, "there is one");
        }
        let seen = format!(
            "no index of {} is by {status} and {due}: every claim reads the whole table",
            shape.profile.table
        );
        Finding::warning(DUE, seen, made(ddl, "pickup"))
    }

    /// Without an index on the key, a claim in order reads the whole table for each row.
    pub(in crate::store) fn of_keys(&self, shape: &Shape, ddl: &str) -> Finding {
        let table = &shape.profile.table;
        let Some(key) = shape.order_column() else {
            let mend =
                Mend::words("write order = \"none\" for the lane, or name a column with store.columns.key");
            return Finding::warning(
                KEYS,
                format!("order = \"key\", but the table {table} has no column for a key"),
                mend,
            );
        };
        let key = shape.profile.columns[&key].as_str();
        if self.begin_with(&[key]) {
            return self.of_moments(shape, ddl);
        }
        let seen = format!(
            "order = \"key\" needs an index of {table} that begins with {key}, or claims get slower with every row"
        );
        let mend = match made(ddl, "order") {
            Mend::Sql(statements) => Mend::Sql(statements.iter().map(|one| led_by(one, key)).collect()),
            other => other,
        };
        Finding::warning(KEYS, seen, mend)
    }
}

impl Indexes {
    /// Rows of one transaction have one time, and their order is that of another column: by an index, or each claim sorts them all.
    fn of_moments(&self, shape: &Shape, ddl: &str) -> Finding {
        let name = |column: Column| shape.profile.columns.get(&column).map(|name| name.as_str());
        let tie = name(Column::Sequence).or_else(|| name(Column::Id));
        let ends: Vec<&str> =
            [name(Column::AvailableAt), name(Column::CreatedAt), tie].into_iter().flatten().collect();
        let from_status: Vec<&str> = name(Column::Status).into_iter().chain(ends.iter().copied()).collect();
        // Where none is of a part of the rows, every one is ended by the primary key.
        if !self.may_be_partial || self.begin_with(&ends) || self.begin_with(&from_status) {
            return Finding::ok(KEYS, "there is one");
        }
        let seen = format!(
            "order = \"key\" is slow where one transaction inserts many rows into {}: no index is by {}, so every claim sorts them all",
            shape.profile.table,
            ends.join(", ")
        );
        Finding::warning(KEYS, seen, made(ddl, "pickup"))
    }
}

/// The statement with an index whose first column is this one: the table may have more columns than `migrate print` shows.
fn led_by(statement: &str, key: &str) -> String {
    let Some((before, columns)) = statement.split_once(" (") else { return statement.to_owned() };
    let quote = columns.chars().next().unwrap_or('"');
    let quoted = format!("{quote}{key}{quote}");
    match columns.split_once(',') {
        Some((_, others)) if !columns.starts_with(&quoted) => format!("{before} ({quoted},{others}"),
        _ => statement.to_owned(),
    }
}

/// The statement of `migrate print` that makes this index.
fn made(ddl: &str, suffix: &str) -> Mend {
    let names = ['"', '`'].map(|quote| format!("_{suffix}{quote} ON"));
    let is_it =
        |line: &&str| line.starts_with("CREATE INDEX") && names.iter().any(|name| line.contains(name));
    let line = ddl.lines().find(is_it);
    line.map_or_else(
        || Mend::words("`posthaste migrate print --profile …` shows one"),
        |line| Mend::sql(line.trim_end_matches(';')),
    )
}

#[cfg(test)]
mod tests {
    use posthaste_core::findings::Verdict;
    use posthaste_core::table::{Found, Kind, Profile, postgres_table_ddl};

    use super::*;

    #[test]
    fn an_index_that_is_missing_is_told_with_the_statement_that_makes_it() {
        let profile = Profile::open_outbox();
        let column = |(column, name): (&Column, &posthaste_core::table::ColumnName)| Found {
            name: name.as_str().to_owned(),
            kind: column.kinds()[0],
            sql_type: "text".to_owned(),
            nullable: true,
            chars_max: None,
        };
        let found: Vec<Found> = profile.columns.iter().map(column).collect();
        assert!(found.iter().any(|found| found.kind == Kind::Time));
        let shape = Shape::of(profile.clone(), &found, true).unwrap();
        let lanes = [LaneSpec::new("main".parse().unwrap())];
        let ddl = postgres_table_ddl(&profile);
        let judged = |indexes: &[&[&str]]| {
            let indexes =
                indexes.iter().map(|index| index.iter().map(|name| (*name).to_owned()).collect()).collect();
            Indexes { columns: indexes, may_be_partial: true }.findings(&shape, &lanes, &ddl)
        };
        let none = judged(&[&["event_id"]]);
        assert_eq!(none.len(), 2);
        for finding in &none {
            let Some(Mend::Sql(statements)) = &finding.mend else { panic!("{finding:?}") };
            assert!(
                statements[0].starts_with("CREATE INDEX") && !statements[0].ends_with(';'),
                "{statements:?}"
            );
        }
        let Some(Mend::Sql(of_keys)) = &none[1].mend else { panic!("{none:?}") };
        assert!(of_keys[0].contains("(\"ordering_key\", \"created_at\", \"event_id\")"), "{of_keys:?}");
        let sorting = judged(&[&["status", "available_at"], &["ordering_key", "created_at"]]);
        let verdicts: Vec<_> = sorting.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Ok, Verdict::Warning], "{sorting:?}");
        let both = judged(&[&["available_at", "created_at", "event_id"], &["ordering_key", "created_at"]]);
        assert!(both.iter().all(|finding| finding.verdict == Verdict::Ok), "{both:?}");
    }
}
