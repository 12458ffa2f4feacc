//! Threads that read, each with its own connection, so that nothing blocks the async runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use posthaste_core::{Error, Result};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

/// How many reads may wait.
const QUEUE_READS_MAX: usize = 256;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The handle to one reading thread.
pub(super) struct Reader {
    queue: Option<mpsc::Sender<Read>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts a thread of this name on this connection.
    pub(super) fn start(name: &str, connection: Connection) -> Result<Self> {
        let (queue, mut reads) = mpsc::channel::<Read>(QUEUE_READS_MAX);
        let serve = move || {
            while let Some(read) = reads.blocking_recv() {
                read(&connection);
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(serve)
            .map_err(|error| Error::unavailable("a reader's thread cannot be started").because(error))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Runs this on the thread. Dropped before it began: it is skipped.
    pub(super) async fn run<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        let (reply, answer) = oneshot::channel();
        let job = move |connection: &Connection| {
            if reply.is_closed() {
                return;
            }
            let result =
                catch_unwind(AssertUnwindSafe(|| in_one_snapshot(connection, read))).unwrap_or_else(|_| {
                    Err(Error::corrupt("a read of the store panicked; this is a mistake of Posthaste"))
                });
            // Whoever has gone away need not hear it.
            let _ = reply.send(result);
        };
        queue.send(Box::new(job)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All statements of one read see the same state of the file.
fn in_one_snapshot<T>(connection: &Connection, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    let begin = connection.prepare_cached("BEGIN").and_then(|mut statement| statement.execute([]));
    begin.map_err(|error| Error::unavailable("a read of the store cannot begin").because(error))?;
    let result = catch_unwind(AssertUnwindSafe(|| read(connection)));
    // It changed nothing; ending it releases the snapshot, also after a panic.
    let _ = connection.prepare_cached("COMMIT").and_then(|mut statement| statement.execute([]));
    if !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn gone() -> Error {
    Error::unavailable("the store's reader has ended; open the store again")
}
