//! What a transaction must do, as data: statements and what they must answer. Async and blocking drivers play the same.

use posthaste_sql::{BlockingTx, Dialect, Result, Statement, Tx, Value};

/// One statement and what it must answer.
pub(crate) struct Step {
    statement: Statement,
    expected: Expected,
}

#[derive(Debug)]
enum Expected {
    Rows(u64),
    /// For statements that change no rows; what the drivers count then differs.
    Done,
    Duplicate,
    OtherError,
}

/// The table that a script works on: `id` is its key, `slot` unique, `note` and `data` anything.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
}

pub(crate) type Script = fn(&Table) -> Vec<Step>;

/// Every script expects an empty table.
pub(crate) const SCRIPTS: &[Script] = &[
    values_come_back_as_they_were,
    rows_changed_are_counted,
    a_duplicate_is_told_from_other_errors,
    a_savepoint_undoes_its_part,
];

pub(crate) async fn play(tx: &mut dyn Tx, steps: Vec<Step>) {
    for step in steps {
        let sql = step.statement.sql.clone();
        check(&sql, &step.expected, tx.execute(step.statement).await);
    }
}

pub(crate) fn play_blocking(tx: &mut dyn BlockingTx, steps: Vec<Step>) {
    for step in steps {
        let sql = step.statement.sql.clone();
        check(&sql, &step.expected, tx.execute(step.statement));
    }
}

fn check(sql: &str, expected: &Expected, answer: Result<u64>) {
    let as_expected = match (expected, &answer) {
        (Expected::Rows(expected), Ok(rows)) => rows == expected,
        (Expected::Done, Ok(_)) => true,
        (Expected::Duplicate, Err(error)) => error.is_duplicate(),
        (Expected::OtherError, Err(error)) => !error.is_duplicate(),
        _ => false,
    };
    assert!(as_expected, "{sql}\nexpected {expected:?}, got {answer:?}");
}

impl Table {
    pub(crate) fn create(&self) -> String {
        let bytes = match self.dialect {
            Dialect::Postgres => "bytea",
            _ => "blob",
        };
        format!(
            "CREATE TABLE {} (id bigint NOT NULL PRIMARY KEY, slot bigint UNIQUE, note text, data {bytes})",
            self.name
        )
    }

    pub(crate) fn drop(&self) -> String {
        format!("DROP TABLE IF EXISTS {}", self.name)
    }

    /// Adds one row.
    pub(crate) fn insert(&self, id: i64, note: Option<&str>, data: Option<Vec<u8>>) -> Statement {
        let values = vec![Value::Int(Some(id)), Value::Text(note.map(str::to_owned)), Value::Bytes(data)];
        self.statement("INSERT INTO {t} (id, note, data) VALUES ({1}, {2}, {3})", values)
    }

    /// Changes nothing in every row, and so counts them.
    pub(crate) fn count(&self) -> Statement {
        self.statement("UPDATE {t} SET id = id", Vec::new())
    }

    /// What [`count`](Self::count) must answer.
    pub(crate) fn holds(&self, rows: u64) -> Vec<Step> {
        vec![Step::rows(self.count(), rows)]
    }

    /// `{t}` is the table, `{1}`, `{2}`, … the placeholders with their casts, `{is}` an equality that knows nulls.
    fn statement(&self, template: &str, values: Vec<Value>) -> Statement {
        let (is, sign) = match self.dialect {
            Dialect::Postgres => ("IS NOT DISTINCT FROM", '$'),
            _ => ("IS", '?'),
        };
        let mut sql = template.replace("{t}", &self.name).replace("{is}", is);
        for (index, value) in values.iter().enumerate() {
            let cast = match (self.dialect, value) {
                (Dialect::Postgres, Value::Int(_)) => "::bigint",
                (Dialect::Postgres, Value::Text(_)) => "::text",
                (Dialect::Postgres, Value::Bytes(_)) => "::bytea",
                _ => "",
            };
            let number = index + 1;
            sql = sql.replace(&format!("{{{number}}}"), &format!("{sign}{number}{cast}"));
        }
        Statement::new(sql, values)
    }
}

impl Step {
    fn rows(statement: Statement, rows: u64) -> Self {
        Self { statement, expected: Expected::Rows(rows) }
    }

