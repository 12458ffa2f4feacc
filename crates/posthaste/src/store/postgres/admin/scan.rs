//! Walking over events, a page at a time: along the log, along what is parked, or to given ids.

use std::time::Duration;

use posthaste_core::admin::{EventState, Filter};
use posthaste_core::sql::PostgresSql;
use posthaste_core::time::Timestamp;
use tokio_postgres::{Client, Row};

use crate::store::postgres::error::Db;
use crate::store::postgres::value::args;
use crate::store::postgres::{log, rows};

/// How far the times of neighbours in the log may be out of order: by clocks that differ, and by transactions that stay
/// open.
const SKEW: Duration = Duration::from_secs(300);

/// As much of an event as decides whether it is meant.
pub(super) struct Head {
    pub(super) seq: i64,
    pub(super) event_type: String,
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) xid: u64,
    pub(super) is_erased: bool,
}

impl Head {
    fn read(row: &Row) -> Db<Self> {
        let event_type: String = row.try_get(1)?;
        Ok(Self {
            seq: row.try_get(0)?,
            topic: row.try_get::<_, Option<String>>(2)?.unwrap_or_else(|| event_type.clone()),
            event_type,
            key: row.try_get(3)?,
            created_at: rows::time(row, 4)?,
            xid: row.try_get::<_, &str>(5)?.parse().unwrap_or(u64::MAX),
            is_erased: row.try_get(6)?,
        })
    }
}

/// Where to look.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Log,
    /// What this lane has parked, or any lane.
    Parked(Option<String>),
    /// What this lane has parked in this state, or any lane.
    Ended(Option<String>, &'static str),
    /// These events.
    Ids(Vec<String>),
}

impl Source {
    /// The narrowest that holds everything the filter can match.
    pub(super) fn of(filter: &Filter) -> Self {
        let only_parked = filter.asks_a_failure()
            || filter
                .state
                .is_some_and(|state| !matches!(state, EventState::Pending | EventState::Delivered));
        let lane = || filter.lane.as_ref().map(|lane| lane.as_str().to_owned());
        match filter.state {
            _ if !filter.ids.is_empty() => Self::Ids(filter.ids.clone()),
            // They may be few among very many others.
            Some(state @ (EventState::Dead | EventState::Discarded)) => Self::Ended(lane(), state.name()),
            _ if only_parked => Self::Parked(lane()),
            _ => Self::Log,
        }
    }
}

/// A stretch of the log: numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl Stretch {
    /// The stretch that holds everything between the filter's times, found without an index on them.
    pub(super) async fn of(client: &Client, sql: &PostgresSql, filter: &Filter) -> Db<Self> {
        let first = match filter.since {
            Some(since) => log::before(client, sql, since.before(SKEW)).await? + 1,
            None => 0,
        };
        let last = match filter.until {
            Some(until) => log::before(client, sql, until.after(SKEW)).await?,
            None => log::ends(client, sql).await?.1,
        };
        Ok(Self { first, last })
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
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
    rows.iter().map(Head::read).collect()
}
