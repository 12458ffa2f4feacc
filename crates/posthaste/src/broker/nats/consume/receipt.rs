//! Answers for one message: acknowledged, given back for later, or buried and then acknowledged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_nats::jetstream::stream::RetentionPolicy;
use async_nats::{HeaderMap, Subject};
use bytes::Bytes;
use posthaste_core::broker::{Count, Reason, Receipt};
use posthaste_core::{BoxFuture, Error, Result};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::buried::Body;
use super::notes::{Notes, Records};
use super::{Source, told};
use crate::broker::nats::link::{Link, Live};
use crate::broker::nats::wire::{self, ID, MSG_ID};
use crate::broker::story::{OURS, Story};

/// A message that could not be moved is not handed out again at once: a dead stream that is full would keep everybody busy.
const BRAKE: Duration = Duration::from_secs(1);
/// Where a message that was moved was published to.
const SUBJECT: &str = "posthaste-subject";
/// So many signs of life in the time after which a consumer counts as dead.
const SIGNS: u32 = 4;

const ACK: &[u8] = b"+ACK";
const IN_PROGRESS: &[u8] = b"+WPI";

/// What a feed and its receipts share.
pub(super) struct Line {
    pub(super) link: Link,
    pub(super) notes: Notes,
    prefetch: usize,
    outstanding: AtomicUsize,
    /// Rings when there is room again.
    pub(super) room: Notify,
    /// What is unsettled, and since when it was known to be alive: signs of life are sent for it.
    open: Mutex<HashMap<String, Instant>>,
    /// What is given back, for a task that outlives this.
    returns: mpsc::UnboundedSender<Subject>,
}

impl Line {
    /// Opens one and starts its task: signs of life for what is held long, and what is given back without a word.
    pub(super) fn open(link: Link, notes: Notes, ack_wait: Duration, prefetch: usize) -> Arc<Self> {
        let (returns, returned) = mpsc::unbounded_channel();
        let line = Arc::new(Self {
            link: link.clone(),
            notes,
            prefetch,
            outstanding: AtomicUsize::new(0),
            room: Notify::new(),
            open: Mutex::default(),
            returns,
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "the task outlives whoever owns the line, to give back what that held; it ends when all is given back"
        )]
        tokio::spawn(attend(Arc::downgrade(&line), link, returned, ack_wait / SIGNS));
        line
    }

    pub(super) fn room(&self) -> usize {
        self.prefetch.saturating_sub(self.outstanding())
    }

    /// How many are unsettled, handed out or not.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    pub(super) fn prefetch(&self) -> usize {
        self.prefetch
    }

    fn open_ones(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn took(&self, reply: &Subject) {
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        self.open_ones().insert(reply.to_string(), Instant::now());
    }

    /// Answers whether nothing is unsettled any more.
    fn settled(&self, reply: &Subject) -> bool {
        self.open_ones().remove(reply.as_str());
        let before = self.outstanding.fetch_sub(1, Ordering::AcqRel);
        self.room.notify_one();
        before == 1
    }

    /// Gives a message back that nobody holds, at once.
    pub(super) fn give_back(&self, reply: Subject) {
        let _ = self.returns.send(reply);
    }
}

/// Sends signs of life and what is given back, until nobody can give anything back any more.
async fn attend(
    line: Weak<Line>,
    link: Link,
    mut returned: mpsc::UnboundedReceiver<Subject>,
    every: Duration,
) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            reply = returned.recv() => match reply {
                Some(reply) => drop(say(&link, reply, nak(Duration::ZERO)).await),
                None => return,
            },
            _ = ticks.tick() => {
                let Some(line) = line.upgrade() else { continue };
                let now = Instant::now();
                let due: Vec<String> = {
                    let mut open = line.open_ones();
                    let due = open.iter_mut().filter(|(_, since)| now.duration_since(**since) >= every / 2);
                    due.map(|(reply, since)| { *since = now; reply.clone() }).collect()
                };
                drop(line);
                for reply in due {
                    // Who is away comes back, or has lost what it held.
                    if say(&link, reply.into(), Bytes::from_static(IN_PROGRESS)).await.is_err() {
                        break;
                    }
                }
            }
        }
    }
}

