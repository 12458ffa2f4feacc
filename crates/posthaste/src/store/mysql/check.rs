//! Looks at the table: what it has, what it lacks, and what this user may do with it.

use posthaste_core::lane::{LaneSpec, Order};
use posthaste_core::table::{Column, Found, Indexes, Kind, MysqlTableSql, MysqlText, Profile, Shape};
use posthaste_core::{Error, Result};
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::error::{Db, absent, explain, no_right, number};
use super::get;
use super::pool::Connection;

/// A column of the catalog.
struct Described {
    found: Found,
    may_select: bool,
    may_update: bool,
    engine: Option<String>,
}

/// Compares the table with its profile.
///
/// # Errors
/// `Unavailable` while there is no such table, `Config` for everything that is missing, wrong or forbidden.
pub(super) async fn check(on: &mut Connection, profile: &Profile) -> Result<(Shape, Indexes)> {
    let text = MysqlText { text: MysqlTableSql::columns().to_owned(), order: vec![0, 1] };
    let values = [
        Value::Text(profile.table.schema().map(str::to_owned)),
        Value::Text(Some(profile.table.name().to_owned())),
    ];
    let rows = on.query(&text, &values).await.map_err(explain)?;
    let columns = rows.iter().map(describe).collect::<Db<Vec<_>>>().map_err(explain)?;
    let Some(first) = columns.first() else { return Err(hidden(on, profile).await) };
    let mut problems = Vec::new();
    match first.engine.as_deref() {
        Some("InnoDB") => {}
        other => problems.push(format!(
            "the table {} is kept by {}, which has no transactions; ALTER TABLE … ENGINE = InnoDB",
            profile.table,
            other.unwrap_or("a view")
        )),
    }
    let found: Vec<Found> = columns.iter().map(|column| column.found.clone()).collect();
    match Shape::of(profile.clone(), &found, false) {
        Ok(shape) => {
            problems.extend(forbidden(&shape, &columns));
            match indexes(on, &shape).await.map_err(explain)? {
                Some(indexes) if problems.is_empty() => return Ok((shape, indexes)),
                Some(_) => {}
                None => problems.push(format!(
                    "no index of the table {} begins with the column of the id ({}): every outcome would read and lock all rows",
                    profile.table,
                    profile.columns[&Column::Id]
                )),
            }
        }
        Err(missing) => problems.extend(missing),
    }
    Err(Error::config(problems.join("; ")))
}

/// Whether it is not there, or not shown to this user.
async fn hidden(on: &mut Connection, profile: &Profile) -> Error {
    let (table, name) = (profile.table.quoted(), profile.table.to_string());
    match on.say(&format!("SELECT 1 FROM {table} LIMIT 0")).await {
        Err(error) if matches!(number(&error), Some(1142 | 1143 | 1044)) => no_right(&name).because(error),
        Err(error) if number(&error) == Some(1146) => absent(&name),
        Err(error) => explain(error),
        // It was made a moment ago.
        Ok(()) => absent(&name),
    }
}

fn describe(row: &MySqlRow) -> Db<Described> {
    let (mut sql_type, data_type): (String, String) = (get(row, 1)?, get(row, 2)?);
    let kind = kind(&sql_type, &data_type);
    if let (Some(charset), Some(collation)) = (get::<Option<String>>(row, 5)?, get::<Option<String>>(row, 6)?)
    {
        sql_type = format!("{sql_type} CHARACTER SET {charset} COLLATE {collation}");
    }
    let chars = get::<Option<i64>>(row, 4)?.map(|chars| u32::try_from(chars).unwrap_or(u32::MAX));
    Ok(Described {
        found: Found {
            name: get(row, 0)?,
            kind,
            sql_type,
            nullable: get::<i64>(row, 3)? != 0,
            chars_max: chars.filter(|_| matches!(kind, Kind::Text | Kind::Bytes)),
        },
        may_select: get::<i64>(row, 7)? != 0,
        may_update: get::<i64>(row, 8)? != 0,
        engine: get(row, 9)?,
    })
}

