//! The statements of the table engine on SQLite, made from a shape.
//!
//! One writer at a time, so nothing is locked and nothing skipped. Lists travel as JSON. Times are text in UTC as `datetime` and
//! `strftime` write them, in whatever precision; statements bring them into one form before they compare them, and get the
//! time from the store's clock.

use super::{Column, Shape, StateName};
use crate::admin::EventState;

/// The texts of all statements on one table. Where a parameter is a list, it is a JSON array of text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqliteTableSql {
    /// The ids and weights of rows to claim: now, rows at most.
    pub pick: String,
    /// The same in the order of a key: now, rows at most, own tokens, ids of slow rows.
    pub pick_ordered: String,
    /// Leases these rows and answers them: ids, token, now.
    pub take: String,
    /// Records deliveries: ids, tokens, now.
    pub delivered: String,
    /// Records a failure that is tried again: id, tokens, now, when it is due, error.
    pub retry: String,
    /// Records a death: id, tokens, now, error, whether the budget was spent, in an hour.
    pub dead: String,
    /// Hands back what was not sent: ids, tokens, now.
    pub released: String,
    /// Gives up what was sent and not answered: ids, tokens, now. Counts as an attempt.
    pub abandoned: String,
    /// Hands back whatever these claims hold: tokens, now.
    pub released_claims: String,
    /// Renews leases: ids, tokens, now.
    pub renewed: String,
    /// Takes back what was leased before: cutoff, rows at most, budget, now. Answers whether each is dead.
    pub sweep: String,
    /// Whether something was leased before: cutoff.
    pub expired: String,
    /// Counts the rows by state: now.
    pub counts: String,
    /// Adds an event: id, type, payload, when it is available, now, and the columns of
    /// [`insert_columns`](Self::insert_columns).
    pub insert: String,
    /// Which columns an insert has values for after its first five.
    pub insert_columns: Vec<Column>,
    /// The event with this id.
    pub same: String,
    /// Removes delivered rows: cutoff, rows at most.
    pub prune_delivered: String,
    /// Removes dead rows: cutoff, rows at most.
    pub prune_dead: String,
    /// Counts what the two would remove: cutoff.
    pub count_delivered: String,
    /// Counts dead ones.
    pub count_dead: String,
    shape: Shape,
}

impl SqliteTableSql {
    /// The statements for a table of this shape.
    pub fn new(shape: Shape) -> Self {
        let s = &shape;
        let insert_columns: Vec<Column> = [
            Column::Key,
            Column::Headers,
            Column::Topic,
            Column::Source,
            Column::Subject,
            Column::ContentType,
            Column::Version,
            Column::OccurredAt,
        ]
        .into_iter()
        .filter(|column| s.has(*column))
        .collect();
        let states = &s.profile.states;
        Self {
            pick: pick(s, false),
            pick_ordered: pick(s, true),
            take: take(s),
            delivered: settled(s, &states.delivered, &also_set(s, Column::DeliveredAt, "?3")),
            retry: retry(s),
            dead: dead(s),
            released: settled(s, &states.pending, ""),
            abandoned: settled(s, &states.pending, &format!("{}{}", attempt(s), unanswered(s))),
            released_claims: released_claims(s),
            renewed: renewed(s),
            sweep: sweep(s),
            expired: format!("SELECT EXISTS (SELECT 1 {})", expired(s)),
            counts: counts(s),
            insert: insert(s, &insert_columns),
            insert_columns,
            same: same(s),
            prune_delivered: prune(s, &states.delivered, Column::DeliveredAt),
            prune_dead: prune(s, &states.dead, Column::UpdatedAt),
            count_delivered: format!("SELECT count(*) {}", old(s, &states.delivered, Column::DeliveredAt)),
            count_dead: format!("SELECT count(*) {}", old(s, &states.dead, Column::UpdatedAt)),
            shape,
        }
    }

