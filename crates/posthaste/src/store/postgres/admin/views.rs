//! How the lanes see events on a server.

use std::collections::HashMap;

use posthaste_core::admin::{EventState, LaneView};
use posthaste_core::log::question::{Head, Question};
use posthaste_core::sql::PostgresSql;
use tokio_postgres::Client;

use super::lanes::Passed;
use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::value::args;

/// For each of these events how the lanes see it, if the question means it.
pub(super) async fn of(
    client: &Client,
    sql: &PostgresSql,
    question: &Question<'_, Passed>,
    heads: &[Head],
) -> Db<Vec<Option<Vec<LaneView>>>> {
    let asked = heads.iter().filter(|head| question.may_mean(head)).map(|head| head.seq).collect();
    let mut parked = parked(client, sql, asked).await?;
    let views = |head: &Head| question.answer(head, parked.remove(&head.seq).unwrap_or_default());
    Ok(heads.iter().map(views).collect())
}

async fn parked(client: &Client, sql: &PostgresSql, seqs: Vec<i64>) -> Db<HashMap<i64, Vec<LaneView>>> {
    let mut views: HashMap<i64, Vec<LaneView>> = HashMap::new();
    for row in client.query_typed(&sql.views, &args![seqs]).await? {
        let Ok(lane) = row.try_get::<_, &str>(1)?.parse() else { continue };
        let mut view = LaneView::new(lane, rows::seen(row.try_get(2)?));
        if view.state == EventState::Delivered {
            // The row only waits for the place: it looks as if there were none.
            views.entry(row.try_get(0)?).or_default().push(view);
            continue;
        }
        view.attempts = u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(u32::MAX);
        view.available_at = rows::maybe_time(&row, 4)?;
        view.code = row.try_get(5)?;
        view.last_error = row.try_get(6)?;
        view.first_failed_at = rows::maybe_time(&row, 7)?;
        view.dead_at = rows::maybe_time(&row, 8)?;
        view.replay = row.try_get(9)?;
        views.entry(row.try_get(0)?).or_default().push(view);
    }
    Ok(views)
}