fn kind(sql_type: &str, data_type: &str) -> Kind {
    match data_type {
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => Kind::Text,
        "enum" => Kind::Enum,
        "uuid" => Kind::Uuid,
        // How UUIDs are kept where there is no type for them.
        "binary" if sql_type == "binary(16)" => Kind::Uuid,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Kind::Int,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Bytes,
        "json" => Kind::Json,
        "datetime" | "timestamp" => Kind::Time,
        _ => Kind::Other,
    }
}

/// The rights that this user lacks, as the statement that gives them.
fn forbidden(shape: &Shape, columns: &[Described]) -> Option<String> {
    let lacks = |wanted: fn(Column) -> bool, may: fn(&Described) -> bool| {
        let used = shape.profile.columns.iter().filter(|(column, _)| shape.has(**column) && wanted(**column));
        used.map(|(_, name)| name.as_str())
            .filter(|name| columns.iter().any(|column| column.found.name == *name && !may(column)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let read = lacks(|_| true, |column| column.may_select);
    let written = lacks(Column::is_written, |column| column.may_update);
    let rights: Vec<_> = [("SELECT", read), ("UPDATE", written)]
        .into_iter()
        .filter(|(_, columns)| !columns.is_empty())
        .map(|(right, columns)| format!("{right} ({columns})"))
        .collect();
    (!rights.is_empty()).then(|| {
        format!(
            "the user of the store URL may not do what a relay does: GRANT {} ON {} TO it",
            rights.join(", "),
            shape.profile.table
        )
    })
}

/// Warns of what makes claims slow, and of what a crash of the server would lose.
pub(super) async fn warn(on: &mut Connection, shape: &Shape, lane: &LaneSpec) -> Db<()> {
    let name = |column: Column| shape.profile.columns[&column].as_str();
    if index(on, shape, &[name(Column::Status), name(Column::AvailableAt)]).await?.is_none() {
        tracing::warn!(
            table = %shape.profile.table,
            "no index begins with the columns of the state and of the time from which a row is due: every claim reads and locks \
             all that is pending; posthaste migrate print shows one"
        );
    }
    if lane.order == Order::PerKey {
        match shape.order_column() {
            None => tracing::warn!(
                lane = lane.name.as_str(),
                "order = \"key\", but the table has no column for a key"
            ),
            Some(key) if index(on, shape, &[name(key)]).await?.is_none() => tracing::warn!(
                table = %shape.profile.table,
                column = name(key),
                "order = \"key\" needs an index that begins with this column, or claims get slower with every row; \
                 posthaste migrate print shows one"
            ),
            Some(_) => {}
        }
    }
    let flush = MysqlText {
        text: "SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)".to_owned(),
        order: Vec::new(),
    };
    let rows = on.query(&flush, &[]).await?;
    if rows.first().map(|row| get::<i64>(row, 0)).transpose()?.is_some_and(|flush| flush != 1) {
        tracing::warn!(
            "innodb_flush_log_at_trx_commit is not 1: a crash may take back the last second of what was committed, events and \
             deliveries alike"
        );
    }
    Ok(())
}

/// The indexes by which rows are found; `None` if rows cannot be found by their id.
async fn indexes(on: &mut Connection, shape: &Shape) -> Db<Option<Indexes>> {
    let name = |column: Column| shape.profile.columns[&column].as_str();
    let by_time = index(on, shape, &[name(Column::Status), name(Column::AvailableAt)]).await?;
    let by_id = index(on, shape, &[name(Column::Id)]).await?;
    Ok(by_id.map(|by_id| Indexes { by_id, by_time }))
}

/// The index that begins with these columns; a unique one before others.
async fn index(on: &mut Connection, shape: &Shape, columns: &[&str]) -> Db<Option<String>> {
    let text = MysqlText {
        text: "SELECT index_name FROM information_schema.statistics
            WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?
            GROUP BY index_name
            HAVING CONCAT(GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ','), ',') LIKE CONCAT(?, ',%')
            ORDER BY MIN(non_unique), COUNT(*) LIMIT 1"
            .to_owned(),
        order: vec![0, 1, 2],
    };
    let table = &shape.profile.table;
    // An underscore would stand for any sign.
    let columns = columns.join(",").replace('_', "\\_");
    let values = [table.schema().map(str::to_owned), Some(table.name().to_owned()), Some(columns)];
    let rows = on.query(&text, &values.map(Value::Text)).await?;
    rows.first().map(|row| get(row, 0)).transpose()
}
