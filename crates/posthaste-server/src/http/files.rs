//! Room for connections: each takes a file descriptor, and many systems allow a process only 1,024 until it asks.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside the connections: the database, its log, listeners, targets.
const BESIDE_CONNECTIONS: u64 = 256;

/// Asks the system for enough file descriptors for so many connections, and answers for how many there is room.
///
/// Only the soft limit is raised, never beyond the hard one, which is the administrator's.
pub fn make_room(connections: usize) -> usize {
    let wanted = (connections as u64).saturating_add(BESIDE_CONNECTIONS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` is "no limit".
    let allowed = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let mut room = current.unwrap_or(wanted);
    if room < allowed && setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum }).is_ok() {
        room = allowed;
    }
    usize::try_from(room.saturating_sub(BESIDE_CONNECTIONS)).unwrap_or(usize::MAX).min(connections)
}