    /// The shape that these statements are for.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Finds rows, the newest first: ids or NULL, type, key, since, until, the place after which to go on (time, id), rows at
    /// most, now.
    pub fn find(&self, which: &str) -> String {
        let s = &self.shape;
        format!(
            "SELECT {}, t.{}, {}, {}, length(CAST(t.{} AS BLOB)) FROM {} AS t WHERE {}
ORDER BY t.{} DESC, {} DESC LIMIT ?8",
            columns(s),
            s.needed(Column::Status),
            or_null(s, Column::LastError),
            s.quoted(Column::UpdatedAt).map_or("NULL".to_owned(), |name| millis(&format!("t.{name}"))),
            s.needed(Column::Payload),
            s.profile.table.quoted(),
            matching(s, which),
            s.needed(Column::CreatedAt),
            page_tie(s)
        )
    }

    /// Counts the rows that match; parameters as [`find`](Self::find).
    pub fn find_count(&self, which: &str) -> String {
        let s = &self.shape;
        format!(
            "SELECT count(*) FROM {} AS t WHERE {} AND ?8 IS NOT NULL",
            s.profile.table.quoted(),
            matching(s, which)
        )
    }

    /// Makes rows pending again, with a fresh budget; parameters as [`find`](Self::find).
    pub fn again(&self, which: &str) -> String {
        let s = &self.shape;
        let id = s.needed(Column::Id);
        format!(
            "UPDATE {table} AS u SET {} = {}, {} = 0, {} = ?9, {}{} WHERE u.{id} IN (SELECT t.{id} FROM {table} AS t WHERE {} LIMIT ?8)",
            s.needed(Column::Status),
            s.profile.states.pending.literal(),
            s.needed(Column::Attempts),
            s.needed(Column::AvailableAt),
            unlocked(s, "?9"),
            also_set(s, Column::DeliveredAt, "NULL"),
            matching(s, which),
            table = s.profile.table.quoted(),
        )
    }

    /// The condition that rows are in this state, by the parameter `?9` as now; `None` where a table cannot tell it.
    pub fn in_state(&self, state: EventState) -> Option<String> {
        let s = &self.shape;
        let is = |state: &StateName| format!("t.{} = {}", s.needed(Column::Status), state.literal());
        let states = &s.profile.states;
        let (pending, attempts) = (is(&states.pending), s.needed(Column::Attempts));
        Some(match state {
            EventState::Pending => format!("({pending} OR {})", is(&states.delivering)),
            EventState::Retrying => format!("{pending} AND t.{attempts} > 0"),
            EventState::Scheduled => format!("{pending} AND t.{attempts} = 0 AND NOT {}", due(s, "?9")),
            EventState::Delivering => is(&states.delivering),
            EventState::Delivered => is(&states.delivered),
            EventState::Dead => is(&states.dead),
            EventState::Behind | EventState::Discarded => return None,
        })
    }
}

/// A time in one form.
fn time(column: &str) -> String {
    format!("strftime('%Y-%m-%d %H:%M:%f', {column})")
}

/// A time as milliseconds since 1970.
fn millis(column: &str) -> String {
    format!(
        "CAST(strftime('%s', {column}) AS INTEGER) * 1000 + CAST(substr(strftime('%f', {column}), 4) AS INTEGER)"
    )
}

fn or_null(shape: &Shape, column: Column) -> String {
    shape.quoted(column).map_or("NULL".to_owned(), |name| format!("t.{name}"))
}

fn also_set(shape: &Shape, column: Column, value: &str) -> String {
    shape.quoted(column).map(|name| format!(", {name} = {value}")).unwrap_or_default()
}

fn due(shape: &Shape, now: &str) -> String {
    let available = format!("t.{}", shape.needed(Column::AvailableAt));
    format!("coalesce({} <= {now}, true)", time(&available))
}

/// The columns of an event, in the order in which a row is read.
fn columns(shape: &Shape) -> String {
    let text = |column| match shape.quoted(column) {
        Some(name) => format!("CAST(t.{name} AS TEXT)"),
        None => "NULL".to_owned(),
    };
    let at = |column| shape.quoted(column).map_or("NULL".to_owned(), |name| millis(&format!("t.{name}")));
    [
        text(Column::Id),
        text(Column::Type),
        text(Column::Topic),
        text(Column::Key),
        text(Column::Headers),
        format!("CAST(t.{} AS BLOB)", shape.needed(Column::Payload)),
        or_null(shape, Column::Attempts),
        at(Column::CreatedAt),
        at(Column::AvailableAt),
        text(Column::Source),
        text(Column::Subject),
        text(Column::ContentType),
        or_null(shape, Column::Version),
        at(Column::OccurredAt),
        or_null(shape, Column::Sequence),
    ]
    .join(", ")
}

