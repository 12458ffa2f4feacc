//! The one writer: a thread with its own connection that lets everybody who waits share a commit.
//!
//! ```text
//!   queue      ┌ BEGIN IMMEDIATE ───────────────────────────┐
//!  job job job │ savepoint job, savepoint job, savepoint job │ COMMIT ──► answers
//!              └─────────────────────────────────────────────┘
//! ```
//!
//! A job that fails takes back its own savepoint and spoils no other job. If the commit fails, every caller
//! in it gets the error, and nothing is half done. The writer answers after the commit, and only while the
//! file still has its path (`files.rs`). With `synchronous = FULL`, one fsync serves all jobs of a commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use posthaste_core::{Error, Result, crash};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::checkpoint::Checkpoint;
use super::error::{Shared, explain};
use super::files::Files;

/// How many jobs may wait.
const QUEUE_JOBS_MAX: usize = 1_024;
/// How many jobs share a commit at most.
const GROUP_JOBS_MAX: usize = 512;
/// How many bytes of payload may wait and be written, together: what does not fit waits with its caller.
const QUEUE_KIB_MAX: u32 = 16 * 1024;

/// What a job is about; decides which points a test may end the process at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Publish,
    Settle,
    Other,
}

/// One caller's part of a commit.
trait Job: Send {
    fn kind(&self) -> Kind;
    /// Whether its caller has gone away.
    fn is_abandoned(&self) -> bool;
    /// Does the work inside its savepoint, and keeps the answer. `Err`: the savepoint must go.
    fn run(&mut self, connection: &Connection) -> Result<(), Shared>;
    /// Answers; `failed` is why the group was not committed.
    fn finish(self: Box<Self>, failed: Option<&Shared>);
}

/// The handle to the writer's thread.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Box<dyn Job>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on this connection to these files.
    pub(super) fn start(connection: Connection, files: Arc<Files>, busy_timeout: Duration) -> Result<Self> {
        let (queue, jobs) = mpsc::channel(QUEUE_JOBS_MAX);
        let checkpoint = Checkpoint::new(files.journal(), busy_timeout);
        let thread = std::thread::Builder::new()
            .name("posthaste-writer".to_owned())
            .spawn(move || serve(&connection, &files, checkpoint, jobs))
            .map_err(|error| Error::unavailable("the writer's thread cannot be started").because(error))?;
        Ok(Self {
            queue: Some(queue),
            room: Arc::new(Semaphore::new(QUEUE_KIB_MAX as usize)),
            thread: Some(thread),
        })
    }

    /// Runs this in the next commit and answers after it. `bytes`: how much it carries.
    ///
    /// `after` is told whether it was committed, on the writer's thread and before the caller hears of it, also when the
    /// caller has gone away meanwhile. Dropped before the work began: nothing happens at all.
    pub(super) async fn run<T, F, A>(&self, kind: Kind, bytes: usize, work: F, after: A) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        A: FnOnce(Option<&T>) + Send + 'static,
    {
        let queue = self.queue.as_ref().ok_or_else(gone)?;
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(QUEUE_KIB_MAX).min(QUEUE_KIB_MAX);
        // A settle carries nothing and does not wait behind large publishes.
        let room = match kib {
            0 => None,
            kib => Some(Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(|_| gone())?),
        };
        let (reply, answer) = oneshot::channel();
        let job = Work { kind, reply, work: Some(work), after, answer: None, _room: room };
        queue.send(Box::new(job)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    /// Lets the thread finish what is queued and close the file.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::unavailable("the store's writer has ended; open the store again")
}

struct Work<T, F, A> {
    kind: Kind,
    reply: oneshot::Sender<Result<T>>,
    work: Option<F>,
    after: A,
    answer: Option<Result<T>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl<T, F, A> Job for Work<T, F, A>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T> + Send,
    A: FnOnce(Option<&T>) + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, connection: &Connection) -> Result<(), Shared> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let answer = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or_else(|_| {
            Err(Error::corrupt("a write to the store panicked; this is a mistake of Posthaste"))
        });
        let result = answer.as_ref().map(drop).map_err(Shared::new);
        self.answer = Some(answer);
        result
    }

    fn finish(self: Box<Self>, failed: Option<&Shared>) {
        let answer = match (failed, self.answer) {
            // Its own error says more than the group's.
            (_, Some(Err(error))) => Err(error),
            (Some(failed), _) => Err(failed.to_error()),
            (None, Some(Ok(answer))) => Ok(answer),
            (None, None) => Err(gone()),
        };
        (self.after)(answer.as_ref().ok());
        // Whoever has gone away need not hear it.
        let _ = self.reply.send(answer);
    }
}

fn serve(
    connection: &Connection,
    files: &Files,
    mut checkpoint: Checkpoint,
    mut jobs: mpsc::Receiver<Box<dyn Job>>,
) {
    while let Some(first) = jobs.blocking_recv() {
        let mut group = vec![first];
        while group.len() < GROUP_JOBS_MAX
            && let Ok(next) = jobs.try_recv()
        {
            group.push(next);
        }
        group.retain(|job| !job.is_abandoned());
        if group.is_empty() {
            continue;
        }
        let failed = commit_into(files, connection, &mut group).err();
        if failed.is_none() {
            reached(&group, "publish: after commit", "settle: after commit");
        }
        for job in group {
            job.finish(failed.as_ref());
        }
        checkpoint.after_commit(connection);
    }
}

/// Commits a group, unless its file is gone. `Err`: nobody may count on it.
fn commit_into(files: &Files, connection: &Connection, group: &mut [Box<dyn Job>]) -> Result<(), Shared> {
    let told = |error: Error| Shared::new(&error);
    files.check().map_err(told)?;
    commit(connection, files.path(), group)?;
    // Meanwhile it may have become a file that nobody finds again.
    files.check_committed().map_err(told)
}

