//! The open connections of a server: how many there may be, and which idle one is closed for a new one.
//!
//! A full server that refuses the newest connection can be shut by anybody who opens many and says nothing.
//! So a new connection takes the place of an idle one:
//!
//! 1. the longest idle that never sent a whole request, once it had a moment to do so;
//! 2. else the longest idle of a client that never showed a valid key;
//! 3. else the longest idle of any client.
//!
//! A connection whose request is being handled is never closed for another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::gauge;
use posthaste::telemetry::metric;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a connection may take for its first request before it is the first to go. Without it, two clients
/// that connect at the same time to a server full of idle strangers would close each other's connections.
const FIRST_REQUEST_WITHIN: Duration = Duration::from_secs(1);

/// What a connection's client has shown so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No whole request yet.
    Silent,
    /// Requests, but never a valid key.
    Stranger,
    /// A valid key.
    Known,
}

/// The open connections of one server.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    max: usize,
    next_id: u64,
    seats: HashMap<u64, SeatState>,
    /// Idle connections by [`Standing`], the longest idle first.
    idle: [BTreeSet<(Instant, u64)>; 3],
}

#[derive(Debug)]
struct SeatState {
    standing: Standing,
    /// `None` while a request is handled.
    idle_since: Option<Instant>,
    evicted: CancellationToken,
}

/// One connection among those that are open; dropping it frees its place.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Connections,
    id: u64,
    evicted: CancellationToken,
}

/// How a new connection got its place.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) seat: Arc<Seat>,
    /// Whether an idle connection is closed for it.
    pub(super) has_evicted: bool,
}

impl Connections {
    /// At most this many.
    pub(super) fn new(max: usize) -> Self {
        let (seats, idle) = (HashMap::new(), Default::default());
        Self(Arc::new(Mutex::new(Open { max, next_id: 0, seats, idle })))
    }

    /// Gives a new connection a place, for which an idle one may have to go. `None`: there is no room, and
    /// every connection is busy.
    pub(super) fn admit(&self) -> Option<Admitted> {
        let mut open = self.lock();
        let has_evicted = open.seats.len() >= open.max;
        if has_evicted {
            open.evict()?;
        }
        let evicted = open.add();
        let id = open.next_id;
        drop(open);
        gauge!(metric::HTTP_CONNECTIONS).increment(1);
        let seat = Arc::new(Seat { connections: self.clone(), id, evicted });
        Some(Admitted { seat, has_evicted })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn add(&mut self) -> CancellationToken {
        self.next_id += 1;
        let (now, evicted) = (Instant::now(), CancellationToken::new());
        let standing = Standing::Silent;
        self.seats
            .insert(self.next_id, SeatState { standing, idle_since: Some(now), evicted: evicted.clone() });
        self.idle[standing as usize].insert((now, self.next_id));
        evicted
    }

    /// Frees the place of the idle connection that matters least.
    fn evict(&mut self) -> Option<()> {
        let first = |standing: Standing| self.idle[standing as usize].first().copied();
        let (silent, stranger) = (first(Standing::Silent), first(Standing::Stranger));
        let had_time = silent.filter(|(since, _)| since.elapsed() >= FIRST_REQUEST_WITHIN);
        let without_key = || [silent, stranger].into_iter().flatten().min();
        let (_, id) = had_time.or_else(without_key).or_else(|| first(Standing::Known))?;
        self.remove(id)?.evicted.cancel();
        Some(())
    }

    fn remove(&mut self, id: u64) -> Option<SeatState> {
        let seat = self.seats.remove(&id)?;
        if let Some(since) = seat.idle_since {
            self.idle[seat.standing as usize].remove(&(since, id));
        }
        Some(seat)
    }
}

impl Seat {
    /// A request begins. `false`: the connection is being closed for another one, and the request must not be
    /// handled.
    pub(super) fn begin(&self) -> bool {
        let mut open = self.connections.lock();
        let Open { seats, idle, .. } = &mut *open;
        let Some(seat) = seats.get_mut(&self.id) else { return false };
        if let Some(since) = seat.idle_since.take() {
            idle[seat.standing as usize].remove(&(since, self.id));
        }
        if seat.standing == Standing::Silent {
            seat.standing = Standing::Stranger;
        }
        true
    }