/// Tells the server about a message; on whichever connection there is, as the message's subject says which one is meant.
async fn say(link: &Link, reply: Subject, what: Bytes) -> Result<()> {
    let live = link.live().await?;
    live.client.publish(reply, what).await.map_err(|error| told("answer for a message", &error))
}

/// Not now, but after this time.
fn nak(after: Duration) -> Bytes {
    if after.is_zero() {
        return Bytes::from_static(b"-NAK");
    }
    Bytes::from(format!("-NAK {{\"delay\": {}}}", after.as_nanos()))
}

/// One message that is not settled. Dropped, it is given back.
pub(super) struct Hold {
    pub(super) line: Arc<Line>,
    pub(super) source: Arc<Source>,
    /// By which the server knows this delivery.
    pub(super) reply: Subject,
    /// The message's number in its stream.
    pub(super) sequence: u64,
    /// When the stream has taken it, in nanoseconds: a stream that was deleted and made anew counts from 1 again.
    pub(super) nanos: i128,
    /// How often it was handed out, with this time.
    pub(super) delivered: u32,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    /// Where it was published to.
    pub(super) subject: String,
    pub(super) story: Story,
    /// What is noted of it.
    pub(super) records: Arc<Records>,
    pub(super) is_open: bool,
}

impl Hold {
    /// Which attempt this is, from 1.
    pub(super) fn attempt(&self) -> u32 {
        self.story.attempts.saturating_add(1)
    }

    /// Tells the server that it is done with. Waits until that is written only for the last one that is unsettled: a consumer
    /// that has settled everything repeats nothing when it comes again.
    pub(super) async fn ack(mut self) -> Result<()> {
        self.records.close().await;
        let live = self.line.link.live().await?;
        self.is_open = false;
        let said = live.client.publish(self.reply.clone(), Bytes::from_static(ACK)).await;
        let is_last = self.line.settled(&self.reply);
        said.map_err(|error| told("acknowledge a message", &error))?;
        if is_last {
            live.client.flush().await.map_err(|error| told("acknowledge a message", &error))?;
        }
        Ok(())
    }

    /// Tried again after this time.
    async fn release(mut self, after: Duration, count: Count) -> Result<()> {
        if count == Count::Attempt {
            let attempts = self.attempt().saturating_add(self.records.crashes());
            self.story.failed(attempts, count);
            self.records.give_back(self.story.attempts, self.story.first_failed_at, self.delivered).await?;
        }
        self.is_open = false;
        let said = say(&self.line.link, self.reply.clone(), nak(after)).await;
        self.line.settled(&self.reply);
        said
    }

    /// Dead, in the stream for that; acknowledged here when that has it, and not before.
    pub(super) async fn bury(mut self, reason: Reason) -> Result<()> {
        self.story.failed(self.attempt(), Count::Attempt);
        self.story.died(&self.source.names.consumer, reason);
        match self.put_letter().await {
            Ok(()) => self.ack().await,
            Err(error) => {
                sleep(BRAKE).await;
                Err(error)
            }
        }
    }
}

impl Hold {
    /// Puts the dead letter into its stream.
    async fn put_letter(&self) -> Result<()> {
        let Source { stream, names, .. } = &*self.source;
        let once = format!("{stream}/{}/{}/{}", names.consumer, self.sequence, self.nanos);
        let body = Body {
            headers: &self.headers,
            payload: &self.payload,
            subject: &self.subject,
            stream,
            sequence: self.sequence,
            nanos: self.nanos,
        };
        let live = self.line.link.live().await?;
        let letter = body.letter(&self.story, &names.dead, &once, live.max_payload());
        if !letter.is_whole {
            keeps_what_is_acknowledged(&live, stream).await?;
        }
        live.put(letter.message, self.line.link.patience()).await
    }
}

