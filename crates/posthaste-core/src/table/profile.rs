//! Profiles: the tables that are known by name, and those that are described in the configuration.

use std::collections::BTreeMap;

use super::{Column, ColumnName, StateName, TableName};
use crate::{Error, Result};

/// The words for a row's states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States {
    /// Waits to be delivered.
    pub pending: StateName,
    /// Claimed by a relay.
    pub delivering: StateName,
    /// Acknowledged by the target.
    pub delivered: StateName,
    /// Failed for good.
    pub dead: StateName,
}

impl States {
    fn fixed(words: [&'static str; 4]) -> Self {
        let [pending, delivering, delivered, dead] = words.map(StateName::fixed);
        Self { pending, delivering, delivered, dead }
    }
}

/// Which table, and which of its columns and states is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    /// The table.
    pub table: TableName,
    /// Its columns. Of a built-in profile those that are not needed are used if the table has them.
    pub columns: BTreeMap<Column, ColumnName>,
    /// Its states.
    pub states: States,
}

/// The reference table of the open-outbox specification.
const OPEN_OUTBOX: [(Column, &str); 15] = [
    (Column::Id, "event_id"),
    (Column::Type, "event_type"),
    (Column::Payload, "payload"),
    (Column::CreatedAt, "created_at"),
    (Column::Status, "status"),
    (Column::Attempts, "attempts"),
    (Column::AvailableAt, "available_at"),
    (Column::LockedBy, "locked_by"),
    (Column::LockedAt, "locked_at"),
    (Column::Key, "partition_key"),
    (Column::OrderingKey, "ordering_key"),
    (Column::Headers, "headers"),
    (Column::DeliveredAt, "delivered_at"),
    (Column::UpdatedAt, "updated_at"),
    (Column::LastError, "last_error"),
];

const SERVICEKIT: [(Column, &str); 16] = [
    (Column::Id, "id"),
    (Column::Type, "type"),
    (Column::Payload, "payload"),
    (Column::CreatedAt, "created_at"),
    (Column::Status, "status"),
    (Column::Attempts, "attempts"),
    (Column::MaxAttempts, "max_attempts"),
    (Column::AvailableAt, "next_attempt_at"),
    (Column::LockedBy, "lease_id"),
    (Column::LockedAt, "leased_at"),
    (Column::Topic, "topic"),
    (Column::Key, "key"),
    (Column::Headers, "headers"),
    (Column::ContentType, "content_type"),
    (Column::DeliveredAt, "sent_at"),
    (Column::LastError, "last_error"),
];

/// What these two have of their own; how far a row is, their tables do not say, and columns must be added for it.
const AXCOM: [(Column, &str); 9] = [
    (Column::Id, "id"),
    (Column::Type, "topic"),
    (Column::Payload, "payload"),
    (Column::CreatedAt, "created_at"),
    (Column::Source, "source"),
    (Column::Version, "version"),
    (Column::TraceId, "trace_id"),
    (Column::CorrelationId, "correlation_id"),
    (Column::DeliveredAt, "published_at"),
];
const DEBEZIUM: [(Column, &str); 6] = [
    (Column::Id, "id"),
    (Column::Type, "type"),
    (Column::Payload, "payload"),
    (Column::CreatedAt, "created_at"),
    (Column::Topic, "aggregatetype"),
    (Column::Key, "aggregateid"),
];
const ADDED: [(Column, &str); 6] = [
    (Column::Status, "status"),
    (Column::Attempts, "attempts"),
    (Column::AvailableAt, "available_at"),
    (Column::LockedBy, "locked_by"),
    (Column::LockedAt, "locked_at"),
    (Column::LastError, "last_error"),
];

const REFERENCE_STATES: [&str; 4] = ["PENDING", "DELIVERING", "DELIVERED", "DEAD"];

impl Profile {
    /// The names of all profiles.
    pub const NAMES: [&'static str; 5] = ["open-outbox", "servicekit", "axcom", "debezium", "custom"];

    /// The profile with this name. `custom` begins with the columns that a table needs, under the names of open-outbox.
    pub fn named(name: &str) -> Option<Self> {
        let (name, table, columns, states) = match name {
            "open-outbox" => ("open-outbox", "openoutbox_events", OPEN_OUTBOX.to_vec(), REFERENCE_STATES),
            "servicekit" => (
                "servicekit",
                "outbox_events",
                SERVICEKIT.to_vec(),
                ["pending", "in_flight", "sent", "failed"],
            ),
            "axcom" => ("axcom", "outbox", [AXCOM.as_slice(), &ADDED].concat(), REFERENCE_STATES),
            "debezium" => ("debezium", "outbox", [DEBEZIUM.as_slice(), &ADDED].concat(), REFERENCE_STATES),
            "custom" => {
                let needed = OPEN_OUTBOX.iter().copied().filter(|(column, _)| column.is_needed()).collect();
                ("custom", "outbox", needed, REFERENCE_STATES)
            }
            _ => return None,
        };
        let columns = columns.into_iter().map(|(column, name)| (column, ColumnName::fixed(name))).collect();
        Some(Self { name, table: TableName::fixed(table), columns, states: States::fixed(states) })
    }

    /// The table of the open-outbox specification, unchanged.
    pub fn open_outbox() -> Self {
        Self::named("open-outbox").expect("it is one of the names")
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// On this table instead.
    #[must_use]
    pub fn on(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Whether a column that this profile names may be missing in the table.
    pub fn may_lack(&self, column: Column) -> bool {
        self.name != "custom" && !column.is_needed()
    }

    /// Takes another name for a column.
    #[must_use]
    pub fn with(mut self, column: Column, name: ColumnName) -> Self {
        self.columns.insert(column, name);
        self
    }

    /// Whether it makes sense by itself.
    ///
    /// # Errors
    /// `Config` for two columns or two states of one name.
    pub fn check(&self) -> Result<()> {
        let mut names: Vec<_> = self.columns.values().collect();
        names.sort();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::config(format!(
                "the column {} is named for two things; each needs its own",
                twice[0]
            )));
        }
        let States { pending, delivering, delivered, dead } = &self.states;
        let all = [pending, delivering, delivered, dead];
        if let Some((_, state)) = all.iter().enumerate().find(|(index, state)| all[..*index].contains(state))
        {
            return Err(Error::config(format!(
                "the state {} is named for two things; each needs its own",
                state.as_str()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_names_what_is_needed_once() {
        for name in Profile::NAMES {
            let profile = Profile::named(name).expect(name);
            profile.check().expect(name);
            assert_eq!(profile.name(), name);
            for column in Column::ALL.into_iter().filter(|column| column.is_needed()) {
                assert!(profile.columns.contains_key(&column), "{name} has no {}", column.name());
            }
        }
        assert_eq!(Profile::named("nonsense"), None);
    }

    #[test]
    fn one_name_for_two_things_is_refused() {
        let twice = Profile::open_outbox().with(Column::Topic, ColumnName::fixed("event_type"));
        assert!(twice.check().unwrap_err().to_string().contains("event_type"));
        let mut same = Profile::open_outbox();
        same.states.dead = same.states.delivered.clone();
        assert!(same.check().unwrap_err().to_string().contains("DELIVERED"));
    }
}
