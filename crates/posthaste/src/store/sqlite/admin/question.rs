//! What a filter asks about one event, and how the lanes see that event.

use posthaste_core::admin::{EventState, Filter, LaneView};
use posthaste_core::lane::LaneName;
use posthaste_core::sql::SqliteSql;
use rusqlite::Connection;

use super::lanes::{self, KnownLane};
use super::scan::Head;
use crate::store::sqlite::rows;

/// A filter, with the lanes as they are in this snapshot.
pub(super) struct Question<'a> {
    filter: &'a Filter,
    lanes: Vec<KnownLane>,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        connection: &Connection,
        sql: &SqliteSql,
        filter: &'a Filter,
    ) -> rusqlite::Result<Self> {
        let mut lanes = lanes::known(connection, sql)?;
        if let Some(name) = &filter.lane {
            lanes.retain(|lane| lane.name == *name);
        }
        Ok(Self { filter, lanes })
    }

    /// The lane that the filter names, if it is not there.
    pub(super) fn missing_lane(&self) -> Option<&'a LaneName> {
        self.filter.lane.as_ref().filter(|_| self.lanes.is_empty())
    }

    /// How the lanes see the event, if it is meant.
    pub(super) fn answer(
        &self,
        connection: &Connection,
        sql: &SqliteSql,
        head: &Head,
    ) -> rusqlite::Result<Option<Vec<LaneView>>> {
        if !self.means(head) {
            return Ok(None);
        }
        let views = self.views(connection, sql, head)?;
        let is_meant = !self.filter.asks_a_lane() || views.iter().any(|view| self.filter.fits(view));
        Ok(is_meant.then_some(views))
    }

    /// What can be said without asking a lane. Ids are not compared: they decide where we look.
    fn means(&self, head: &Head) -> bool {
        let filter = self.filter;
        filter.event_type.as_ref().is_none_or(|wanted| *wanted == head.event_type)
            && filter.topic.as_ref().is_none_or(|pattern| pattern.matches(&head.topic))
            && filter.key.as_ref().is_none_or(|key| head.key.as_ref() == Some(key))
            && filter.since.is_none_or(|since| head.created_at >= since)
            && filter.until.is_none_or(|until| head.created_at < until)
    }

    /// How each lane that wants the event, or has it parked, sees it.
    fn views(
        &self,
        connection: &Connection,
        sql: &SqliteSql,
        head: &Head,
    ) -> rusqlite::Result<Vec<LaneView>> {
        let mut parked = parked_views(connection, sql, head.seq)?;
        let mut views = Vec::new();
        for lane in &self.lanes {
            if let Some(index) = parked.iter().position(|view| view.lane == lane.name) {
                views.push(parked.swap_remove(index));
            } else if lane.spec.wants(&head.topic) {
                let is_passed = head.seq <= lane.position;
                let state = if is_passed { EventState::Delivered } else { EventState::Pending };
                views.push(LaneView::new(lane.name.clone(), state));
            }
        }
        Ok(views)
    }
}

fn parked_views(connection: &Connection, sql: &SqliteSql, seq: i64) -> rusqlite::Result<Vec<LaneView>> {
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