/// Sees to it that a message which is acknowledged stays in its stream: a dead letter that only refers to it would lose it otherwise.
///
/// # Errors
/// `Unavailable` if it would be removed.
async fn keeps_what_is_acknowledged(live: &Live, stream: &str) -> Result<()> {
    let found = live.jetstream.get_stream(stream).await;
    let found = found.map_err(|error| told(&format!("look at the stream {stream:?}"), &error))?;
    if found.cached_info().config.retention == RetentionPolicy::Limits {
        return Ok(());
    }
    Err(Error::unavailable(format!(
        "the message is too large for a dead letter, and the stream {stream:?} would remove it when it is acknowledged; raise the server's max_payload"
    )))
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_open {
            self.line.settled(&self.reply);
            self.line.give_back(self.reply.clone());
        }
    }
}

/// The headers of a message that is moved: what was on it for the server is not for the other stream, which would take it for a
/// duplicate, or for an order. `once`: by which the other stream knows it if it is moved twice.
pub(super) fn moved(headers: &HeaderMap, story: &Story, subject: &str, once: Option<&str>) -> HeaderMap {
    let mut new = HeaderMap::new();
    for (name, values) in headers.iter() {
        let lower = wire::name_of(name).to_ascii_lowercase();
        if let (false, Some(value)) = (lower.starts_with("nats-") || lower.starts_with(OURS), values.first())
        {
            new.insert(name.clone(), value.clone());
        }
    }
    let id = wire::event_id(headers);
    let story = story.entries();
    let own = story.iter().map(|(name, value)| (*name, value.as_str()));
    let own = own
        .chain([(SUBJECT, subject)])
        .chain(id.as_deref().map(|id| (ID, id)))
        .chain(once.map(|once| (MSG_ID, once)));
    for (name, value) in own {
        // An error's text may have several lines.
        let _ = wire::put(&mut new, name, &of_one_line(value));
    }
    new
}

/// As a header can carry it.
pub(super) fn of_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Where a message was published to, if it was moved since.
pub(super) fn published_to(headers: &HeaderMap) -> Option<String> {
    wire::text(headers, SUBJECT)
}

pub(super) struct NatsReceipt(pub(super) Hold);

impl Receipt for NatsReceipt {
    fn ack(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.ack())
    }

    fn release(self: Box<Self>, after: Duration, count: Count) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.release(after, count))
    }

    fn bury(self: Box<Self>, reason: Reason) -> BoxFuture<'static, Result<()>> {
        Box::pin(self.0.bury(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_message_keeps_its_own_headers_and_its_id_and_not_the_servers() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("own", "kept"), (MSG_ID, "e1"), ("Nats-Rollup", "all"), ("ce-id", "e1")] {
            headers.insert(name, value);
        }
        let mut story = Story::default();
        story.died("c", Reason::new("smell", "it\nsmells"));
        let first = moved(&headers, &story, "shop.orders", Some("s/c/7"));
        let text = |headers: &HeaderMap, name: &str| wire::text(headers, name);
        assert_eq!(
            (text(&first, MSG_ID).as_deref(), wire::event_id(&first).as_deref()),
            (Some("s/c/7"), Some("e1"))
        );
        assert_eq!((text(&first, "own").as_deref(), text(&first, "Nats-Rollup")), (Some("kept"), None));
        assert_eq!(published_to(&first).as_deref(), Some("shop.orders"));
        let read = Story::read(|name| text(&first, name));
        assert_eq!(read.dead.unwrap().reason, Reason::new("smell", "it smells"));
        let again = moved(&first, &Story::anew(), "shop.orders", None);
        assert_eq!((text(&again, MSG_ID), wire::event_id(&again).as_deref()), (None, Some("e1")));
        assert!(Story::read(|name| text(&again, name)).dead.is_none());
    }

    #[test]
    fn a_pause_is_said_in_nanoseconds() {
        assert_eq!(nak(Duration::ZERO), "-NAK");
        assert_eq!(nak(Duration::from_millis(300)), "-NAK {\"delay\": 300000000}");
    }
}
