//! The statements of the table engine on MariaDB and MySQL, made from a shape.
//!
//! Names stand in double quotes, so a connection has `ANSI_QUOTES` in its `sql_mode`. An `UPDATE` assigns
//! from left to right here: what the attempts decide stands before they are counted.
//!
//! Lists travel as JSON and become rows by `JSON_TABLE`, with the types of the columns that they are compared
//! with, so that rows are found by their index. A name there ends with `$`, which a name of a table's column
//! never does. The join has a fixed order: an `UPDATE` with an `IN` of a subquery reads the whole table
//! (MariaDB before 11.1). A text with a placeholder for each id would be prepared again for each number of
//! ids.

mod claim;
mod insert;
mod look;
mod settle;

pub use insert::MysqlInsert;

use super::text::{self, As};
use super::{Column, Kind, RowChange, Shape};
use crate::admin::EventState;

/// What the relay asks the catalog about a table: schema or NULL, name.
const COLUMNS: &str = include_str!("columns.sql");
/// What is known of a table without reading it.
const SIZE: &str = "SELECT CAST(COALESCE(data_length, 0) AS SIGNED), CAST(COALESCE(table_rows, 0) AS SIGNED), \
    EXISTS (SELECT 1 FROM information_schema.statistics AS s WHERE s.table_schema = COALESCE(?1, DATABASE()) AND s.table_name = ?2 \
    AND s.column_name = ?3 AND s.seq_in_index = 1) \
    FROM information_schema.tables WHERE table_schema = COALESCE(?1, DATABASE()) AND table_name = ?2";

/// A statement with plain placeholders, made from one with numbered ones: a value that is used twice is handed over twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MysqlText {
    /// The text.
    pub text: String,
    /// Which value belongs to each placeholder, counted from 0.
    pub order: Vec<usize>,
}

impl MysqlText {
    fn of(numbered: &str) -> Self {
        let (mut text, mut order) = (String::with_capacity(numbered.len()), Vec::new());
        let mut parts = numbered.split('?');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = part[..digits].parse().expect("a number stands after each question mark");
            order.push(number - 1);
            text.push('?');
            text.push_str(&part[digits..]);
        }
        Self { text, order }
    }
}

/// The texts of all statements on one table. Where a parameter is a list, it is a JSON array; where it has rows, an array of
/// arrays.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MysqlTableSql {
    /// The name of the lock by which claims in order come one after another.
    pub order_lock: String,
    /// Leases rows that are pending: ids, token.
    pub take: MysqlText,
    /// Reads what a claim leased: ids, token.
    pub read: MysqlText,
    /// Records deliveries: ids, tokens.
    pub delivered: MysqlText,
    /// Records failures that are tried again: rows of id, pause in milliseconds and error; tokens.
    pub retry: MysqlText,
    /// Records deaths: rows of id, error and whether the budget was spent; tokens.
    pub dead: MysqlText,
    /// Records that an operator buries what was taken for that: ids, tokens, error.
    pub buried: MysqlText,
    /// Hands back what was not sent: ids, tokens.
    pub released: MysqlText,
    /// Gives up what was sent and not answered: ids, tokens, budget. Counts as an attempt.
    pub abandoned: MysqlText,
    /// The ids of whatever these claims hold: tokens.
    pub held_by: MysqlText,
    /// Renews leases: ids, tokens.
    pub renewed: MysqlText,
    /// The ids of rows whose lease has ended: milliseconds, rows at most, how many are passed over.
    pub expired: MysqlText,
    /// Locks those of them and answers their ids and whether they die by it: ids, milliseconds, budget.
    pub lock_expired: MysqlText,
    /// Takes back rows that are locked by that: ids, budget.
    pub sweep: MysqlText,
    /// How many of these rows are delivering all the same: ids.
    pub still: MysqlText,
    /// Counts the rows by state.
    pub counts: MysqlText,
    /// Count at most [`COUNTED_MAX`](Self::COUNTED_MAX) rows that are pending, delivering, dead, and in a state that the profile does not
    /// name: all, fresh, given up, the oldest that is fresh.
    pub few: [MysqlText; 4],
    /// Adds an event: id, type, payload, when it is available in microseconds since 1970, in how many microseconds it is, and the
    /// columns of [`insert_columns`](Self::insert_columns). Fails for one that is there.
    pub insert: MysqlText,
    /// Which columns an insert has values for after its first five.
    pub insert_columns: Vec<Column>,
    /// The event with this id.
    pub same: MysqlText,
    /// Removes delivered rows: age in milliseconds, rows at most.
    pub prune_delivered: MysqlText,
    /// Removes dead rows: age in milliseconds, rows at most.
    pub prune_dead: MysqlText,
    /// Counts what the two would remove: age in milliseconds.
    pub count_delivered: MysqlText,
    /// Counts dead ones.
    pub count_dead: MysqlText,
    shape: Shape,
    indexes: Indexes,
}