/// Runs a group in one transaction; `Err`: nothing of it is stored.
fn commit(connection: &Connection, path: &Path, group: &mut [Box<dyn Job>]) -> Result<(), Shared> {
    let execute = |text: &str| {
        let done = connection.prepare_cached(text).and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(|error| Shared::new(&explain(error, path)))
    };
    execute("BEGIN IMMEDIATE")?;
    let mut run_all = || {
        for job in group.iter_mut() {
            execute("SAVEPOINT job")?;
            if let Err(error) = job.run(connection) {
                // On some errors, a full disk among them, SQLite has rolled back everything by itself.
                if connection.is_autocommit() {
                    return Err(error);
                }
                execute("ROLLBACK TO job")?;
            }
            execute("RELEASE job")?;
        }
        reached(group, "publish: before commit", "settle: before commit");
        execute("COMMIT")
    };
    let result = run_all();
    if result.is_err() && !connection.is_autocommit() {
        // If even this fails, the next BEGIN says so.
        let _ = execute("ROLLBACK");
    }
    result
}

fn reached(group: &[Box<dyn Job>], publish: &'static str, settle: &'static str) {
    for (kind, name) in [(Kind::Publish, publish), (Kind::Settle, settle)] {
        if group.iter().any(|job| job.kind() == kind) {
            crash::point(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let tables = "PRAGMA foreign_keys = ON; CREATE TABLE n (n INTEGER PRIMARY KEY);
            CREATE TABLE child (n REFERENCES n (n) DEFERRABLE INITIALLY DEFERRED);";
        connection.execute_batch(tables).unwrap();
        connection
    }

    /// A job that runs this statement and answers with its number.
    fn job(number: i64, sql: &'static str) -> (Box<dyn Job>, oneshot::Receiver<Result<i64>>) {
        let (reply, answer) = oneshot::channel();
        let work = move |connection: &Connection| {
            let done = connection.execute_batch(sql).map(|()| number);
            done.map_err(|error| explain(error, Path::new("test.db")))
        };
        let job = Work {
            kind: Kind::Other,
            reply,
            work: Some(work),
            after: |_: Option<&i64>| (),
            answer: None,
            _room: None,
        };
        (Box::new(job), answer)
    }

    /// Runs these in one commit; answers what each heard.
    fn run(connection: &Connection, texts: &[&'static str]) -> Vec<Result<i64>> {
        let (mut group, answers): (Vec<_>, Vec<_>) =
            texts.iter().enumerate().map(|(number, sql)| job(number as i64, sql)).unzip();
        let failed = commit(connection, Path::new("test.db"), &mut group).err();
        group.into_iter().for_each(|job| job.finish(failed.as_ref()));
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap()).collect()
    }

    fn numbers(connection: &Connection) -> Vec<i64> {
        let mut statement = connection.prepare("SELECT n FROM n ORDER BY n").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(|n| n.unwrap()).collect()
    }

    #[test]
    fn a_job_that_fails_half_way_takes_back_only_itself() {
        let connection = file();
        let heard = run(
            &connection,
            &[
                "INSERT INTO n VALUES (1)",
                "INSERT INTO n VALUES (2); INSERT INTO n VALUES (1)",
                "INSERT INTO n VALUES (3)",
            ],
        );
        assert_eq!(numbers(&connection), [1, 3]);
        assert!(matches!(heard[..], [Ok(0), Err(_), Ok(2)]), "{heard:?}");
    }

    /// The commit itself fails: a deferred constraint is broken.
    #[test]
    fn if_the_commit_fails_everybody_hears_it_and_nothing_is_stored() {
        let connection = file();
        let heard = run(&connection, &["INSERT INTO n VALUES (1)", "INSERT INTO child VALUES (9)"]);
        assert!(heard.iter().all(|answer| answer.is_err()), "{heard:?}");
        assert!(numbers(&connection).is_empty());
        assert!(connection.is_autocommit(), "the next group can begin");
        assert!(run(&connection, &["INSERT INTO n VALUES (5)"])[0].is_ok());
    }

    /// Somebody in the group ends the transaction behind our back, as SQLite itself does on a full disk.
    #[test]
    fn if_sqlite_rolls_back_by_itself_everybody_hears_it() {
        let connection = file();
        let heard = run(
            &connection,
            &["INSERT INTO n VALUES (1)", "INSERT OR ROLLBACK INTO n VALUES (1)", "INSERT INTO n VALUES (2)"],
        );
        assert!(heard.iter().all(|answer| answer.is_err()), "{heard:?}");
        assert!(numbers(&connection).is_empty());
    }

    #[test]
    fn a_panic_spoils_its_own_job_only() {
        let connection = file();
        let (reply, mut answer) = oneshot::channel::<Result<()>>();
        let work = |connection: &Connection| {
            connection.execute_batch("INSERT INTO n VALUES (7)").unwrap();
            panic!("on purpose")
        };
        let kind = Kind::Other;
        let panics =
            Work { kind, reply, work: Some(work), after: |_: Option<&()>| (), answer: None, _room: None };
        let (fine, mut fine_answer) = job(1, "INSERT INTO n VALUES (8)");
        let mut group: Vec<Box<dyn Job>> = vec![Box::new(panics), fine];
        assert!(commit(&connection, Path::new("test.db"), &mut group).is_ok());
        group.into_iter().for_each(|job| job.finish(None));
        assert!(answer.try_recv().unwrap().is_err());
        assert!(fine_answer.try_recv().unwrap().is_ok());
        assert_eq!(numbers(&connection), [8]);
    }
}