    /// The client of the request that is handled has a valid key.
    pub(super) fn has_valid_key(&self) {
        if let Some(seat) = self.connections.lock().seats.get_mut(&self.id)
            && seat.idle_since.is_none()
        {
            seat.standing = Standing::Known;
        }
    }

    /// The request has ended.
    pub(super) fn end(&self) {
        let mut open = self.connections.lock();
        let Open { seats, idle, .. } = &mut *open;
        let Some(seat) = seats.get_mut(&self.id) else { return };
        let now = Instant::now();
        seat.idle_since = Some(now);
        idle[seat.standing as usize].insert((now, self.id));
    }

    /// Waits until the connection must be closed for another one.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
        gauge!(metric::HTTP_CONNECTIONS).decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(connections: &Connections) -> Arc<Seat> {
        connections.admit().expect("there is room").seat
    }

    fn ask(seat: &Seat) {
        assert!(seat.begin());
        seat.end();
    }

    fn ask_with_key(seat: &Seat) {
        assert!(seat.begin());
        seat.has_valid_key();
        seat.end();
    }

    async fn a_while() {
        tokio::time::advance(FIRST_REQUEST_WITHIN).await;
    }

    /// Which of them go, one after another, when as many new ones come.
    fn evicted<'a>(connections: &Connections, seats: &[(&'a str, Arc<Seat>)]) -> Vec<&'a str> {
        let mut order = Vec::new();
        let mut new = Vec::new();
        for _ in 0..seats.len() {
            let Some(admitted) = connections.admit() else { break };
            assert!(admitted.has_evicted && admitted.seat.begin(), "it is new, and busy from now on");
            new.push(admitted.seat);
            let gone =
                seats.iter().filter(|(name, seat)| seat.evicted.is_cancelled() && !order.contains(name));
            let gone: Vec<&str> = gone.map(|(name, _)| *name).collect();
            order.extend(gone);
        }
        assert!(connections.admit().is_none(), "every connection is busy");
        order
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_go_first_then_strangers_then_known_clients_the_longest_idle_first() {
        let connections = Connections::new(6);
        let seats = ["known 1", "known 2", "stranger 1", "stranger 2", "silent 1", "silent 2"]
            .map(|name| (name, admit(&connections)));
        a_while().await;
        for (name, seat) in &seats {
            match name.split(' ').next() {
                Some("known") => ask_with_key(seat),
                Some("stranger") => ask(seat),
                _ => {}
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        a_while().await;
        let order = ["silent 1", "silent 2", "stranger 1", "stranger 2", "known 1", "known 2"];
        assert_eq!(evicted(&connections, &seats), order);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_has_a_moment_for_its_request_before_strangers_are_spared_for_it() {
        let connections = Connections::new(2);
        let stranger = admit(&connections);
        ask(&stranger);
        tokio::time::advance(Duration::from_millis(1)).await;
        let new = admit(&connections);
        assert_eq!(evicted(&connections, &[("stranger", stranger), ("new", new)]), ["stranger", "new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_connection_stays_and_one_that_must_go_begins_nothing() {
        let connections = Connections::new(2);
        let (busy, idle) = (admit(&connections), admit(&connections));
        assert!(busy.begin());
        let new = admit(&connections);
        assert!(idle.evicted.is_cancelled() && !idle.begin());
        assert!(new.begin());
        assert!(connections.admit().is_none());
        drop(busy);
        assert!(!connections.admit().expect("a place is free").has_evicted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_connection_frees_one_place_and_an_evicted_one_no_second() {
        let connections = Connections::new(1);
        let (first, second) = (admit(&connections), admit(&connections));
        drop(first);
        assert!(connections.admit().is_some_and(|admitted| admitted.has_evicted), "the second has the place");
        drop(second);
    }
}