/// The names of the indexes by which rows must be found. The server would rather read a small table as a whole, and lock on its
/// way what others have in hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexes {
    /// Begins with the id.
    pub by_id: String,
    /// Begins with the state and the time from which a row is due, if there is one.
    pub by_time: Option<String>,
    /// Begins with the key, best with the state after it, if there is one.
    pub by_key: Option<String>,
}

/// Where they stand in a text.
const BY_ID: &str = "@by_id";
const BY_TIME: &str = "@by_time";
const BY_KEY: &str = "@by_key";

impl Indexes {
    fn put_into(&self, text: &str) -> String {
        let force = |name: &String| format!("FORCE INDEX (\"{}\")", name.replace('"', "\"\""));
        let by = |index: &Option<String>| index.as_ref().map(force).unwrap_or_default();
        text.replace(BY_ID, &force(&self.by_id))
            .replace(BY_TIME, &by(&self.by_time))
            .replace(BY_KEY, &by(&self.by_key))
    }
}

/// Which parts of a question are asked; the values keep their numbers whether they are used or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// By ids (1).
    pub ids: bool,
    /// By type (2).
    pub event_type: bool,
    /// By key (3).
    pub key: bool,
    /// Not before (4), in microseconds since 1970.
    pub since: bool,
    /// Before (5).
    pub until: bool,
    /// After the end of a page: its time (6) and tie (7).
    pub after: bool,
    /// Failed with a code (9).
    pub code: bool,
    /// Failed with a text (10) in what the failure said.
    pub error: bool,
    /// With a topic that matches an expression (11).
    pub topic: bool,
    /// But those that became due since a moment (12), by the very command that asks.
    pub but_due_since: bool,
}

impl MysqlTableSql {
    /// The statements for a table of this shape.
    pub fn new(shape: Shape, indexes: Indexes) -> Self {
        let (s, states) = (&shape, &shape.profile.states);
        let insert_columns = text::insert_columns(s);
        let made = |numbered: String| MysqlText::of(&indexes.put_into(&numbered));
        Self {
            order_lock: format!("posthaste {}", s.profile.table.to_string().to_lowercase()),
            take: made(claim::take(s)),
            read: made(claim::read(s)),
            delivered: made(settle::delivered(s)),
            retry: made(settle::retry(s)),
            dead: made(settle::dead(s)),
            buried: made(settle::buried(s)),
            released: made(settle::released(s)),
            abandoned: made(settle::abandoned(s)),
            held_by: made(settle::held_by(s)),
            renewed: made(settle::renewed(s)),
            expired: made(settle::expired(s)),
            lock_expired: made(settle::lock_expired(s)),
            sweep: made(settle::sweep(s)),
            still: made(settle::still(s)),
            counts: made(text::counts(s, &due(s), &micros(&column(s, Column::CreatedAt)))),
            few: few(s).map(made),
            insert: made(settle::insert(s, &insert_columns)),
            insert_columns,
            same: made(settle::same(s)),
            prune_delivered: made(look::prune(s, &states.delivered, Column::DeliveredAt)),
            prune_dead: made(look::prune(s, &states.dead, Column::UpdatedAt)),
            count_delivered: made(look::prune_count(s, &states.delivered, Column::DeliveredAt)),
            count_dead: made(look::prune_count(s, &states.dead, Column::UpdatedAt)),
            shape,
            indexes,
        }
    }

    /// Locks rows to claim and answers their ids and weights. The values are rows at most, place in microseconds since 1970, then so
    /// many ids to pass over.
    pub fn pick(&self, from_start: bool, passed: usize) -> MysqlText {
        self.made(&claim::pick(&self.shape, from_start, passed))
    }

