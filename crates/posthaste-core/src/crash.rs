//! Named points at which a test can end the process, as if the machine had lost its power there.
//!
//! Without the feature `crash-points` (never on in the binary) a point is nothing at all.
//!
//! What was answered and not settled when a process ends is delivered again: at most the lane's window plus
//! the answers that wait for a settle. Nothing is lost, because a lane's place moves only over what is
//! settled. Tests arm these points to hold the line to that; the crate `posthaste-nemesis` does the same with
//! real processes.

/// Ends the process here if a test armed this point; otherwise nothing.
#[inline(always)]
pub fn point(name: &'static str) {
    #[cfg(feature = "crash-points")]
    armed::reached(name);
    #[cfg(not(feature = "crash-points"))]
    let _ = name;
}

#[cfg(feature = "crash-points")]
pub use armed::arm;

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::Mutex;

    static ARMED: Mutex<Option<(String, u32)>> = Mutex::new(None);

    /// Ends the process at the `nth` time (counted from 1) that the point of this name is reached.
    pub fn arm(name: &str, nth: u32) {
        *ARMED.lock().expect("nobody panics while holding it") = Some((name.to_owned(), nth));
    }

    pub(super) fn reached(name: &'static str) {
        let mut armed = ARMED.lock().expect("nobody panics while holding it");
        if let Some((wanted, left)) = armed.as_mut()
            && wanted == name
        {
            *left -= 1;
            if *left == 0 {
                // No destructor, no flush, no answer: what a kill -9 at this point would leave.
                std::process::abort();
            }
        }
    }
}