fn tie(shape: &Shape) -> String {
    shape.quoted(Column::Sequence).unwrap_or_else(|| shape.needed(Column::Id))
}

fn pick(shape: &Shape, ordered: bool) -> String {
    let headers =
        shape.quoted(Column::Headers).map(|name| format!(" + coalesce(length(CAST(t.{name} AS BLOB)), 0)"));
    let (id, created) = (shape.needed(Column::Id), shape.needed(Column::CreatedAt));
    let unblocked = if ordered { format!(" AND NOT {}", blocked(shape)) } else { String::new() };
    format!(
        "SELECT CAST(t.{id} AS TEXT), coalesce(length(CAST(t.{payload} AS BLOB)), 0) + length(CAST(t.{id} AS BLOB)) + 256{headers}
FROM {table} AS t WHERE t.{status} = {pending} AND {due}{unblocked}
ORDER BY t.{available}, t.{created}, t.{tie} LIMIT ?2",
        payload = shape.needed(Column::Payload),
        headers = headers.unwrap_or_default(),
        table = shape.profile.table.quoted(),
        status = shape.needed(Column::Status),
        pending = shape.profile.states.pending.literal(),
        due = due(shape, "?1"),
        available = shape.needed(Column::AvailableAt),
        tie = tie(shape),
    )
}

/// That an earlier row of its key holds this one back; see the statement of the same name for Postgres.
fn blocked(shape: &Shape) -> String {
    let Some(key) = shape.order_column() else { return "false".to_owned() };
    let (status, created) = (shape.needed(Column::Status), shape.needed(Column::CreatedAt));
    let (attempts, locked_by) = (shape.needed(Column::Attempts), shape.needed(Column::LockedBy));
    let (id, tie) = (shape.needed(Column::Id), tie(shape));
    let states = &shape.profile.states;
    let (pending, delivering) = (states.pending.literal(), states.delivering.literal());
    let holds = if key == Column::Key {
        format!(
            "e.{status} = {delivering} AND (e.{locked_by} IS NULL OR e.{locked_by} NOT IN (SELECT value FROM json_each(?3))
             OR e.{id} IN (SELECT value FROM json_each(?4))) OR e.{status} = {pending} AND e.{attempts} > 0"
        )
    } else {
        let available = format!("e.{}", shape.needed(Column::AvailableAt));
        format!("e.{status} = {delivering} OR e.{attempts} > 0 OR coalesce({} <= ?1, true)", time(&available))
    };
    let key = shape.needed(key);
    format!(
        "EXISTS (SELECT 1 FROM {} AS e WHERE e.{key} = t.{key} AND e.{status} IN ({pending}, {delivering})
          AND (e.{created}, e.{tie}) < (t.{created}, t.{tie}) AND ({holds}))",
        shape.profile.table.quoted()
    )
}

fn take(shape: &Shape) -> String {
    let touched = also_set(shape, Column::UpdatedAt, "?3");
    // What an UPDATE returns has no alias to be named by.
    let returned = columns(shape).replace("t.\"", "\"");
    format!(
        "UPDATE {} SET {status} = {}, {} = ?2, {} = ?3{touched}
WHERE {} IN (SELECT value FROM json_each(?1)) AND {status} = {} RETURNING {returned}",
        shape.profile.table.quoted(),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy),
        shape.needed(Column::LockedAt),
        shape.needed(Column::Id),
        shape.profile.states.pending.literal(),
        status = shape.needed(Column::Status),
    )
}

fn unlocked(shape: &Shape, now: &str) -> String {
    let (locked_by, locked_at) = (shape.needed(Column::LockedBy), shape.needed(Column::LockedAt));
    format!("{locked_by} = NULL, {locked_at} = NULL{}", also_set(shape, Column::UpdatedAt, now))
}

fn guard(shape: &Shape, tokens: &str) -> String {
    format!(
        "{} = {} AND {} IN (SELECT value FROM json_each({tokens}))",
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        shape.needed(Column::LockedBy)
    )
}

fn held(shape: &Shape) -> String {
    format!("{} IN (SELECT value FROM json_each(?1)) AND {}", shape.needed(Column::Id), guard(shape, "?2"))
}

