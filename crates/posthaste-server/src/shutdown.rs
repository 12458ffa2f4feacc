//! The end of a long-running verb: the first signal asks for it, the second insists.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Tells whoever holds a clone that the process should end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Returns when the end was asked for: stop taking new work and finish what is in flight.
    pub async fn begun(&self) {
        let mut asked = self.0.clone();
        // An error means that whoever could ask is gone, which is an end too.
        let _ = asked.wait_for(|asked| *asked).await;
    }

    /// Whether the end was asked for.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}

/// Asks for the end.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

impl Trigger {
    /// A shutdown and what asks for it; for tests and for whoever embeds the server.
    pub fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Shutdown(receiver))
    }

    /// Asks for the end.
    pub fn pull(&self) {
        self.0.send_replace(true);
    }
}

/// Runs this work until it ends by itself. SIGINT or SIGTERM asks it to end; a second one drops it where it is, which
/// answers `None` and is safe: what was not settled is delivered again.
///
/// # Errors
/// When the process may not listen to signals.
pub async fn until_signalled<F: Future>(work: impl FnOnce(Shutdown) -> F) -> io::Result<Option<F::Output>> {
    let (trigger, shutdown) = Trigger::new();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let insisted = async {
        for _ in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            trigger.pull();
        }
    };
    tokio::select! {
        biased;
        () = insisted => Ok(None),
        output = work(shutdown) => Ok(Some(output)),
    }
}
