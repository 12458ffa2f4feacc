//! How the lanes see an event in a file.

use posthaste_core::admin::{EventState, LaneView};
use posthaste_core::log::question::{Head, Question};
use posthaste_core::sql::SqliteSql;
use rusqlite::Connection;

use super::driver::UpTo;
use crate::store::sqlite::rows;

/// How the lanes see the event, if the question means it.
pub(super) fn of(
    connection: &Connection,
    sql: &SqliteSql,
    question: &Question<'_, UpTo>,
    head: &Head,
) -> rusqlite::Result<Option<Vec<LaneView>>> {
    if !question.may_mean(head) {
        return Ok(None);
    }
    Ok(question.answer(head, parked(connection, sql, head.seq)?))
}

fn parked(connection: &Connection, sql: &SqliteSql, seq: i64) -> rusqlite::Result<Vec<LaneView>> {
    let mut views = Vec::new();
    let mut statement = connection.prepare_cached(&sql.views)?;
    let mut all = statement.query([seq])?;
    while let Some(row) = all.next()? {
        let Ok(lane) = rows::text(row, 0)?.parse() else { continue };
        let mut view = LaneView::new(lane, rows::seen(&rows::text(row, 1)?));
        if view.state == EventState::Delivered {
            // The row only waits for the place: it looks as if there were none.
            views.push(view);
            continue;
        }
        view.attempts = row.get(2)?;
        view.available_at = rows::maybe_time(row, 3)?;
        view.code = rows::maybe_text(row, 4)?;
        view.last_error = rows::maybe_text(row, 5)?;
        view.first_failed_at = rows::maybe_time(row, 6)?;
        view.dead_at = rows::maybe_time(row, 7)?;
        view.replay = row.get(8)?;
        views.push(view);
    }
    Ok(views)
}