/// Rows with these ids (`?1`) held under these tokens (`?2`) go to a state, now (`?3`).
fn settled(shape: &Shape, state: &StateName, also: &str) -> String {
    format!(
        "UPDATE {} SET {} = {}, {}{also} WHERE {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        state.literal(),
        unlocked(shape, "?3"),
        held(shape)
    )
}

fn attempt(shape: &Shape) -> String {
    let attempts = shape.needed(Column::Attempts);
    format!(", {attempts} = {attempts} + 1")
}

fn unanswered(shape: &Shape) -> String {
    also_set(shape, Column::LastError, "'UNANSWERED: the relay ended before the target answered'")
}

fn released_claims(shape: &Shape) -> String {
    format!(
        "UPDATE {} SET {} = {}, {} WHERE {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        shape.profile.states.pending.literal(),
        unlocked(shape, "?2"),
        guard(shape, "?1")
    )
}

fn renewed(shape: &Shape) -> String {
    let touched = also_set(shape, Column::UpdatedAt, "?3");
    format!(
        "UPDATE {} SET {} = ?3{touched} WHERE {}",
        shape.profile.table.quoted(),
        shape.needed(Column::LockedAt),
        held(shape)
    )
}

fn retry(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, shape.needed(Column::Attempts));
    let state = match shape.quoted(Column::MaxAttempts) {
        Some(most) => format!(
            "CASE WHEN {attempts} + 1 >= {most} THEN {} ELSE {} END",
            states.dead.literal(),
            states.pending.literal()
        ),
        None => states.pending.literal(),
    };
    format!(
        "UPDATE {} SET {} = {state}, {} = ?4{}{}, {} WHERE {} = ?1 AND {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        shape.needed(Column::AvailableAt),
        attempt(shape),
        also_set(shape, Column::LastError, "?5"),
        unlocked(shape, "?3"),
        shape.needed(Column::Id),
        guard(shape, "?2")
    )
}

fn dead(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, shape.needed(Column::Attempts));
    let available = shape.needed(Column::AvailableAt);
    // The row may allow more than the policy: it is tried on, an hour apart. Without such a column the two are not used.
    let goes_on = match shape.quoted(Column::MaxAttempts) {
        Some(most) => format!("?5 AND {attempts} + 1 < {most}"),
        None => "?5 AND false".to_owned(),
    };
    format!(
        "UPDATE {} SET {} = CASE WHEN {goes_on} THEN {} ELSE {} END,
    {available} = CASE WHEN {goes_on} THEN ?6 ELSE {available} END{}{}, {} WHERE {} = ?1 AND {}",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        states.pending.literal(),
        states.dead.literal(),
        attempt(shape),
        also_set(shape, Column::LastError, "?4"),
        unlocked(shape, "?3"),
        shape.needed(Column::Id),
        guard(shape, "?2")
    )
}

fn sweep(shape: &Shape) -> String {
    let (states, attempts) = (&shape.profile.states, shape.needed(Column::Attempts));
    let budget =
        shape.quoted(Column::MaxAttempts).map_or("?3".to_owned(), |most| format!("coalesce({most}, ?3)"));
    let (id, status, locked_at) =
        (shape.needed(Column::Id), shape.needed(Column::Status), shape.needed(Column::LockedAt));
    let error =
        also_set(shape, Column::LastError, "'LEASE_EXPIRED: the relay that held it gave no sign of life'");
    format!(
        "UPDATE {table} SET {status} = CASE WHEN {attempts} + 1 >= {budget} THEN {dead} ELSE {} END{}{error}, {}
WHERE {id} IN (SELECT t.{id} {} ORDER BY t.{locked_at} LIMIT ?2)
RETURNING {status} = {dead}",
        states.pending.literal(),
        attempt(shape),
        unlocked(shape, "?4"),
        expired(shape),
        table = shape.profile.table.quoted(),
        dead = states.dead.literal(),
    )
}

/// Rows that were leased before a moment (`?1`), or say not since when.
fn expired(shape: &Shape) -> String {
    format!(
        "FROM {} AS t WHERE t.{} = {} AND coalesce({} <= ?1, true)",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        shape.profile.states.delivering.literal(),
        time(&format!("t.{}", shape.needed(Column::LockedAt)))
    )
}