    /// Rows that may be claimed in the order of a key, if nothing earlier of their keys holds them back: id, weight, key, when it
    /// was made in microseconds since 1970, whether it was tried before. The values are rows at most, place, how many rows to pass
    /// over, then so many ids to pass over, then so many keys whose rows that were never tried are left out.
    pub fn pick_ordered(&self, from_start: bool, passed: usize, left_out: usize) -> MysqlText {
        self.made(&claim::pick_ordered(&self.shape, from_start, passed, left_out))
    }

    /// What is open of so many keys, in its order, and is due or holds later ones back: id, key, whether it holds back. The
    /// values are a time up to which, place, own tokens, ids of slow rows, then the keys.
    pub fn open_of_keys(&self, from_start: bool, keys: usize) -> MysqlText {
        self.made(&claim::open_of_keys(&self.shape, from_start, keys))
    }

    fn made(&self, numbered: &str) -> MysqlText {
        MysqlText::of(&self.indexes.put_into(numbered))
    }

    /// So many rows of a state are counted at most. Of more nothing tells how many they are: a count that stands still there must be
    /// larger than what usually waits.
    pub const COUNTED_MAX: u32 = 100_001;

    /// Asks about how many bytes and rows a table has, and whether an index begins with a column: schema (NULL: the one of the
    /// connection), table, column.
    pub fn size() -> MysqlText {
        MysqlText::of(SIZE)
    }

    /// Asks the catalog about a table: its schema (NULL: the one of the connection), its name.
    pub fn columns() -> &'static str {
        COLUMNS
    }

    /// The shape that these statements are for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Finds rows, the newest first; the values are those of [`Asked`], then rows at most (8).
    pub fn find(&self, which: &str, asked: Asked) -> MysqlText {
        MysqlText::of(&look::find(&self.shape, which, asked))
    }

    /// Counts the rows that match, and says what time it is in microseconds since 1970; values as [`find`](Self::find).
    pub fn find_count(&self, which: &str, asked: Asked) -> MysqlText {
        MysqlText::of(&look::find_count(&self.shape, which, asked))
    }

    /// Changes rows, the earliest first; values as [`find`](Self::find), then (12) what the change was given: a moment, an error or
    /// a token.
    pub fn change(&self, which: &str, asked: Asked, change: RowChange) -> MysqlText {
        MysqlText::of(&look::change(&self.shape, which, asked, change))
    }

    /// The condition that rows wait and no relay has them.
    pub fn unclaimed(&self) -> String {
        text::unclaimed(&self.shape)
    }

    /// The condition that rows are in this state; `None` where a table cannot tell it.
    pub fn in_state(&self, state: EventState) -> Option<String> {
        text::in_state(&self.shape, state, &due(&self.shape))
    }
}

fn few(shape: &Shape) -> [String; 4] {
    let [pending, delivering, dead] = text::small_states(shape);
    let (status, states) = (column(shape, Column::Status), &shape.profile.states);
    let named =
        [&states.pending, &states.delivering, &states.delivered, &states.dead].map(|state| state.literal());
    // In words of which an index is of use.
    let unknown = format!("({status} NOT IN ({}) OR {status} IS NULL)", named.join(", "));
    let created = micros(&column(shape, Column::CreatedAt));
    [pending, delivering, dead, unknown]
        .map(|condition| text::bounded(shape, &condition, &due(shape), &created, MysqlTableSql::COUNTED_MAX))
}

/// The database's time, in UTC whatever the zone of the connection is.
const NOW: &str = "UTC_TIMESTAMP(6)";

fn column(shape: &Shape, column: Column) -> String {
    format!("t.{}", shape.needed(column))
}

/// A time as microseconds since 1970.
fn micros(time: &str) -> String {
    format!("TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {time})")
}

/// The time that a parameter gives in microseconds since 1970.
fn moment(parameter: &str) -> String {
    format!("(TIMESTAMP'1970-01-01 00:00:00.000000' + INTERVAL {parameter} MICROSECOND)")
}

/// That a row's time has come, in a form for which an index is of use.
fn due(shape: &Shape) -> String {
    let available = column(shape, Column::AvailableAt);
    if shape.found(Column::AvailableAt).is_some_and(|found| found.nullable) {
        format!("({available} <= {NOW} OR {available} IS NULL)")
    } else {
        format!("({available} <= {NOW})")
    }
}

