//! Answers for one message: acknowledged, set aside, buried, or given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_core::broker::{Count, Reason, Receipt, Trial};
use posthaste_core::time::{Clock as _, SystemClock};
use posthaste_core::{BoxFuture, ErrorKind, Result};
use rdkafka::message::{Message as _, OwnedHeaders};
use tokio::time::sleep;

use super::member::{DUE, Member};
use super::moving::{headers_of, with};
use super::state::Message;
use crate::broker::kafka::wire::ID;
use crate::broker::story::{Story, cut_to};

/// The key of a message that is dead, where its record has another one.
pub(super) const KEY: &str = "posthaste-key";
/// Where the payload of a dead letter is, if not in it: topic, partition and offset.
pub(super) const ORIGINAL: &str = "posthaste-original";
/// What a letter says of the error where there is no room for all of it.
const BRIEF: usize = 512;
/// What a letter has of the error's code where there is no room for the error.
const CODE_BYTES_MIN: usize = 64;
/// A message that could not be moved is not handed out again at once: a topic that takes nothing would keep everybody busy.
const BRAKE: Duration = Duration::from_secs(1);

/// What a feed and its deliveries share. When the last of them is gone, the group is left.
pub(super) struct Line(pub(super) Arc<Member>);

impl Drop for Line {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// One message that is not settled. Dropped, it is given back.
pub(super) struct Hold {
    pub(super) line: Arc<Line>,
    pub(super) message: Message,
    pub(super) story: Story,
    /// Which attempt this is, from 1.
    pub(super) attempt: u32,
    /// Whether later ones must not pass it: it is given back together with them, when the feed is gone.
    pub(super) in_order: bool,
    /// The event's source and id, if it is an event.
    pub(super) identity: Option<String>,
    /// How many processes it has ended, as was found when its trial began.
    pub(super) crashes: Arc<AtomicU32>,
    pub(super) is_open: bool,
}

impl Hold {
    fn member(&self) -> &Member {
        &self.line.0
    }

    /// It is done with. Does not wait for that to be committed, but for the last one that is unsettled.
    pub(super) async fn ack(mut self) -> Result<()> {
        self.is_open = false;
        let settled = self.member().settle(&self.message)?;
        self.member().committed(settled).await
    }

    /// Tried again after this time: it waits in the group's own topic. One that nothing happened to only stays where it is.
    pub(super) async fn release(mut self, after: Duration, count: Count) -> Result<()> {
        if self.in_order || (after.is_zero() && count == Count::Nothing) {
            return Ok(());
        }
        self.story.failed(self.attempt.saturating_add(self.crashes.load(Ordering::Acquire)), count);
        let due = SystemClock.now().after(after).as_micros().to_string();
        let headers = with(self.headers(), DUE, due.as_bytes());
        let topic = self.member().sources[self.message.at.0].names.retry.clone();
        let body = Arc::clone(&self.message.body);
        match self.put(&topic, body.key(), headers, body.payload().unwrap_or_default()).await {
            Err(error) if error.kind() == ErrorKind::TooLarge && count == Count::Attempt => {
                let why = format!("it failed, and is too large to wait for its next attempt: {error}");
                self.bury(Reason::new("too large", why)).await
            }
            put => self.moved(put).await,
        }
    }

    /// Dead, in the topic for that; settled here when that has it, and not before.
    pub(super) async fn bury(mut self, reason: Reason) -> Result<()> {
        self.story.failed(self.attempt, Count::Attempt);
        let names = Arc::clone(&self.member().sources[self.message.at.0].names);
        self.story.died(&names.main, reason);
        let name = self.name();
        let mut put = self.put_letter(&names.dead, &name).await;
        let whole = self.story.clone();
        for bytes_max in [BRIEF, 0] {
            if !is_too_large(&put) {
                break;
            }
            self.shorten(bytes_max);
            put = self.put_letter(&names.dead, &name).await;
        }
        // What was settled in the group's own topic is removed from it.
        if is_too_large(&put) && !self.is_in_own_topic() {
            self.story = whole;
            put = self.put_reference(&names.dead, &name).await;
        }
        self.moved(put).await
    }

    /// Puts it among the dead letters as it is, with its story.
    async fn put_letter(&self, topic: &str, name: &str) -> Result<()> {
        let (body, mut headers) = (&self.message.body, self.headers());
        if let Some(key) = body.key() {
            headers = with(headers, KEY, key);
        }
        self.put(topic, Some(name.as_bytes()), headers, body.payload().unwrap_or_default()).await
    }

