//! `/v1/jobs`: commands that are carried out. Each has a task of its own, which outlives the request that gave it: whoever hangs up cuts
//! nothing off, and a command that takes longer than a request may is asked for again, or stopped, by the number of its job.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use posthaste::admin::Applied;
use posthaste::envelope::fresh_id;
use posthaste::time::{Clock as _, SystemClock, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::app::App;
use super::problem::{Kind, Problem};
use super::wire::{AppliedDocument, JobDocument, JobPage};

/// How many commands are carried out at once.
const RUNNING_MAX: usize = 16;
/// How many that ended are remembered, and for how long.
const ENDED_MAX: usize = 64;
const REMEMBERED_FOR: Duration = Duration::from_secs(3_600);

/// What a command came to.
pub(super) type Outcome = Result<AppliedDocument, Problem>;

/// Every job of this process.
#[derive(Default)]
pub(super) struct Jobs {
    known: Mutex<Known>,
    /// The process ends: no command begins, and those that are carried out stop after their step.
    ending: CancellationToken,
}

#[derive(Default)]
struct Known {
    tasks: JoinSet<()>,
    /// The oldest first.
    jobs: VecDeque<Arc<Job>>,
}

/// One command that is carried out, or was.
pub(super) struct Job {
    id: String,
    command: String,
    actor: String,
    dry_run: bool,
    begun_at: Timestamp,
    stop: CancellationToken,
    so_far: Mutex<Applied>,
    outcome: watch::Sender<Option<(Instant, Outcome)>>,
}

impl Job {
    /// Between two steps: so much is done, and whether to go on.
    pub(super) fn at(&self, so_far: Applied) -> ControlFlow<()> {
        *lock(&self.so_far) = so_far;
        if self.stop.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// What it came to, once it has ended.
    pub(super) async fn ended(&self) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(Option::is_some).await;
        let ended = ended.ok().and_then(|ended| ended.as_ref().map(|(_, outcome)| outcome.clone()));
        // The sender is `self`: it is not gone while it is asked.
        ended.unwrap_or_else(|| Err(Problem::new(Kind::Internal, "the command ended without a word")))
    }

    /// As it goes over the wire.
    pub(super) fn document(&self) -> JobDocument {
        let outcome = self.outcome.borrow().as_ref().map(|(_, outcome)| outcome.clone());
        let so_far = *lock(&self.so_far);
        let mut applied = AppliedDocument::of(&self.command, so_far, self.dry_run);
        let (state, problem) = match outcome {
            None => ("running", None),
            Some(Err(problem)) => ("failed", Some(problem.document())),
            Some(Ok(ended)) => {
                applied = ended;
                (if applied.stopped { "stopped" } else { "done" }, None)
            }
        };
        JobDocument {
            job: self.id.clone(),
            state: state.to_owned(),
            actor: self.actor.clone(),
            begun_at: self.begun_at.to_string(),
            applied,
            problem,
        }
    }

    fn is_running(&self) -> bool {
        self.outcome.borrow().is_none()
    }

    fn is_forgotten(&self) -> bool {
        self.outcome.borrow().as_ref().is_some_and(|(at, _)| at.elapsed() > REMEMBERED_FOR)
    }
}

impl Jobs {
    /// Begins to carry a command out; it goes on whatever becomes of whoever gave it.
    ///
    /// # Errors
    /// `Unavailable` when too many are carried out already, and when the process ends.
    pub(super) fn begin<F: Future<Output = Outcome> + Send + 'static>(
        &self,
        (command, actor): (&str, &str),
        dry_run: bool,
        carry_out: impl FnOnce(Arc<Job>) -> F,
    ) -> Result<Arc<Job>, Problem> {
        let mut known = self.known();
        known.tidy();
        let running = known.jobs.iter().filter(|job| job.is_running()).count();
        if self.ending.is_cancelled() || running >= RUNNING_MAX {
            let detail = "too many commands are carried out, or the server stops; GET /v1/jobs lists them, and DELETE stops one";
            return Err(Problem::new(Kind::Unavailable, detail));
        }
        let job = Arc::new(Job {
            id: fresh_id(),
            command: command.to_owned(),
            actor: actor.to_owned(),
            dry_run,
            begun_at: SystemClock.now(),
            stop: self.ending.child_token(),
            so_far: Mutex::default(),
            outcome: watch::Sender::new(None),
        });
        let (work, done) = (carry_out(Arc::clone(&job)), Done(Arc::clone(&job)));
        known.tasks.spawn(async move { done.with(work.await) });
        known.jobs.push_back(Arc::clone(&job));
        Ok(job)
    }

    /// No command begins any more, and those that are carried out stop after their step.
    pub(super) fn stop(&self) {
        self.ending.cancel();
    }

    /// Waits until all have stopped, but not longer than this.
    pub(super) async fn ended(&self, within: Duration) {
        self.stop();
        let mut tasks = std::mem::take(&mut self.known().tasks);
        let ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(within, ended).await.is_err() {
            tracing::warn!(commands = tasks.len(), "commands did not stop within the grace period");
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Job>, Problem> {
        let known = self.known();
        known.jobs.iter().find(|job| job.id == id).cloned().ok_or_else(|| {
            let detail = "no such job is known to this process; what commands changed is in /v1/audit";
            Problem::new(Kind::NotFound, detail)
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Known {
    fn tidy(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.jobs.retain(|job| !job.is_forgotten());
        let mut surplus = self.jobs.iter().filter(|job| !job.is_running()).count().saturating_sub(ENDED_MAX);
        self.jobs.retain(|job| {
            let goes = surplus > 0 && !job.is_running();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

/// Says how a job ended, also if it panicked.
struct Done(Arc<Job>);

impl Done {
    fn with(self, outcome: Outcome) {
        self.0.outcome.send_replace(Some((Instant::now(), outcome)));
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if self.0.is_running() {
            let detail = "the command was cut off; /v1/audit says how far it came, and the server's log why";
            self.0.outcome.send_replace(Some((Instant::now(), Err(Problem::new(Kind::Internal, detail)))));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands that are carried out and those that ended lately, the newest first.
pub(super) async fn list(State(app): State<Arc<App>>) -> Json<JobPage> {
    let mut known = app.jobs.known();
    known.tidy();
    Json(JobPage { jobs: known.jobs.iter().rev().map(|job| job.document()).collect() })
}

/// How far a command is.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobDocument>, Problem> {
    Ok(Json(app.jobs.find(&id)?.document()))
}

/// Stops a command between two steps, and answers how far it came.
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<JobDocument>, Problem> {
    let job = app.jobs.find(&id)?;
    job.stop.cancel();
    // One that is not there yet says so.
    let _ = timeout(app.patience(), job.ended()).await;
    Ok(Json(job.document()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Outcome {
        Ok(AppliedDocument::of("redrive", Applied::new(1, 1), false))
    }

    #[tokio::test]
    async fn so_many_are_carried_out_at_once_and_so_many_remembered() {
        let jobs = Jobs::default();
        let let_go = CancellationToken::new();
        let begin = || {
            let let_go = let_go.clone();
            jobs.begin(("redrive", "ops"), false, |_| async move {
                let_go.cancelled().await;
                done()
            })
        };
        let first = begin().unwrap();
        for _ in 1..RUNNING_MAX {
            begin().unwrap();
        }
        assert_eq!(begin().err().map(|problem| problem.kind()), Some(Kind::Unavailable));
        assert_eq!(first.document().state, "running");
        let_go.cancel();
        assert_eq!(first.ended().await.unwrap().changed, 1);
        for _ in 0..2 * ENDED_MAX {
            begin().unwrap().ended().await.unwrap();
        }
        jobs.known().tidy();
        assert_eq!(jobs.known().jobs.len(), ENDED_MAX);
        assert!(jobs.find(&first.id).is_err(), "the oldest are forgotten");
    }

    #[tokio::test]
    async fn a_command_that_panics_says_that_it_was_cut_off() {
        let jobs = Jobs::default();
        let job = jobs.begin(("redrive", "ops"), false, |_| async { panic!("SELECT broke") }).unwrap();
        assert_eq!(job.ended().await.unwrap_err().kind(), Kind::Internal);
        assert_eq!(job.document().state, "failed");
    }

    #[tokio::test]
    async fn the_end_of_the_process_stops_every_command_between_two_steps() {
        let jobs = Jobs::default();
        let in_steps = |job: Arc<Job>| async move {
            let mut so_far = Applied::default();
            while job.at(so_far).is_continue() {
                so_far = Applied::new(so_far.matched + 1, so_far.changed + 1);
                tokio::task::yield_now().await;
            }
            let mut applied = AppliedDocument::of("replay", so_far, false);
            applied.stopped = true;
            Ok(applied)
        };
        let job = jobs.begin(("replay", "ops"), false, in_steps).unwrap();
        while job.document().applied.changed < 10 {
            tokio::task::yield_now().await;
        }
        jobs.ended(Duration::from_secs(10)).await;
        assert_eq!(job.document().state, "stopped");
        assert!(jobs.begin(("replay", "ops"), false, in_steps).is_err(), "nothing begins any more");
    }
}