    fn done(sql: &'static str) -> Self {
        Self { statement: Statement::new(sql, Vec::new()), expected: Expected::Done }
    }
}

/// The database itself compares: a row is found again by exactly the values that went in.
fn values_come_back_as_they_were(table: &Table) -> Vec<Step> {
    let long = "é🦀".repeat(175_000);
    let texts = [
        None,
        Some(""),
        Some("🦀 ünïcödé \u{1F469}\u{200D}\u{1F680}"),
        Some("it's \"quoted\" \\ $1 ?1 --"),
        Some(&*long),
    ];
    let bytes =
        [None, Some(vec![]), Some(vec![0, 255, 39, 92]), Some((0..=255).collect()), Some(vec![7; 1 << 20])];
    let ids = [0, -1, 1, i64::MIN, i64::MAX];
    let mut steps = Vec::new();
    for ((id, note), data) in ids.into_iter().zip(texts).zip(bytes) {
        let values =
            vec![Value::Int(Some(id)), Value::Text(note.map(str::to_owned)), Value::Bytes(data.clone())];
        steps.push(Step::rows(table.insert(id, note, data), 1));
        let same = "UPDATE {t} SET id = id WHERE id = {1} AND note {is} {2} AND data {is} {3}";
        steps.push(Step::rows(table.statement(same, values), 1));
        if note.is_none() {
            let null = "UPDATE {t} SET id = id WHERE note IS NULL AND data IS NULL AND {1} IS NULL";
            steps.push(Step::rows(table.statement(null, vec![Value::Int(None)]), 1));
        }
    }
    steps
}

/// Also none, and none because the row was there already: that is how publishing once tells that it did nothing.
fn rows_changed_are_counted(table: &Table) -> Vec<Step> {
    vec![
        Step::rows(table.statement("INSERT INTO {t} (id) VALUES (1), (2), (3)", vec![]), 3),
        Step::rows(
            table.statement("UPDATE {t} SET note = NULL WHERE id > {1}", vec![Value::Int(Some(1))]),
            2,
        ),
        Step::rows(table.statement("INSERT INTO {t} (id) VALUES (3) ON CONFLICT DO NOTHING", vec![]), 0),
        Step::rows(table.statement("INSERT INTO {t} (id) VALUES (3), (4) ON CONFLICT DO NOTHING", vec![]), 1),
        Step::rows(table.statement("DELETE FROM {t} WHERE id > 99", vec![]), 0),
        Step::rows(table.count(), 4),
    ]
}

/// Savepoints around the failures, because Postgres lets nothing else happen in a transaction that failed.
fn a_duplicate_is_told_from_other_errors(table: &Table) -> Vec<Step> {
    let no_id = table.statement("INSERT INTO {t} (id) VALUES ({1})", vec![Value::Int(None)]);
    let no_table = table.statement("INSERT INTO no_such_table (id) VALUES (1)", vec![]);
    let failures = [
        (table.statement("INSERT INTO {t} (id, slot) VALUES (1, 2)", vec![]), Expected::Duplicate),
        (table.statement("INSERT INTO {t} (id, slot) VALUES (2, 1)", vec![]), Expected::Duplicate),
        (no_id, Expected::OtherError),
        (no_table, Expected::OtherError),
    ];
    let mut steps = vec![Step::rows(table.statement("INSERT INTO {t} (id, slot) VALUES (1, 1)", vec![]), 1)];
    for (statement, expected) in failures {
        steps.push(Step::done("SAVEPOINT before"));
        steps.push(Step { statement, expected });
        steps.push(Step::done("ROLLBACK TO SAVEPOINT before"));
    }
    steps.push(Step::rows(table.insert(2, None, None), 1));
    steps.push(Step::rows(table.count(), 2));
    steps
}

fn a_savepoint_undoes_its_part(table: &Table) -> Vec<Step> {
    vec![
        Step::rows(table.insert(1, None, None), 1),
        Step::done("SAVEPOINT part"),
        Step::rows(table.insert(2, None, None), 1),
        Step::rows(table.count(), 2),
        Step::done("ROLLBACK TO SAVEPOINT part"),
        Step::rows(table.count(), 1),
    ]
}