/// Whether UUIDs are kept as their sixteen bytes.
fn is_binary(shape: &Shape, column: Column) -> bool {
    shape.found(column).is_some_and(|found| found.kind == Kind::Uuid && found.sql_type.starts_with("binary"))
}

/// A column as text.
fn as_text(shape: &Shape, of: Column) -> String {
    let name = column(shape, of);
    if is_binary(shape, of) {
        let dashed = [9, 14, 19, 24]
            .iter()
            .fold(format!("HEX({name})"), |hex, at| format!("INSERT({hex}, {at}, 0, '-')"));
        return format!("LOWER({dashed})");
    }
    format!("CAST({name} AS CHAR CHARACTER SET utf8mb4)")
}

/// A text as this column keeps it.
fn from_text(shape: &Shape, column: Column, value: &str) -> String {
    match shape.found(column) {
        _ if is_binary(shape, column) => format!("UNHEX(REPLACE({value}, '-', ''))"),
        Some(found) if found.kind == Kind::Uuid => format!("CAST({value} AS {})", found.sql_type),
        _ => value.to_owned(),
    }
}

/// The type that a value from JSON gets, so that it is compared with this column by its index.
fn json_type(shape: &Shape, column: Column) -> &str {
    match shape.found(column) {
        Some(found) if matches!(found.kind, Kind::Text | Kind::Enum) => {
            // A list of values is no type of JSON_TABLE, and a text without a length is none of an index.
            if found.sql_type.starts_with("varchar") || found.sql_type.starts_with("char") {
                &found.sql_type
            } else {
                "varchar(255) CHARACTER SET utf8mb4"
            }
        }
        Some(found) if found.kind == Kind::Int => "bigint",
        _ => "varchar(64) CHARACTER SET utf8mb4",
    }
}

/// A list of values to compare with this column, as rows with the one column `v$`.
fn list(shape: &Shape, column: Column, parameter: &str, alias: &str) -> String {
    format!("JSON_TABLE({parameter}, '$[*]' COLUMNS (v$ {} PATH '$')) AS {alias}", json_type(shape, column))
}

/// Rows of the table by the ids of a list (`?1`).
fn named(shape: &Shape) -> String {
    by_id(shape, &list(shape, Column::Id, "?1", "j"), "j.v$")
}

/// Rows of the table by an id of other rows. The order of the tables is said: what names a row, then the row by its index.
fn by_id(shape: &Shape, from: &str, id: &str) -> String {
    format!(
        "{from} STRAIGHT_JOIN {} AS t {BY_ID} ON {} = {}",
        shape.profile.table.quoted(),
        column(shape, Column::Id),
        from_text(shape, Column::Id, id)
    )
}

/// The payload as bytes, text in UTF-8.
fn payload(shape: &Shape) -> String {
    let name = column(shape, Column::Payload);
    match shape.found(Column::Payload).map(|found| found.kind) {
        Some(Kind::Bytes) => name,
        _ => format!("CAST(CONVERT({name} USING utf8mb4) AS BINARY)"),
    }
}

/// The columns of an event, in the order in which a row is read.
fn event_columns(shape: &Shape) -> String {
    text::event_columns(|of, read| match (shape.quoted(of), read) {
        (None, _) => "NULL".to_owned(),
        (Some(_), As::Text) => as_text(shape, of),
        (Some(name), As::Int) => format!("CAST(t.{name} AS SIGNED)"),
        (Some(name), As::Time) => micros(&format!("t.{name}")),
        (Some(_), As::Payload) => payload(shape),
    })
}

