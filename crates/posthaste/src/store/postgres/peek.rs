//! Peeking: whether any transaction has ended since the last look, asked for a fourth of a look's price.
//!
//! While events come one by one, most looks would find nothing. A peek reads no table; it answers which
//! transactions have ended. If only settles and ticks of this process ended since the last look, that look
//! still says all: nothing is new, nothing waits, and the lease holds.
//!
//! * A peek records nothing and moves nothing. If it is wrong, an event waits for the next look, which comes
//!   after a second at most.
//! * It is of no use where other transactions end all the time, or where nearly each look finds something. So
//!   a lane peeks only while most looks would have found nothing.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_core::sql::PostgresSql;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::error::Db;
use super::snapshot::Snapshot;

/// For how long a look's answer is believed.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// Where more ids were given, something surely happened.
const IDS_MAX: u64 = 64;
/// How many ids of this process are remembered: those of a second of many lanes.
const OWN_MAX: usize = 1_024;
/// How much one look changes the share of looks that had something to find.
const WEIGHT: f64 = 0.125;
/// Up to this share of looks with something to find, peeking first is cheaper.
const SHARE_MAX: f64 = 0.7;

/// The transaction ids that this process used for ticks and for settles that only move a place.
#[derive(Default)]
pub(super) struct OwnIds(Mutex<VecDeque<u64>>);

impl OwnIds {
    fn ids(&self) -> MutexGuard<'_, VecDeque<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: Option<u64>) {
        let Some(id) = id else { return };
        let mut ids = self.ids();
        if ids.len() == OWN_MAX {
            ids.pop_front();
        }
        ids.push_back(id);
    }

    /// Forgets all: on another connection they may be ids of others.
    pub(super) fn forget(&self) {
        self.ids().clear();
    }

    /// Whether the transactions that ended between two moments were all of this process.
    fn are_all_between(&self, before: &Snapshot, now: &Snapshot) -> bool {
        let ids = self.ids();
        before.ended_until(now, IDS_MAX).is_some_and(|ended| ended.iter().all(|id| ids.contains(id)))
    }
}

/// What the looks of a lane have seen.
pub(super) struct Peek(Mutex<Seen>);

struct Seen {
    /// What the last look saw, and the newest tick then, if nothing beyond that tick is left to be found.
    at: Option<(i64, Snapshot)>,
    looked: Instant,
    /// The share of looks that had something to find, of late.
    share: f64,
}

impl Peek {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Seen { at: None, looked: Instant::now(), share: 0.0 }))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing has happened since the last look, after which the lane had read up to this tick;
    /// `false` also where nobody knows.
    pub(super) async fn is_quiet(
        &self,
        client: &Client,
        sql: &PostgresSql,
        own: &OwnIds,
        tick: i64,
    ) -> Db<bool> {
        let Some(before) = self.worth_asking(tick) else { return Ok(false) };
        let row = client.query_typed_one(&sql.peek, &[]).await?;
        let Some(now) = Snapshot::parse(row.try_get(0)?) else { return Ok(false) };
        let is_quiet = own.are_all_between(&before, &now);
        if is_quiet {
            let mut seen = self.seen();
            seen.at = Some((tick, now));
            seen.count(false);
        }
        Ok(is_quiet)
    }

    fn worth_asking(&self, tick: i64) -> Option<Snapshot> {
        let seen = self.seen();
        let is_worth = seen.share <= SHARE_MAX && seen.looked.elapsed() < BELIEVED_FOR;
        let (_, before) = seen.at.as_ref().filter(|(at, _)| is_worth && *at == tick)?;
        Some(before.clone())
    }

    /// A look saw this, and nothing is left to be found beyond this tick.
    pub(super) fn looked(&self, tick: i64, now: Snapshot, own: &OwnIds) {
        let mut seen = self.seen();
        let before = seen.at.as_ref().map(|(_, before)| own.are_all_between(before, &now));
        if let Some(was_quiet) = before {
            seen.count(!was_quiet);
        }
        (seen.at, seen.looked) = (Some((tick, now)), Instant::now());
    }

    /// The last look does not say all any more.
    pub(super) fn forget(&self) {
        self.seen().at = None;
    }
}

impl Seen {
    fn count(&mut self, had_something: bool) {
        self.share += WEIGHT * (f64::from(u8::from(had_something)) - self.share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::parse(text).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_peeks_for_a_second_after_a_look_and_only_while_most_looks_find_nothing() {
        let (peek, own) = (Peek::new(), OwnIds::default());
        assert!(peek.worth_asking(1).is_none(), "nobody has looked");
        peek.looked(1, snapshot("10:10:"), &own);
        assert!(peek.worth_asking(1).is_some());
        assert!(peek.worth_asking(2).is_none(), "the lane has read beyond that look");
        tokio::time::advance(BELIEVED_FOR).await;
        assert!(peek.worth_asking(1).is_none(), "the look is too old");
        for id in 11..31 {
            peek.looked(1, snapshot(&format!("{id}:{id}:")), &own);
        }
        assert!(peek.worth_asking(1).is_none(), "each look found something");
        for id in 31..41 {
            own.add(Some(id - 1));
            peek.looked(1, snapshot(&format!("{id}:{id}:")), &own);
        }
        assert!(peek.worth_asking(1).is_some(), "only this process did something");
        peek.forget();
        assert!(peek.worth_asking(1).is_none());
    }

    #[test]
    fn only_the_ids_of_this_process_are_its_own() {
        let own = OwnIds::default();
        let (before, now) = (snapshot("1998:1998:"), snapshot("1999:2001:1999"));
        assert!(!own.are_all_between(&before, &now));
        own.add(Some(1_998));
        assert!(!own.are_all_between(&before, &now), "2000 is of somebody else");
        own.add(Some(2_000));
        assert!(own.are_all_between(&before, &now) && own.are_all_between(&now, &now));
        assert!(!own.are_all_between(&now, &before), "the server is not the one it was");
        assert!(!own.are_all_between(&now, &snapshot("2001:2001:")), "1999 was open");
        (0..OWN_MAX as u64).for_each(|id| own.add(Some(id)));
        assert!(!own.are_all_between(&before, &now), "the oldest are forgotten");
    }
}
