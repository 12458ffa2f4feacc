//! Looks at the table: what it has, and what it lacks.

use posthaste_core::table::{Column, Found, Kind, Profile, Shape, not_ready};
use posthaste_core::{Error, Result};
use rusqlite::Connection;

/// The columns of the profile's table; none if there is no such table.
pub(super) fn columns(connection: &Connection, profile: &Profile) -> rusqlite::Result<Vec<Found>> {
    let schema = profile.table.schema().unwrap_or("main");
    let mut statement =
        connection.prepare("SELECT name, type, \"notnull\" FROM pragma_table_info(?1, ?2)")?;
    let rows = statement.query_map((profile.table.name(), schema), |row| {
        let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
        let role = profile.columns.iter().find(|(_, column)| column.as_str() == name).map(|(role, _)| *role);
        let nullable = row.get::<_, i64>(2)? == 0;
        Ok(Found { kind: kind(role, &declared), name, sql_type: declared, nullable, chars_max: None })
    })?;
    rows.collect()
}

/// What a column holds: SQLite has text, numbers and bytes, and whoever made the table gave them their meaning.
fn kind(role: Option<Column>, declared: &str) -> Kind {
    let declared = declared.to_ascii_uppercase();
    let wants = |kind| role.is_some_and(|role| role.kinds().contains(&kind));
    let is_text = ["CHAR", "CLOB", "TEXT", "UUID", "ENUM"].iter().any(|part| declared.contains(part));
    match () {
        () if role == Some(Column::Payload) => Kind::Bytes,
        () if declared.contains("DATE") || declared.contains("TIME") => Kind::Time,
        () if is_text && wants(Kind::Time) => Kind::Time,
        () if is_text => Kind::Text,
        () if declared.contains("JSON") => Kind::Json,
        () if declared.contains("INT") => Kind::Int,
        () if declared.contains("BLOB") => Kind::Bytes,
        () => Kind::Other,
    }
}

/// Compares them with the profile.
///
/// # Errors
/// `Unavailable` while there is no such table, `Config` for everything that is missing or wrong.
pub(super) fn shape(profile: Profile, found: &[Found]) -> Result<Shape> {
    if found.is_empty() {
        return Err(Error::unavailable(format!(
            "there is no table {} in this file yet; look at store.table",
            profile.table
        )));
    }
    Shape::of(profile.clone(), found, true).map_err(|problems| not_ready(&profile, &problems))
}