    /// Leaves so much of what is said of its death; where that is nothing, its code is short too.
    fn shorten(&mut self, bytes_max: usize) {
        let Some(dead) = &mut self.story.dead else { return };
        dead.reason.message.truncate(cut_to(&dead.reason.message, bytes_max).len());
        if bytes_max == 0 {
            dead.reason.code.truncate(cut_to(&dead.reason.code, CODE_BYTES_MIN).len());
        }
    }

    fn is_in_own_topic(&self) -> bool {
        self.member().sources[self.message.at.0].is_own
    }

    /// Puts a dead letter of a message that is too large for one: its payload, and its headers if they are too large too, stay where
    /// they are, and the letter says where that is.
    async fn put_reference(&mut self, topic: &str, name: &str) -> Result<()> {
        let body = Arc::clone(&self.message.body);
        let place = format!("{}/{}/{}", body.topic(), self.message.at.1, self.message.offset);
        let size = body.payload().map_or(0, <[u8]>::len);
        if let Some(dead) = &mut self.story.dead {
            let error = cut_to(&dead.reason.message, BRIEF);
            dead.reason.message = format!(
                "{error} (its payload of {size} bytes is too large for a dead letter: it is at {place}, topic, partition and offset)"
            );
        }
        // Where its headers stay too, the event is known by its id, unless that is what is too large.
        let id = self.id().map(|id| with(OwnedHeaders::new(), ID, id.as_bytes()));
        let mut put = Ok(());
        for own in [body.headers(), id.as_ref(), None] {
            let mut headers = with(headers_of(own, &self.story), ORIGINAL, place.as_bytes());
            if let Some(key) = body.key() {
                headers = with(headers, KEY, key);
            }
            put = self.put(topic, Some(name.as_bytes()), headers, &[]).await;
            if !is_too_large(&put) {
                break;
            }
        }
        put
    }

    /// By which it is known among the dead: where it is now, and which event it is. Buried twice, it is there once; sent again and
    /// dead again, it is another letter, which nobody takes back who meant the one before.
    fn name(&self) -> String {
        let place = format!("{}/{}/{}", self.message.body.topic(), self.message.at.1, self.message.offset);
        self.identity.as_ref().map_or_else(|| place.clone(), |event| format!("{place}\n{event}"))
    }

    /// The event's id, if it is an event.
    fn id(&self) -> Option<&str> {
        self.identity.as_deref()?.rsplit('\n').next()
    }

    fn headers(&self) -> OwnedHeaders {
        headers_of(self.message.body.headers(), &self.story)
    }

    /// Puts it elsewhere. What is another member's by now is moved by that one.
    async fn put(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        headers: OwnedHeaders,
        payload: &[u8],
    ) -> Result<()> {
        self.member().holds(&self.message)?;
        self.member().moving.put(topic, key, headers, Some(payload)).await
    }

    /// It was put elsewhere, or not; if so, settles it here.
    async fn moved(mut self, put: Result<()>) -> Result<()> {
        if let Err(error) = put {
            if self.in_order {
                // What is given back must come before what was behind it.
                self.member().fail(error.to_string());
            } else {
                sleep(BRAKE).await;
            }
            return Err(error);
        }
        self.is_open = false;
        let settled = self.member().settle(&self.message)?;
        self.member().committed(settled).await
    }
}

fn is_too_large(put: &Result<()>) -> bool {
    put.as_ref().is_err_and(|error| error.kind() == ErrorKind::TooLarge)
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_open {
            self.member().give_back(&self.message, self.in_order);
        }
    }
}

pub(super) struct KafkaReceipt(pub(super) Hold);

impl Receipt for KafkaReceipt {
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

/// An event on trial: what began and did not end stands beside the group's offset.
pub(super) struct KafkaTrial {
    pub(super) line: Arc<Line>,
    pub(super) message: Message,
    pub(super) crashes: Arc<AtomicU32>,
    pub(super) has_begun: bool,
}

impl KafkaTrial {
    /// The process is there, so whatever began was ended by something else than this event.
    fn is_over(&mut self) {
        if std::mem::take(&mut self.has_begun) {
            self.line.0.take_back_trial(&self.message);
        }
    }
}

impl Trial for KafkaTrial {
    fn begin(&mut self) -> BoxFuture<'_, Result<u32>> {
        Box::pin(async {
            self.is_over();
            // Whether it is committed or not, from here on it may be.
            self.has_begun = true;
            let begun =
                self.line.0.record(&self.message, |ledger, offset| ledger.begin_trial(offset)).await?;
            self.crashes.store(begun, Ordering::Release);
            Ok(begun)
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            if std::mem::take(&mut self.has_begun) {
                self.line.0.record(&self.message, |ledger, offset| ledger.end_trial(offset)).await?;
            }
            Ok(())
        })
    }
}

impl Drop for KafkaTrial {
    fn drop(&mut self) {
        self.is_over();
    }
}
