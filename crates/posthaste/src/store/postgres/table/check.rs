//! Looks at the table: what it has, what it lacks, and what this user may do with it.

use posthaste_core::lane::{LaneSpec, Order};
use posthaste_core::table::{Column, Found, Kind, PostgresTableSql, Present, Profile, Shape, not_ready};
use posthaste_core::{Error, Result};
use tokio_postgres::Row;

use super::super::error::{Db, explain};
use super::super::pool::Connection;
use super::super::value::args;
use crate::store::table::examine::Indexes;

/// A column of the catalog.
struct Described {
    found: Found,
    is_plain_table: bool,
    may_select: bool,
    may_update: bool,
    leads_an_index: bool,
}

/// Compares the table with its profile; answers also whether open rows are found by an index that begins with the column that
/// orders.
///
/// # Errors
/// `Unavailable` while there is no such table, `Config` for everything that is missing, wrong or forbidden.
pub(super) async fn check(client: &Connection, profile: &Profile) -> Result<(Shape, bool)> {
    let columns = columns(client, profile).await.map_err(explain)?;
    let table = profile.table.to_string();
    let Some(first) = columns.first() else { return Err(absent(&table)) };
    let is_plain_table = first.is_plain_table;
    let found: Vec<Found> = columns.iter().map(|column| column.found.clone()).collect();
    let mut problems = Vec::new();
    match Shape::of(profile.clone(), &found, is_plain_table) {
        Ok(shape) => {
            problems.extend(forbidden(&shape, &columns));
            if problems.is_empty() {
                let order = shape.order_column().map(|column| shape.profile.columns[&column].as_str());
                let is_order = |column: &&Described| Some(column.found.name.as_str()) == order;
                let has_index = columns.iter().find(is_order).is_some_and(|column| column.leads_an_index);
                return Ok((shape, has_index));
            }
        }
        Err(missing) => problems.extend(missing),
    }
    Err(not_ready(profile, &problems))
}

/// The table as it is; `None` while there is none.
pub(super) async fn present(client: &Connection, profile: &Profile) -> Db<Option<Present>> {
    let columns: Vec<_> = columns(client, profile).await?.into_iter().map(|column| column.found).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    Ok(Some(Present { columns, indexes: indexes(client, profile).await?.columns }))
}

/// What the catalog says of the table's columns; nothing while there is no such table.
async fn columns(client: &Connection, profile: &Profile) -> Db<Vec<Described>> {
    let name = profile.table.quoted();
    let (pending, delivering) = (profile.states.pending.literal(), profile.states.delivering.literal());
    let rows = client.query_typed(PostgresTableSql::columns(), &args![name, pending, delivering]).await?;
    rows.iter().map(describe).collect()
}

fn describe(row: &Row) -> Db<Described> {
    let (type_name, type_kind): (String, String) = (row.try_get(2)?, row.try_get(3)?);
    let relation: String = row.try_get(6)?;
    let found = Found {
        name: row.try_get(0)?,
        kind: kind(&type_name, &type_kind),
        sql_type: row.try_get(1)?,
        nullable: row.try_get(4)?,
        chars_max: row.try_get::<_, Option<i32>>(5)?.map(i32::unsigned_abs),
    };
    Ok(Described {
        found,
        is_plain_table: relation == "r",
        may_select: row.try_get(7)?,
        may_update: row.try_get(8)?,
        leads_an_index: row.try_get(9)?,
    })
}

fn kind(type_name: &str, type_kind: &str) -> Kind {
    match type_name {
        _ if type_kind == "e" => Kind::Enum,
        "text" | "varchar" | "bpchar" | "citext" => Kind::Text,
        "uuid" => Kind::Uuid,
        "int2" | "int4" | "int8" => Kind::Int,
        "bytea" => Kind::Bytes,
        "json" | "jsonb" => Kind::Json,
        "timestamptz" => Kind::Time,
        _ => Kind::Other,
    }
}

/// The rights that this user lacks, as the statement that gives them.
fn forbidden(shape: &Shape, columns: &[Described]) -> Option<String> {
    let lacks = |wanted: fn(Column) -> bool, may: fn(&Described) -> bool| {
        let names =
            shape.profile.columns.iter().filter(|(column, _)| shape.has(**column) && wanted(**column));
        let lacking = names.filter(|(_, name)| {
            columns.iter().any(|column| column.found.name == name.as_str() && !may(column))
        });
        lacking.map(|(_, name)| name.quoted()).collect::<Vec<_>>()
    };
    let read = lacks(|_| true, |column| column.may_select);
    let written = lacks(Column::is_written, |column| column.may_update);
    if read.is_empty() && written.is_empty() {
        return None;
    }
    let mut rights = Vec::new();
    if !read.is_empty() {
        rights.push("SELECT".to_owned());
    }
    if !written.is_empty() {
        rights.push(format!("UPDATE ({})", written.join(", ")));
    }
    Some(format!(
        "the user of the store URL may not do what a relay does: GRANT {} ON {} TO it",
        rights.join(", "),
        shape.profile.table.quoted()
    ))
}

/// There is no such table, which may still come.
pub(super) fn absent(table: &str) -> Error {
    Error::unavailable(format!(
        "there is no table {table} in this database yet; look at store.table and the schema"
    ))
}

pub(super) fn no_right(table: &str) -> Error {
    Error::config(format!(
        "the user of the store URL may not do this with {table}: GRANT SELECT, UPDATE ON it for relaying, DELETE for pruning, \
         INSERT for publishing"
    ))
}

/// The indexes of the table that can be used; of one on an expression, that it is there.
pub(super) async fn indexes(client: &Connection, profile: &Profile) -> Db<Indexes> {
    let table = profile.table.quoted();
    let text = "SELECT array(SELECT coalesce(a.attname::text, '') FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place)
            LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0
            ORDER BY k.place)
        FROM pg_catalog.pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisvalid";
    let rows = client.query_typed(text, &args![table]).await?;
    let columns = rows.iter().map(|row| row.try_get(0)).collect::<Db<_>>()?;
    Ok(Indexes { columns, may_be_partial: true })
}

/// Without an index on the key, a claim in order reads the whole table.
pub(super) fn warn_of_order(sql: &PostgresTableSql, lane: &LaneSpec) {
    if lane.order != Order::PerKey {
        return;
    }
    let shape = sql.shape();
    let Some(column) = shape.order_column() else {
        tracing::warn!(lane = lane.name.as_str(), "order = \"key\", but the table has no column for a key");
        return;
    };
    if !sql.has_order_index {
        tracing::warn!(
            table = %shape.profile.table,
            column = shape.profile.columns[&column].as_str(),
            "order = \"key\" needs an index of open rows that begins with this column, or claims get slower with every row; \
             posthaste migrate print shows one"
        );
    }
}
