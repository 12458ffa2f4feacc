//! Walking over events, a page at a time: along the log, along what is parked, or to given ids.

use std::time::Duration;

use posthaste_core::admin::Filter;
use posthaste_core::log::question::{Head, Source, Stretch, Way};
use posthaste_core::sql::PostgresSql;
use tokio_postgres::{Client, Row};

use crate::store::postgres::error::Db;
use crate::store::postgres::value::args;
use crate::store::postgres::{log, rows};

/// How far the times of neighbours in the log may be out of order: by clocks that differ, and by transactions that stay
/// open.
const SKEW: Duration = Duration::from_secs(300);

fn head(row: &Row) -> Db<Head> {
    let event_type: String = row.try_get(1)?;
    Ok(Head {
        seq: row.try_get(0)?,
        topic: row.try_get::<_, Option<String>>(2)?.unwrap_or_else(|| event_type.clone()),
        event_type,
        key: row.try_get(3)?,
        created_at: rows::time(row, 4)?,
        xid: row.try_get::<_, &str>(5)?.parse().unwrap_or(u64::MAX),
        is_erased: row.try_get(6)?,
    })
}

/// The stretch that holds everything between the filter's times, found without an index on them.
pub(super) async fn stretch(client: &Client, sql: &PostgresSql, filter: &Filter) -> Db<Stretch> {
    let first = match filter.since {
        Some(since) => log::before(client, sql, since.before(SKEW)).await? + 1,
        None => 0,
    };
    let last = match filter.until {
        Some(until) => log::before(client, sql, until.after(SKEW)).await?,
        None => log::ends(client, sql).await?.1,
    };
    Ok(Stretch { first, last })
}

/// The next events of the stretch in order, at most so many.
pub(super) async fn page(
    client: &Client,
    sql: &PostgresSql,
    source: &Source,
    stretch: Stretch,
    way: Way,
    limit: usize,
) -> Db<Vec<Head>> {
    let (first, last, limit) = (stretch.first, stretch.last, i64::try_from(limit).unwrap_or(i64::MAX));
    let of = |up, down| if way == Way::Up { up } else { down };
    let rows = match source {
        Source::Log => {
            let text: &String = of(&sql.scan_log_up, &sql.scan_log_down);
            client.query_typed(text, &args![first, last, limit]).await?
        }
        Source::Parked(lane) => {
            let text: &String = of(&sql.scan_parked_up, &sql.scan_parked_down);
            client.query_typed(text, &args![first, last, limit, *lane]).await?
        }
        Source::Ended(lane, state) => {
            let text: &String = of(&sql.scan_ended_up, &sql.scan_ended_down);
            client.query_typed(text, &args![first, last, limit, *lane, *state]).await?
        }
        Source::Ids(ids) => {
            let text: &String = of(&sql.scan_ids_up, &sql.scan_ids_down);
            client.query_typed(text, &args![first, last, limit, *ids]).await?
        }
    };
    rows.iter().map(head).collect()
}
