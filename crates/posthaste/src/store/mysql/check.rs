//! Looks at the table: what it has, what it lacks, and what this user may do with it.

use posthaste_core::findings::{Finding, Mend};
use posthaste_core::lane::LaneSpec;
use posthaste_core::table::{
    Column, Found, Indexes, Kind, MysqlTableSql, MysqlText, Present, Profile, Shape, mysql_table_ddl,
    not_ready,
};
use posthaste_core::{Error, ErrorKind, Result};
use posthaste_sql::Value;
use sqlx::mysql::MySqlRow;

use super::error::{Db, absent, explain, no_right, number};
use super::get;
use super::pool::Connection;
use crate::store::table::examine::Indexes as AllIndexes;

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
    let columns = columns(on, profile).await.map_err(explain)?;
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
    Err(not_ready(profile, &problems))
}

/// The table as it is; `None` while there is none.
pub(super) async fn present(on: &mut Connection, profile: &Profile) -> Result<Option<Present>> {
    let columns = columns(on, profile).await.map_err(explain)?;
    if columns.is_empty() {
        // Not there, or not shown to this user, which is another matter.
        let error = hidden(on, profile).await;
        return if error.kind() == ErrorKind::Unavailable { Ok(None) } else { Err(error) };
    }
    let indexes = all_indexes(on, profile).await.map_err(explain)?.columns;
    Ok(Some(Present { columns: columns.into_iter().map(|column| column.found).collect(), indexes }))
}

/// What the catalog says of the table's columns; nothing if there is no such table, or this user may not see
/// it.
async fn columns(on: &mut Connection, profile: &Profile) -> Db<Vec<Described>> {
    let text = MysqlText { text: MysqlTableSql::columns().to_owned(), order: vec![0, 1] };
    let values = [
        Value::Text(profile.table.schema().map(str::to_owned)),
        Value::Text(Some(profile.table.name().to_owned())),
    ];
    on.query(&text, &values).await?.iter().map(describe).collect()
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
    for finding in findings(on, shape, std::slice::from_ref(lane)).await? {
        if let Some(mend) = finding.mend {
            tracing::warn!(lane = lane.name.as_str(), "{}; {mend}", finding.seen);
        }
    }
    Ok(())
}

/// What makes these lanes slow, and what a crash of the server would lose.
pub(super) async fn findings(on: &mut Connection, shape: &Shape, lanes: &[LaneSpec]) -> Db<Vec<Finding>> {
    let all = all_indexes(on, &shape.profile).await?;
    let mut found = all.findings(shape, lanes, &mysql_table_ddl(&shape.profile));
    found.push(flush(on).await?);
    Ok(found)
}

async fn all_indexes(on: &mut Connection, profile: &Profile) -> Db<AllIndexes> {
    let text = MysqlText {
        text: "SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ',') FROM information_schema.statistics
            WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ? GROUP BY index_name"
            .to_owned(),
        order: vec![0, 1],
    };
    let values = [profile.table.schema().map(str::to_owned), Some(profile.table.name().to_owned())];
    let rows = on.query(&text, &values.map(Value::Text)).await?;
    let columns = |row| Ok(get::<String>(row, 0)?.split(',').map(str::to_owned).collect());
    Ok(AllIndexes { columns: rows.iter().map(columns).collect::<Db<_>>()?, may_be_partial: false })
}

async fn flush(on: &mut Connection) -> Db<Finding> {
    const SETTING: &str = "innodb_flush_log_at_trx_commit";
    let text = MysqlText { text: format!("SELECT CAST(@@{SETTING} AS SIGNED)"), order: Vec::new() };
    let rows = on.query(&text, &[]).await?;
    let is_safe = rows.first().map(|row| get::<i64>(row, 0)).transpose()?.is_none_or(|flush| flush == 1);
    if is_safe {
        return Ok(Finding::ok(SETTING, "1"));
    }
    let seen = format!(
        "{SETTING} is not 1: a crash may take back the last second of what was committed, events and deliveries alike"
    );
    Ok(Finding::warning(SETTING, seen, Mend::sql(format!("SET GLOBAL {SETTING} = 1"))))
}

/// The indexes by which rows are found; `None` if rows cannot be found by their id.
async fn indexes(on: &mut Connection, shape: &Shape) -> Db<Option<Indexes>> {
    let name = |column: Column| shape.profile.columns[&column].as_str();
    let by_time = index(on, shape, &[name(Column::Status), name(Column::AvailableAt)]).await?;
    let by_id = index(on, shape, &[name(Column::Id)]).await?;
    let by_key = match shape.order_column().map(name) {
        Some(key) => match index(on, shape, &[key, name(Column::Status)]).await? {
            Some(best) => Some(best),
            None => index(on, shape, &[key]).await?,
        },
        None => None,
    };
    Ok(by_id.map(|by_id| Indexes { by_id, by_time, by_key }))
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
