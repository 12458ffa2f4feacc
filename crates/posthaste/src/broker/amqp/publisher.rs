//! Publishing with confirms.
//!
//! One task owns the channels on which events are published. Callers hand it messages and hear what became of
//! each, as the broker says it. One task, because the client has two traps that several publishers on one
//! channel would fall into:
//!
//! * A delivery tag is counted and its frames are queued in two steps. Two callers at once may end up with
//!   each other's tag.
//! * The client hands a returned message to *any* confirm that comes next. With several messages unconfirmed,
//!   an event that no queue took would count as delivered, and another one as returned. [`press`] finds out
//!   whose it is; the test of unrouted events in `tests/it/rabbitmq_target/routing.rs` fails without that.
//!
//! And because a burst that is polled together costs a quarter of one await per message.
//!
//! A message that is too large makes the broker close the channel. The limit that we know is checked before
//! sending. Where only the broker knows its limit, its words say which message it was; the others on that
//! channel are unknown and are sent again.

mod press;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::future::poll_fn;
use std::hash::{Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub(super) use self::press::patience;
use self::press::{Batch, Press};
use super::link::{Link, Refusal};
use super::wire::Message;

/// Jobs that wait for the task, at most; whoever comes then waits.
const JOBS_MAX: usize = 64;
/// Channels, at most. So many exchanges have one of their own, so that a missing one stops nobody else's messages; any
/// further exchange shares one, by its name's hash.
const PRESSES: usize = 16;

/// What became of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The broker has it.
    Confirmed,
    /// No queue takes it; the broker's words.
    Returned(String),
    /// The broker could not take it: a queue is full, or failed.
    Nacked,
    /// The broker did not say, though it did of others meanwhile.
    Silent,
    /// The broker said nothing about any message, though it answers.
    Mute,
    /// It is larger than this, which the broker allows.
    TooLarge(u64),
    /// The broker closed the channel because of the exchange of this message; its words.
    Refused(Refusal, String),
    /// Unknown: the connection or the channel went away.
    Lost(String),
    /// The broker takes nothing from publishers; its words.
    Blocked(String),
}

/// Messages of one caller, each with its number, and where the answers go.
struct Job {
    messages: Vec<(usize, Message)>,
    answers: Answers,
}

type Answers = mpsc::UnboundedSender<Vec<(usize, Said)>>;

/// Publishes for everybody. Cheap to clone; the task ends with the last clone.
#[derive(Clone)]
pub(super) struct Publisher(Arc<Owner>);

struct Owner {
    link: Link,
    confirm_timeout: Duration,
    mandatory: bool,
    desk: Mutex<Desk>,
}

struct Desk {
    task: JoinSet<()>,
    jobs: Option<mpsc::Sender<Job>>,
}

impl Publisher {
    /// Publishes on this link. `mandatory`: what no queue takes is told.
    pub(super) fn new(link: Link, confirm_timeout: Duration, mandatory: bool) -> Self {
        let desk = Mutex::new(Desk { task: JoinSet::new(), jobs: None });
        Self(Arc::new(Owner { link, confirm_timeout, mandatory, desk }))
    }

    /// Publishes these and answers what became of each, a few at a time, in whatever order. The end of the answers before
    /// all are there means that the task is gone; what is missing is unknown.
    pub(super) async fn publish(
        &self,
        messages: Vec<(usize, Message)>,
    ) -> mpsc::UnboundedReceiver<Vec<(usize, Said)>> {
        let (answers, answered) = mpsc::unbounded_channel();
        // An error means that the task is gone with its runtime; the caller hears nothing.
        let _ = self.jobs().send(Job { messages, answers }).await;
        answered
    }

    fn jobs(&self) -> mpsc::Sender<Job> {
        let mut desk = self.0.desk.lock().unwrap_or_else(PoisonError::into_inner);
        while desk.task.try_join_next().is_some() {}
        if let Some(jobs) = &desk.jobs
            && !desk.task.is_empty()
        {
            return jobs.clone();
        }
        let (sender, jobs) = mpsc::channel(JOBS_MAX);
        let press = || Press::new(self.0.link.clone(), self.0.confirm_timeout, self.0.mandatory);
        let presses = (0..PRESSES).map(|_| press()).collect();
        let mut driver = Driver { jobs, presses, seats: Seats::default() };
        desk.task.spawn(async move { poll_fn(|cx| driver.poll(cx)).await });
        desk.jobs = Some(sender.clone());
        sender
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("link", &self.0.link).finish_non_exhaustive()
    }
}

/// The task: jobs go to presses, and presses work.
struct Driver {
    jobs: mpsc::Receiver<Job>,
    presses: Vec<Press>,
    seats: Seats,
}

impl Driver {
    /// Does what can be done now; ends when nobody can hand in a job any more and nothing is on its way.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let is_closed = self.take_jobs(cx);
            let mut is_busy = false;
            let mut has_moved = false;
            for press in &mut self.presses {
                has_moved |= press.work(cx);
                is_busy |= press.is_busy();
            }
            if is_closed && !is_busy {
                return Poll::Ready(());
            }
            if !has_moved {
                return Poll::Pending;
            }
        }
    }

    /// Takes in what was handed in, unless there is much to do already; answers whether nothing more can come.
    fn take_jobs(&mut self, cx: &mut Context<'_>) -> bool {
        while self.presses.iter().all(Press::has_room) {
            match self.jobs.poll_recv(cx) {
                Poll::Ready(Some(job)) => self.hand_out(job),
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }

    fn hand_out(&mut self, job: Job) {
        // Whoever does not wait for the answers any more sends again.
        if job.answers.is_closed() {
            return;
        }
        let mut shares: Vec<Vec<(usize, Message)>> = Vec::new();
        shares.resize_with(self.presses.len(), Vec::new);
        for (index, message) in job.messages {
            shares[self.seats.of(message.exchange.as_str())].push((index, message));
        }
        for (press, messages) in self.presses.iter_mut().zip(shares) {
            if !messages.is_empty() {
                press.take(Batch { messages, answers: job.answers.clone() });
            }
        }
    }
}

/// Which channel an exchange has. It keeps it: the messages of a key stay in their order.
#[derive(Default)]
struct Seats(HashMap<String, usize>);

impl Seats {
    fn of(&mut self, exchange: &str) -> usize {
        if let Some(seat) = self.0.get(exchange) {
            return *seat;
        }
        let taken = self.0.len();
        if taken < PRESSES {
            self.0.insert(exchange.to_owned(), taken);
            return taken;
        }
        let mut hasher = DefaultHasher::new();
        exchange.hash(&mut hasher);
        (hasher.finish() % PRESSES as u64) as usize
    }
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_have_channels_of_their_own_as_long_as_there_are_any() {
        let mut seats = Seats::default();
        let taken: Vec<usize> = (0..PRESSES).map(|i| seats.of(&format!("exchange {i}"))).collect();
        assert_eq!(taken, (0..PRESSES).collect::<Vec<_>>());
        let late = seats.of("one too many");
        assert!(late < PRESSES);
        assert_eq!((seats.of("one too many"), seats.of("exchange 3")), (late, 3), "each keeps its own");
    }
}
