//! A page that was asked for before anybody claims it: the server works on it while the last one is delivered.
//!
//! It is used only if nothing happened since that a page asked for now would show: nothing was parked under this lease, and
//! it is not old. Otherwise it is thrown away and asked for again.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::RowStream;

use super::super::cursor::Window;

/// Older than this it would judge by an old clock what is scheduled and what has expired.
const AGE_MAX: Duration = Duration::from_millis(250);

/// The rows of a page as they arrive.
pub(in super::super) type Rows = Pin<Box<RowStream>>;

/// A page that is on its way.
pub(in super::super) struct Ahead {
    pub(super) window: Arc<Window>,
    /// The number that it goes on after, and how many rows it has at most.
    pub(super) read: i64,
    pub(super) rows_max: i64,
    /// How often the lease had parked something when it was asked for.
    pub(super) parkings: u64,
    pub(super) asked: Instant,
    pub(super) rows: Rows,
}

impl Ahead {
    /// Its rows and how many there are at most, if it is the page that is wanted.
    pub(super) fn page(self, window: &Arc<Window>, read: i64, parkings: u64) -> Option<(Rows, i64)> {
        let is_it = Arc::ptr_eq(&self.window, window)
            && (self.read, self.parkings) == (read, parkings)
            && self.asked.elapsed() < AGE_MAX;
        is_it.then_some((self.rows, self.rows_max))
    }
}
