//! The kit's own table: made with a random name, filled, looked at, and removed.

use posthaste::prefix::TablePrefix;
use posthaste::table::{Column, Profile, StateName};

use super::Stop;
use super::ground::{Ground, literal};
use super::moves::{Move, State};

/// What the names of everything that the kit makes begin with.
pub(super) const NAMES: &str = "posthaste_conformance_";

/// A row to insert. Unless told otherwise it is pending, due, never tried.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) payload: Vec<u8>,
    pub(super) headers: String,
    pub(super) key: Option<String>,
    pub(super) ordering_key: Option<String>,
    pub(super) state: State,
    pub(super) attempts: u32,
    /// Due so many milliseconds from now.
    pub(super) due_in: i64,
    /// Made so many milliseconds from now; `None`: at the moment of the insert.
    pub(super) made_in: Option<i64>,
    /// For a row that is delivering: locked so many milliseconds from now.
    pub(super) locked_in: i64,
}

impl Row {
    pub(super) fn new() -> Self {
        let id = posthaste::envelope::fresh_id();
        Self {
            payload: format!("{{\"of\":\"{id}\"}}").into_bytes(),
            id,
            headers: "{}".to_owned(),
            key: None,
            ordering_key: None,
            state: State::Pending,
            attempts: 0,
            due_in: -1_000,
            made_in: None,
            locked_in: 0,
        }
    }

    pub(super) fn many(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new()).collect()
    }

    pub(super) fn of_state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    pub(super) fn due(mut self, in_ms: i64) -> Self {
        self.due_in = in_ms;
        self
    }

    /// In the hands of a relay that nobody knows, since so many milliseconds.
    pub(super) fn held_since(mut self, ms: i64) -> Self {
        self.state = State::Delivering;
        self.locked_in = -ms;
        self
    }

    pub(super) fn large(mut self) -> Self {
        self.payload = format!("\"{}{}\"", "x".repeat(PAYLOAD_LARGER_THAN_A_PIPE), self.id).into_bytes();
        self
    }
}

/// What the name of the record's table begins with: that of the table itself.
pub(super) fn record_prefix(profile: &Profile) -> Result<TablePrefix, Stop> {
    format!("{}_", profile.table.name()).parse().map_err(|error| Stop(format!("{error}")))
}

/// No pipe holds an event of this size: its publishing ends when somebody reads it.
const PAYLOAD_LARGER_THAN_A_PIPE: usize = 160 * 1024;

/// A table of the kit's own.
pub(super) struct Table<'a> {
    pub(super) ground: &'a dyn Ground,
    pub(super) profile: Profile,
    has_ordering_key: bool,
    moves: String,
}

impl<'a> Table<'a> {
    /// Makes a table of this profile under a random name, and triggers that write down every move of its rows.
    pub(super) async fn make(ground: &'a dyn Ground, like: &Profile, ordered: bool) -> Result<Self, Stop> {
        let name = format!("{NAMES}{:08x}", fastrand::u32(..));
        let profile = like.clone().on(name.parse().map_err(|error| Stop(format!("{error}")))?);
        let knows_ordering_key = profile.columns.contains_key(&Column::OrderingKey);
        let is_custom = profile.name() == "custom";
        let has_ordering_key = knows_ordering_key && (ordered || is_custom);
        let table = Self { ground, profile, has_ordering_key, moves: format!("{name}_moves") };
        let mut ddl = ground.table(&table.profile);
        if has_ordering_key && !is_custom {
            ddl.push_str(&format!("ALTER TABLE {name} ADD COLUMN {} text;", table.name(Column::OrderingKey)));
        }
        ground.run(&ddl).await?;
        if let Err(error) = ground.run(&table.history()).await {
            table.remove().await?;
            return Err(error);
        }
        Ok(table)
    }

    /// Makes a table beside it for the record of commands.
    pub(super) async fn keep_record(&self) -> Result<(), Stop> {
        self.ground.run(&self.ground.audit(&record_prefix(&self.profile)?)).await
    }

    /// A table that was made before, for removing it.
    pub(super) fn of(ground: &'a dyn Ground, profile: Profile) -> Self {
        let moves = format!("{}_moves", profile.table.name());
        Self { ground, profile, has_ordering_key: false, moves }
    }

