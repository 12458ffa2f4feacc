//! What a filter asks about events, and how the lanes see them.

use std::collections::HashMap;

use posthaste_core::admin::{EventState, Filter, LaneView};
use posthaste_core::lane::LaneName;
use posthaste_core::sql::PostgresSql;
use tokio_postgres::Client;

use super::lanes::{self, KnownLane};
use super::scan::Head;
use crate::store::postgres::error::Db;
use crate::store::postgres::rows;
use crate::store::postgres::value::args;

/// A filter, with the lanes as they are in this snapshot.
pub(super) struct Question<'a> {
    filter: &'a Filter,
    lanes: Vec<KnownLane>,
}

impl<'a> Question<'a> {
    pub(super) async fn new(client: &Client, sql: &PostgresSql, filter: &'a Filter) -> Db<Self> {
        let mut lanes = lanes::known(client, sql).await?;
        if let Some(name) = &filter.lane {
            lanes.retain(|lane| lane.name == *name);
        }
        Ok(Self { filter, lanes })
    }

    /// The lane that the filter names, if it is not there.
    pub(super) fn missing_lane(&self) -> Option<&'a LaneName> {
        self.filter.lane.as_ref().filter(|_| self.lanes.is_empty())
    }

    /// For each of these events how the lanes see it, if it is meant.
    pub(super) async fn answers(
        &self,
        client: &Client,
        sql: &PostgresSql,
        heads: &[Head],
    ) -> Db<Vec<Option<Vec<LaneView>>>> {
        let meant: Vec<i64> = heads.iter().filter(|head| self.means(head)).map(|head| head.seq).collect();
        let mut parked = parked_views(client, sql, meant).await?;
        let answer = |head: &Head| {
            let views = self.views(head, parked.remove(&head.seq).unwrap_or_default());
            (self.means(head) && self.is_meant(&views)).then_some(views)
        };
        Ok(heads.iter().map(answer).collect())
    }

    fn is_meant(&self, views: &[LaneView]) -> bool {
        !self.filter.asks_a_lane() || views.iter().any(|view| self.filter.fits(view))
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
    fn views(&self, head: &Head, mut parked: Vec<LaneView>) -> Vec<LaneView> {
        let mut views = Vec::new();
        for lane in &self.lanes {
            if let Some(index) = parked.iter().position(|view| view.lane == lane.name) {
                views.push(parked.swap_remove(index));
            } else if lane.spec.wants(&head.topic) {
                let is_passed = lane.passed.holds(head.seq, head.xid);
                let state = if is_passed { EventState::Delivered } else { EventState::Pending };
                views.push(LaneView::new(lane.name.clone(), state));
            }
        }
        views
    }
}

async fn parked_views(client: &Client, sql: &PostgresSql, seqs: Vec<i64>) -> Db<HashMap<i64, Vec<LaneView>>> {
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
