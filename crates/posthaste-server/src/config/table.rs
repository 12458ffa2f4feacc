//! `[store]` with `engine = "table"`: which outbox table, and which of its columns and states is what.

use posthaste::table::{Column, Profile, StateName};

use super::section::Section;

/// An outbox table of somebody else.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// The table and its columns.
    pub profile: Profile,
    /// How many leases that have ended are taken back by one statement.
    pub sweep_rows: u32,
}

impl TableConfig {
    /// Reads it from the keys of the store; `None` with the log engine.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let is_table = section.choice("engine", &[("log", false), ("table", true)]);
        let mut profile = section.convert("profile", |name| {
            Profile::named(name)
                .ok_or_else(|| format!("is not a profile; there are {}", Profile::NAMES.join(", ")))
        });
        let table = section.text("table");
        if !table.is_empty() {
            section.require("table", table.parse::<posthaste::table::TableName>().is_ok(), || {
                "is not the name of a table; write NAME or SCHEMA.NAME in letters, digits and underscores"
                    .to_owned()
            });
            profile = table.parse().map(|table| profile.clone().on(table)).unwrap_or(profile);
        }
        profile = section.table("columns", |section| with_columns(section, profile.clone()));
        profile = section.table("states", |section| with_states(section, profile.clone()));
        let checked = profile.check();
        section.require("profile", checked.is_ok(), || {
            format!("makes no sense: {}", checked.err().map_or(String::new(), |error| error.to_string()))
        });
        let sweep_rows = section.integer("sweep_rows", 1..=100_000);
        is_table.then_some(Self { profile, sweep_rows })
    }
}

fn with_columns(section: &Section<'_>, mut profile: Profile) -> Profile {
    for column in Column::ALL {
        let name = section.convert(column.name(), |text| {
            let parse =
                |text: &str| text.parse().map_err(|error: posthaste::Error| format!("is wrong: {error}"));
            if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
        });
        if let Some(name) = name {
            profile = profile.with(column, name);
        }
    }
    profile
}

fn with_states(section: &Section<'_>, mut profile: Profile) -> Profile {
    let states = &mut profile.states;
    for (key, state) in [
        ("pending", &mut states.pending),
        ("delivering", &mut states.delivering),
        ("delivered", &mut states.delivered),
        ("dead", &mut states.dead),
    ] {
        let word = section.convert(key, |text| {
            let parse = |text: &str| {
                text.parse::<StateName>().map_err(|error: posthaste::Error| format!("is wrong: {error}"))
            };
            if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
        });
        if let Some(word) = word {
            *state = word;
        }
    }
    profile
}