fn counts(shape: &Shape) -> String {
    let (status, attempts) = (shape.needed(Column::Status), shape.needed(Column::Attempts));
    let states = &shape.profile.states;
    let (pending, delivering, due) =
        (states.pending.literal(), states.delivering.literal(), due(shape, "?1"));
    // Claimed and not answered yet is as good as unread: nothing is recorded of it.
    let fresh =
        format!("t.{attempts} = 0 AND (t.{status} = {pending} AND {due} OR t.{status} = {delivering})");
    format!(
        "SELECT count(*) FILTER (WHERE {fresh}),
       count(*) FILTER (WHERE t.{status} IN ({pending}, {delivering}) AND NOT ({fresh})),
       count(*) FILTER (WHERE t.{status} = {}), count(*) FILTER (WHERE t.{status} = {}),
       min({}) FILTER (WHERE {fresh}) FROM {} AS t",
        states.delivered.literal(),
        states.dead.literal(),
        millis(&format!("t.{}", shape.needed(Column::CreatedAt))),
        shape.profile.table.quoted()
    )
}

fn insert(shape: &Shape, optional: &[Column]) -> String {
    let fixed = [
        Column::Id,
        Column::Type,
        Column::Payload,
        Column::AvailableAt,
        Column::CreatedAt,
        Column::Status,
        Column::Attempts,
    ];
    let mut names: Vec<_> = fixed.map(|column| shape.needed(column)).to_vec();
    let mut values: Vec<_> =
        ["?1", "?2", "?3", "coalesce(?4, ?5)", "?5", &shape.profile.states.pending.literal(), "0"]
            .map(str::to_owned)
            .to_vec();
    for (number, column) in (6..).zip(optional) {
        names.push(shape.needed(*column));
        values.push(if *column == Column::OccurredAt {
            format!("coalesce(?{number}, ?5)")
        } else {
            format!("?{number}")
        });
    }
    let id = shape.needed(Column::Id);
    format!(
        "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({id}) DO NOTHING",
        shape.profile.table.quoted(),
        names.join(", "),
        values.join(", ")
    )
}

fn same(shape: &Shape) -> String {
    format!(
        "SELECT {} FROM {} AS t WHERE t.{} = ?1",
        columns(shape),
        shape.profile.table.quoted(),
        shape.needed(Column::Id)
    )
}

/// What tells rows of one moment apart.
fn page_tie(shape: &Shape) -> String {
    match shape.quoted(Column::Sequence) {
        Some(name) => format!("t.{name}"),
        None => format!("CAST(t.{} AS TEXT)", shape.needed(Column::Id)),
    }
}

fn matching(shape: &Shape, which: &str) -> String {
    let (id, created) = (shape.needed(Column::Id), time(&format!("t.{}", shape.needed(Column::CreatedAt))));
    let key =
        shape.quoted(Column::Key).map_or("false".to_owned(), |key| format!("CAST(t.{key} AS TEXT) = ?3"));
    format!(
        "{which} AND (?1 IS NULL OR t.{id} IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR t.{} = ?2)
  AND (?3 IS NULL OR {key}) AND (?4 IS NULL OR {created} >= ?4) AND (?5 IS NULL OR {created} < ?5)
  AND (?6 IS NULL OR ({created}, {tie}) < (?6, {place})) AND ?9 IS NOT NULL",
        shape.needed(Column::Type),
        tie = page_tie(shape),
        place = if shape.has(Column::Sequence) { "CAST(?7 AS INTEGER)" } else { "?7" },
    )
}

fn old(shape: &Shape, state: &StateName, since: Column) -> String {
    let at = shape.quoted(since).or_else(|| shape.quoted(Column::UpdatedAt));
    let at = at.unwrap_or_else(|| shape.needed(Column::CreatedAt));
    format!(
        "FROM {} AS t WHERE t.{} = {} AND {} < ?1",
        shape.profile.table.quoted(),
        shape.needed(Column::Status),
        state.literal(),
        time(&format!("t.{at}"))
    )
}

fn prune(shape: &Shape, state: &StateName, since: Column) -> String {
    let id = shape.needed(Column::Id);
    let old = old(shape, state, since);
    format!("DELETE FROM {} WHERE {id} IN (SELECT t.{id} {old} LIMIT ?2)", shape.profile.table.quoted())
}