    /// Removes it with all that belongs to it.
    pub(super) async fn remove(&self) -> Result<(), Stop> {
        let (table, moves) = (self.profile.table.name(), &self.moves);
        let triggers = self.ground.remove_triggers(table);
        self.ground
            .run(&format!(
                "DROP TABLE IF EXISTS {table}; DROP TABLE IF EXISTS {moves}; DROP TABLE IF EXISTS {table}_audit; {triggers}"
            ))
            .await
    }

    /// Whether the table has a column for this.
    pub(super) fn has(&self, column: Column) -> bool {
        match column {
            Column::OrderingKey => self.has_ordering_key,
            column => self.profile.columns.contains_key(&column),
        }
    }

    /// The name in quotes of a column that the table has.
    pub(super) fn name(&self, column: Column) -> String {
        self.profile.columns[&column].quoted()
    }

    pub(super) fn state_name(&self, state: State) -> &StateName {
        let states = &self.profile.states;
        match state {
            State::Pending => &states.pending,
            State::Delivering => &states.delivering,
            State::Delivered => &states.delivered,
            State::Dead | State::Unknown => &states.dead,
        }
    }

    /// That a row is in this state.
    pub(super) fn is(&self, state: State) -> String {
        format!("{} = {}", self.name(Column::Status), self.state_name(state).literal())
    }

    /// That a row is one of these.
    pub(super) fn among(&self, rows: &[Row]) -> String {
        let ids: Vec<_> = rows.iter().map(|row| literal(&row.id)).collect();
        format!("{} IN ({})", self.name(Column::Id), ids.join(", "))
    }

