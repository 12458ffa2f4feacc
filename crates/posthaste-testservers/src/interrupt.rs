//! Ctrl-C, SIGTERM and SIGHUP as a question that every wait asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Doing as _, Error, Result};

/// How often a wait looks whether it is over.
const POLL: Duration = Duration::from_millis(20);

/// Remembers the first signal that asked us to end; 0 while none did.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on.
    pub fn on_signals() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let number = usize::try_from(signal).expect("signal numbers are positive");
            signal_hook::flag::register_usize(signal, Arc::clone(&interrupt.0), number)
                .doing("catch signals")?;
        }
        Ok(interrupt)
    }

    /// The exit code by which a shell knows that a signal ended us.
    pub fn exit_code(&self) -> Option<u8> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => u8::try_from(128 + signal).ok(),
        }
    }

    /// Fails with [`Error::Interrupted`] once a signal came.
    pub fn check(&self) -> Result<()> {
        if self.exit_code().is_some() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Asks `fact` until it answers, at most for `within` (then `None`), or until a signal comes.
    pub fn wait_for<T>(
        &self,
        within: Duration,
        mut fact: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(answer) = fact()? {
                return Ok(Some(answer));
            }
            self.check()?;
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}
