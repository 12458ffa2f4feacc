//! The indexes without which a claim, a sweep or a prune reads the whole table.

use super::Words;
use crate::table::{Column, Found, Profile, StateName};

/// How many characters of a long text an index takes, where it takes no more.
const TEXT_CHARS: u32 = 191;

/// One index.
pub(super) struct Index {
    /// A line above it: what it is for.
    about: &'static str,
    /// The statement that makes it.
    statement: String,
    /// The column that it begins with, after the state where that comes first.
    pub(super) first: String,
    /// Whether it is on a key, and the state comes after that.
    pub(super) is_of_key: bool,
    /// Whether it is only offered, in a comment.
    is_offered: bool,
}

impl Index {
    /// Whether it is only offered, in a comment.
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered
    }
}

/// The columns of a table, each with what is known of it if it is there already.
pub(super) type Columns<'a> = [(Column, Option<&'a Found>)];

/// The indexes of a table with these columns.
pub(super) fn indexes(profile: &Profile, words: &Words, columns: &Columns<'_>) -> Vec<Index> {
    Making { profile, words, columns }.all()
}

/// The statements with what each is for.
pub(super) fn text(indexes: &[Index]) -> String {
    let one = |index: &Index| {
        let about = if index.about.is_empty() { String::new() } else { format!("-- {}\n", index.about) };
        format!("{about}{}{}\n", if index.is_offered { "-- " } else { "" }, index.statement)
    };
    indexes.iter().map(one).collect()
}

struct Making<'a> {
    profile: &'a Profile,
    words: &'a Words,
    columns: &'a Columns<'a>,
}

impl Making<'_> {
    fn all(&self) -> Vec<Index> {
        let states = &self.profile.states;
        // What tells rows of one moment apart ends the index, or a claim in order sorts all of them. MySQL
        // ends every index by the primary key.
        let by_id = Some(Column::Id).filter(|_| self.words.has_partial_indexes);
        let tie = if self.has(Column::Sequence) { Some(Column::Sequence) } else { by_id };
        let with_tie = |columns: &[Column]| columns.iter().copied().chain(tie).collect::<Vec<_>>();
        let about = "What is to be claimed, and what is claimed.";
        let pickup = with_tie(&[Column::AvailableAt, Column::CreatedAt]);
        let mut all = vec![
            self.of_state(about, "pickup", &pickup, &states.pending),
            self.of_state("", "stuck", &[Column::LockedAt], &states.delivering),
        ];
        let order = [Column::OrderingKey, Column::Key].into_iter().find(|column| self.has(*column));
        all.extend(order.map(|key| self.of_key(key, &with_tie(&[Column::CreatedAt]))));
        // Elsewhere the index on what is to be claimed begins with the state.
        if self.words.has_partial_indexes {
            let about = "For operators and for metrics: what is dead.";
            all.push(self.of_state(about, "dead", &[Column::CreatedAt], &states.dead));
        }
        all.push(self.of_time());
        if self.has(Column::DeliveredAt) {
            all.push(self.of_state("For pruning.", "delivered", &[Column::DeliveredAt], &states.delivered));
        }
        all
    }

    fn has(&self, column: Column) -> bool {
        self.columns.iter().any(|(known, _)| *known == column)
    }

    /// A column as an index names it.
    fn named(&self, column: Column) -> String {
        let found = self.columns.iter().find(|(known, _)| *known == column).and_then(|(_, found)| *found);
        let is_long = |found: &Found| {
            let word = found.sql_type.split([' ', '(']).next().unwrap_or_default();
            word.ends_with("text") || word.ends_with("blob")
        };
        let name = self.profile.columns[&column].quoted();
        if !self.words.has_partial_indexes && found.is_some_and(is_long) {
            return format!("{name}({TEXT_CHARS})");
        }
        name
    }

    fn list(&self, columns: &[Column]) -> String {
        columns.iter().map(|column| self.named(*column)).collect::<Vec<_>>().join(", ")
    }

    fn make(&self, about: &'static str, suffix: &str, first: Column, rest: &str) -> Index {
        let (table, name) = (self.profile.table.quoted(), self.profile.table.name());
        let statement = format!("CREATE INDEX \"{name}_{suffix}\" ON {table} {rest};");
        let first = self.profile.columns[&first].as_str().to_owned();
        Index { about, statement, first, is_of_key: false, is_offered: false }
    }

    /// On the rows in one state. Where there is no index on a part of a table, the state comes first.
    fn of_state(&self, about: &'static str, suffix: &str, columns: &[Column], state: &StateName) -> Index {
        let (status, list) = (self.named(Column::Status), self.list(columns));
        let rest = match self.words.has_partial_indexes {
            true => format!("({list}) WHERE {status} = {}", state.literal()),
            false => format!("({status}, {list})"),
        };
        self.make(about, suffix, columns[0], &rest)
    }

    fn of_key(&self, key: Column, then: &[Column]) -> Index {
        let (status, states) = (self.named(Column::Status), &self.profile.states);
        let (key_name, list) = (self.named(key), self.list(then));
        let rest = match self.words.has_partial_indexes {
            true => format!(
                "({key_name}, {list}) WHERE {status} IN ({}, {})",
                states.pending.literal(),
                states.delivering.literal()
            ),
            false => format!("({key_name}, {status}, {list})"),
        };
        Index { is_of_key: true, ..self.make("For a lane with order = 'key' only.", "order", key, &rest) }
    }

    /// Only offered: it holds all rows, and every claim and outcome writes into it.
    fn of_time(&self) -> Index {
        let about =
            "If operators list events of all states (event list): without it that reads the whole table.";
        let rest = format!("({})", self.named(Column::CreatedAt));
        Index { is_offered: true, ..self.make(about, "created", Column::CreatedAt, &rest) }
    }
}
