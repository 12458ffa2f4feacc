//! Since when the server runs that was seen to be the one with these tables.
//!
//! Which server it is stands in its control file, and reading that costs a quarter of a look. Two servers do
//! not start in the same microsecond, so the start of a server that was recognised stands for it.

use std::sync::atomic::{AtomicI64, Ordering};

/// The start of the server in microseconds; 0: no server was recognised.
#[derive(Default)]
pub(super) struct Home(AtomicI64);

impl Home {
    /// The start of the server that was recognised last.
    pub(super) fn since(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|since| *since != 0)
    }

    /// A server that started then was recognised.
    pub(super) fn runs_since(&self, micros: i64) {
        self.0.store(micros, Ordering::Relaxed);
    }
}