    /// The columns that nobody may change once a row is there.
    fn immutable(&self) -> impl Iterator<Item = String> + '_ {
        let all = [
            Column::Id,
            Column::Type,
            Column::Payload,
            Column::CreatedAt,
            Column::Topic,
            Column::Key,
            Column::OrderingKey,
            Column::Headers,
            Column::Source,
            Column::Subject,
            Column::ContentType,
            Column::Version,
            Column::OccurredAt,
            Column::Sequence,
        ];
        all.into_iter().filter(|column| self.has(*column)).map(|column| self.name(column))
    }

    /// The statements that make the record of moves.
    fn history(&self) -> String {
        let (table, moves, ground) = (self.profile.table.name(), &self.moves, self.ground);
        let name = |column| self.name(column);
        let optional = |column, of: &str, whole: fn(String) -> String| {
            if self.has(column) { whole(format!("{of}.{}", self.name(column))) } else { "NULL".to_owned() }
        };
        let same: Vec<_> = self
            .immutable()
            .map(|name| ground.same(&format!("OLD.{name}"), &format!("NEW.{name}")))
            .collect();
        let update = [
            ground.text(&format!("OLD.{}", name(Column::Id))),
            format!("OLD.{}", name(Column::Status)),
            format!("NEW.{}", name(Column::Status)),
            format!("OLD.{}", name(Column::Attempts)),
            format!("NEW.{}", name(Column::Attempts)),
            ground.text(&format!("NEW.{}", name(Column::LockedBy))),
            ground.text(&format!("NEW.{}", name(Column::LockedAt))),
            optional(Column::DeliveredAt, "NEW", |name| {
                format!("CASE WHEN {name} IS NULL THEN 0 ELSE 1 END")
            }),
            ground.ms_until(&format!("OLD.{}", name(Column::AvailableAt))),
            ground.ms_until(&format!("NEW.{}", name(Column::AvailableAt))),
            ground.ms_until(&format!("OLD.{}", name(Column::LockedAt))),
            optional(Column::LastError, "NEW", |name| name),
            same.join(" * "),
            ground.now_ms().to_owned(),
        ];
        let mut delete: Vec<_> = vec!["NULL".to_owned(); update.len()];
        delete[..2].clone_from_slice(&update[..2]);
        delete[update.len() - 1].clone_from(&update[update.len() - 1]);
        let triggers = ground.triggers(table, moves, &update.join(", "), &delete.join(", "));
        format!(
            "CREATE TABLE {moves} (n {}, id text, from_state text, to_state text, from_attempts bigint, to_attempts bigint,
                 locked_by text, locked_at text, is_delivered bigint, was_due_in bigint, due_in bigint, lease_began bigint,
                 error text, is_same bigint, at bigint);
             {triggers}",
            ground.counting()
        )
    }

    /// Every move so far, in order.
    pub(super) async fn moves(&self) -> Result<Vec<Move>, Stop> {
        let rows = self.ground.rows(&format!("SELECT * FROM {} ORDER BY n", self.moves)).await?;
        rows.iter().map(|row| Move::read(row, &self.profile.states)).collect()
    }

    /// The statement that inserts these rows.
    pub(super) fn inserting(&self, rows: &[Row]) -> String {
        let mut columns = vec![Column::Id, Column::Type, Column::Payload, Column::Status, Column::Attempts];
        columns.extend([Column::AvailableAt, Column::CreatedAt, Column::LockedBy, Column::LockedAt]);
        let optional = [
            Column::Topic,
            Column::Key,
            Column::OrderingKey,
            Column::Headers,
            Column::DeliveredAt,
            Column::MaxAttempts,
        ];
        columns.extend(optional.into_iter().filter(|column| self.has(*column)));
        let names: Vec<_> = columns.iter().map(|column| self.name(*column)).collect();
        let values = rows.iter().map(|row| {
            let values: Vec<_> = columns.iter().map(|column| self.value(row, *column)).collect();
            format!("({})", values.join(", "))
        });
        format!(
            "INSERT INTO {} ({}) VALUES {}",
            self.profile.table.name(),
            names.join(", "),
            values.collect::<Vec<_>>().join(",\n")
        )
    }

    fn value(&self, row: &Row, column: Column) -> String {
        let ground = self.ground;
        let text = |text: &Option<String>| text.as_ref().map_or("NULL".to_owned(), |text| literal(text));
        let nothing = || "NULL".to_owned();
        let is_held = row.state == State::Delivering;
        match column {
            Column::Id => literal(&row.id),
            Column::Type => "'conformance.event'".to_owned(),
            Column::Topic => "'conformance'".to_owned(),
            Column::Payload => ground.bytes(&row.payload),
            Column::Headers => literal(&row.headers),
            // A column of this name may not be empty in every profile.
            Column::Key => literal(row.key.as_deref().unwrap_or("key")),
            Column::OrderingKey => text(&row.ordering_key),
            Column::Status => self.state_name(row.state).literal(),
            Column::Attempts => row.attempts.to_string(),
            Column::MaxAttempts => super::relay::ATTEMPTS_MAX.to_string(),
            Column::AvailableAt => ground.moment(row.due_in),
            Column::CreatedAt => ground.moment(row.made_in.unwrap_or(0)),
            Column::LockedAt if is_held => ground.moment(row.locked_in),
            Column::LockedBy if is_held => literal(&posthaste::envelope::fresh_id()),
            Column::DeliveredAt if row.state == State::Delivered => ground.moment(-1_000),
            _ => nothing(),
        }
    }

    pub(super) async fn insert(&self, rows: &[Row]) -> Result<(), Stop> {
        self.ground.run(&self.inserting(rows)).await
    }

    pub(super) async fn count(&self, condition: &str) -> Result<i64, Stop> {
        let sql = format!("SELECT count(*) FROM {} WHERE {condition}", self.profile.table.name());
        let rows = self.ground.rows(&sql).await?;
        let count = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        count.ok_or_else(|| Stop("the database does not count".to_owned()))
    }

    /// Everything in these rows, to be compared with what is there later.
    pub(super) async fn snapshot(&self, rows: &[Row]) -> Result<Vec<Vec<Option<String>>>, Stop> {
        let (table, id) = (self.profile.table.name(), self.name(Column::Id));
        self.ground.rows(&format!("SELECT * FROM {table} WHERE {} ORDER BY {id}", self.among(rows))).await
    }

    /// Changes rows as an operator does by hand.
    pub(super) async fn change(&self, set: &str, condition: &str) -> Result<(), Stop> {
        self.ground.run(&format!("UPDATE {} SET {set} WHERE {condition}", self.profile.table.name())).await
    }
}