/// An error as the column takes it: in its characters, and no longer.
fn error_text(shape: &Shape, value: &str) -> String {
    let Some(found) = shape.found(Column::LastError) else { return value.to_owned() };
    let charset = found.sql_type.split_once("CHARACTER SET ").map(|(_, rest)| rest);
    let charset = charset.and_then(|rest| rest.split(' ').next()).unwrap_or("utf8mb4");
    let chars =
        found.chars_max.unwrap_or(u32::MAX) / if found.sql_type.starts_with("varchar") { 1 } else { 4 };
    format!("LEFT(CONVERT({value} USING {charset}), {})", chars.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::reference;
    use super::super::{Found, Profile};
    use super::*;

    /// The reference table as MariaDB describes it.
    fn described() -> Vec<Found> {
        let mut found = reference();
        for column in &mut found {
            column.sql_type = match column.kind {
                Kind::Uuid => "uuid",
                Kind::Int => "int(11)",
                Kind::Bytes => "longblob",
                Kind::Time => "datetime(6)",
                _ => "varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            }
            .to_owned();
        }
        found
    }

    fn sql(found: &[Found], profile: Profile) -> MysqlTableSql {
        let indexes = Indexes { by_id: "PRIMARY".to_owned(), by_time: None, by_key: Some("keys".to_owned()) };
        MysqlTableSql::new(Shape::of(profile, found, false).unwrap(), indexes)
    }

    #[test]
    fn a_value_that_is_used_twice_is_handed_over_twice() {
        let text = MysqlText::of("a = ?2 AND b = ?1 AND c = ?2 LIMIT ?12");
        assert_eq!(text.text, "a = ? AND b = ? AND c = ? LIMIT ?");
        assert_eq!(text.order, [1, 0, 1, 11]);
    }

    #[test]
    fn the_reference_table_needs_no_more_than_it_has() {
        let sql = sql(&described(), Profile::open_outbox());
        for absent in ["ordering_key", "max_attempts", "\"topic\""] {
            let all = [&sql.pick(false, 0), &sql.retry, &sql.insert, &sql.sweep]
                .map(|text| text.text.as_str())
                .concat();
            assert!(!all.contains(absent), "{absent}");
        }
        let pick = sql.pick(false, 0).text;
        assert!(pick.ends_with("FOR UPDATE SKIP LOCKED") && !pick.contains("NOT IN"), "{pick}");
        assert!(sql.delivered.text.contains("CAST(j.v$ AS uuid)"), "{}", sql.delivered.text);
        assert!(sql.delivered.text.contains("FORCE INDEX (\"PRIMARY\")"), "{}", sql.delivered.text);
        assert!(!pick.contains('@'), "{pick}");
    }

    #[test]
    fn keys_are_values_so_that_no_more_than_what_lies_between_them_is_read() {
        let sql = sql(&described(), Profile::open_outbox());
        let open = sql.open_of_keys(true, 3);
        assert!(
            open.text.contains("FORCE INDEX (\"keys\") WHERE t.\"partition_key\" IN (?, ?, ?)"),
            "{}",
            open.text
        );
        assert_eq!(open.order.iter().filter(|&&value| value >= 4).count(), 3);
        assert!(!sql.pick_ordered(true, 0, 0).text.contains("NOT IN"));
        assert!(sql.pick_ordered(false, 0, 2).text.contains("NOT IN (?, ?))"));
    }

    #[test]
    fn ids_and_keys_that_are_left_out_have_values_of_their_own() {
        let both = sql(&described(), Profile::open_outbox()).pick_ordered(true, 2, 1);
        assert!(
            both.text.contains("NOT IN (CAST(? AS uuid), CAST(? AS uuid)) AND (t.\"attempts\" > 0"),
            "{}",
            both.text
        );
        assert_eq!(both.order, [3, 4, 5, 0, 2]);
    }

    #[test]
    fn what_is_decided_by_the_attempts_stands_before_they_are_counted() {
        let mut found = described();
        let most = Found { name: "max_attempts".to_owned(), ..found[6].clone() };
        found.push(most);
        let profile = Profile::open_outbox().with(Column::MaxAttempts, "max_attempts".parse().unwrap());
        let sql = sql(&found, profile);
        for text in [&sql.retry.text, &sql.dead.text, &sql.sweep.text, &sql.abandoned.text] {
            let set = &text[text.find(" SET t.").unwrap()..];
            let counted = set.find("t.\"attempts\" = ").unwrap();
            let state = set.find("t.\"status\" = CASE").unwrap();
            assert!(state < counted, "{text}");
            assert!(!set[counted + 14..].contains("\"max_attempts\""), "{text}");
        }
    }

    #[test]
    fn bytes_of_a_uuid_are_read_and_written_as_its_text() {
        let mut found = described();
        found[0].sql_type = "binary(16)".to_owned();
        let sql = sql(&found, Profile::open_outbox());
        assert!(sql.read.text.contains("INSERT(HEX(t.\"event_id\"), 9, 0, '-')"), "{}", sql.read.text);
        assert!(sql.insert.text.contains("UNHEX(REPLACE(?, '-', ''))"), "{}", sql.insert.text);
    }
}
