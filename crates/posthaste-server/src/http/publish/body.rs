//! Reading a request's body: within its limit, at its pace, and within what all requests together may hold.
//!
//! A body takes room in the budget as its bytes arrive, never for what it announces, so a slow client holds
//! no room that it does not fill. A small body needs none of it and never waits for large ones.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::http::app::App;
use crate::http::problem::{Kind, Problem};

/// What bodies that are being read and stored may hold together, unless one alone may be larger: beside the
/// small part of each, and beside one body that goes on when there is no room.
const BODIES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// This much of each body needs no room. The number of connections bounds it, as it bounds their read
/// buffers.
const SMALL_BYTES: usize = 16 * 1024;
/// The budget is counted in these units, because a semaphore counts to less than 4 GiB.
const UNIT_BYTES: usize = 1024;
/// How much of a body over its limit is read and thrown away, so that its sender gets to read the answer.
const DISCARDED_BYTES_MAX: usize = 8 * 1024 * 1024;
const DISCARDED_FOR: Duration = Duration::from_secs(1);

/// What all bodies together may hold in memory.
#[derive(Debug)]
pub(crate) struct Budget {
    room: Arc<Semaphore>,
    /// One body at a time goes on without room. Otherwise bodies that each hold a part of the budget could
    /// all wait for the rest of it, for one another.
    last: Arc<Semaphore>,
}

impl Budget {
    /// A budget in which a body of this size fits.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        Self::of(body_bytes_max.max(BODIES_BYTES_MAX))
    }

    fn of(bytes: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(units(bytes))), last: Arc::new(Semaphore::new(1)) }
    }
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES)
}

/// The room of one body; dropping it gives the room back.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: usize,
    taken: Option<OwnedSemaphorePermit>,
    last: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Makes room for a body of `bytes` so far, of which at most `most` may come. Waits while there is none.
    async fn grow(&mut self, budget: &Budget, bytes: usize, most: usize) -> Result<(), Problem> {
        if bytes <= self.bytes {
            return Ok(());
        }
        // Twice as much each time: a large body is copied, and asks for room, only a few times.
        let wanted = bytes.max(self.bytes.saturating_mul(2)).min(most.max(bytes));
        let missing = units(wanted).saturating_sub(self.units_covered());
        if self.last.is_none() && wanted > SMALL_BYTES && missing > 0 {
            self.take(budget, missing).await?;
        }
        self.bytes = wanted;
        Ok(())
    }

    fn units_covered(&self) -> usize {
        units(SMALL_BYTES) + self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    async fn take(&mut self, budget: &Budget, missing: usize) -> Result<(), Problem> {
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let stopping =
            |_| Problem::new(Kind::Unavailable, "the server is stopping; send the request again later");
        tokio::select! {
            biased;
            taken = Arc::clone(&budget.room).acquire_many_owned(missing) => {
                let taken = taken.map_err(stopping)?;
                match &mut self.taken {
                    Some(before) => before.merge(taken),
                    None => self.taken = Some(taken),
                }
            }
            last = Arc::clone(&budget.last).acquire_owned() => self.last = Some(last.map_err(stopping)?),
        }
        Ok(())
    }
}

/// How fast a body must come: it may fall behind its slowest rate by a fixed time in all, so it may pause for
/// that time too, and what came fast at first is no excuse for coming slowly later.
#[derive(Clone, Copy, Debug)]
struct BodyPace {
    behind_max: Duration,
    bytes_per_second: u64,
    until: Instant,
}

impl BodyPace {
    fn new(behind_max: Duration, bytes_per_second: u64) -> Self {
        Self { behind_max, bytes_per_second, until: Instant::now() + behind_max }
    }

    /// This number of bytes came.
    fn came(&mut self, bytes: usize) {
        let worth = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64);
        self.until = (self.until + worth).min(Instant::now() + self.behind_max);
    }

    /// The client had to wait for us.
    fn waited(&mut self, waited: Duration) {
        self.until += waited;
    }
}

/// Reads a body of at most `limit` bytes, and answers it with its room in the budget.
///
/// A body that says it is longer is refused before any of it is kept.
pub(super) async fn read(app: &App, mut body: Body, limit: usize) -> Result<(Vec<u8>, Room), Problem> {
    let announced = body.size_hint();
    if announced.lower() > limit as u64 {
        discard(&mut body).await;
        return Err(too_large(limit));
    }
    let most = announced.upper().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(limit).min(limit);
    let (mut bytes, mut room) = (Vec::new(), Room::default());
    let mut pace = BodyPace::new(app.limits.body_timeout, app.limits.body_bytes_per_second_min);
    loop {
        let frame = timeout_at(pace.until, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| Problem::new(Kind::Malformed, "the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        let needed = bytes.len() + data.len();
        if needed > limit {
            discard(&mut body).await;
            return Err(too_large(limit));
        }
        pace.came(data.len());
        let asked = Instant::now();
        let Ok(grown) = timeout(app.limits.body_timeout, room.grow(&app.bodies, needed, most)).await else {
            discard(&mut body).await;
            return Err(no_room());
        };
        grown?;
        pace.waited(asked.elapsed());
        bytes.reserve_exact(room.bytes - bytes.len());
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, room))
}

/// Throws away what comes of a body that is refused, up to a bound. Closing a connection on bytes that were not read
/// makes the sender's system drop the answer as well.
pub(crate) async fn discard(body: &mut Body) {
    let until = Instant::now() + DISCARDED_FOR;
    let mut discarded = 0;
    while discarded < DISCARDED_BYTES_MAX {
        let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await else { return };
        discarded += frame.into_data().map_or(0, |data| data.len());
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the body may have {limit} bytes; publish smaller batches, or a reference to large data"),
    )
}

fn too_slow() -> Problem {
    Problem::new(Kind::BodyTimeout, "the body came too slowly; send the request again, with the same ids")
}

fn no_room() -> Problem {
    let detail =
        "too many large requests are being read and stored; send the request again later, with the same ids";
    Problem::new(Kind::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MOST: usize = 64 * UNIT_BYTES;

    /// Whether there is room at once.
    fn grows(room: &mut Room, budget: &Budget, bytes: usize) -> bool {
        room.grow(budget, bytes, MOST).now_or_never().is_some_and(|grown| grown.is_ok())
    }

    fn free(budget: &Budget) -> usize {
        budget.room.available_permits() * UNIT_BYTES
    }

    #[tokio::test]
    async fn room_is_taken_as_bytes_come_and_at_most_twice_as_much() {
        let (budget, mut room) = (Budget::of(MOST), Room::default());
        assert!(grows(&mut room, &budget, 1));
        assert!(grows(&mut room, &budget, SMALL_BYTES));
        assert_eq!((room.bytes, free(&budget)), (SMALL_BYTES, MOST), "a small body takes none");
        assert!(grows(&mut room, &budget, SMALL_BYTES + 1));
        assert_eq!((room.bytes, free(&budget)), (2 * SMALL_BYTES, MOST - SMALL_BYTES));
        assert!(grows(&mut room, &budget, MOST));
        assert_eq!((room.bytes, free(&budget)), (MOST, SMALL_BYTES));
        drop(room);
        assert_eq!(free(&budget), MOST);
    }

    #[tokio::test]
    async fn small_bodies_pass_while_large_ones_wait_and_one_of_those_goes_on() {
        let budget = Budget::of(MOST);
        let mut rooms: Vec<Room> = (0..6).map(|_| Room::default()).collect();
        let took: Vec<bool> = rooms.iter_mut().map(|room| grows(room, &budget, 2 * SMALL_BYTES)).collect();
        assert_eq!(took, [true, true, true, true, true, false], "four have room, and one goes on without");
        assert_eq!(free(&budget), 0);
        assert!(grows(&mut Room::default(), &budget, SMALL_BYTES), "a small one passes");
        assert!(grows(&mut rooms[4], &budget, MOST), "the one that goes on needs no room to its end");
        assert!(!grows(&mut rooms[0], &budget, MOST), "the others wait for it");
        drop(rooms.remove(4));
        assert!(grows(&mut rooms[0], &budget, MOST), "and then the next one goes on");
    }

    const BEHIND: Duration = Duration::from_secs(10);

    /// How long a body lasts that sends so many bytes every second.
    async fn lasts(mut pace: BodyPace, bytes_each_second: usize) -> Option<u64> {
        for second in 1..=3_600 {
            tokio::time::advance(Duration::from_secs(1)).await;
            if Instant::now() >= pace.until {
                return Some(second);
            }
            pace.came(bytes_each_second);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_fall_behind_its_slowest_rate_by_a_fixed_time() {
        let pace = || BodyPace::new(BEHIND, 1_000);
        assert_eq!(lasts(pace(), 0).await, Some(10), "a pause");
        assert_eq!(lasts(pace(), 1).await, Some(11), "a drip");
        assert_eq!(lasts(pace(), 500).await, Some(19), "half as fast as it must be");
        assert_eq!(lasts(pace(), 1_000).await, None, "just as fast");
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_fast_is_no_excuse_and_what_we_let_wait_is() {
        let mut fast = BodyPace::new(BEHIND, 1_000);
        fast.came(1_000_000);
        assert_eq!(lasts(fast, 0).await, Some(10));
        let mut waiting = BodyPace::new(BEHIND, 1_000);
        tokio::time::advance(Duration::from_secs(60)).await;
        waiting.waited(Duration::from_secs(60));
        assert_eq!(lasts(waiting, 0).await, Some(10));
    }
}
