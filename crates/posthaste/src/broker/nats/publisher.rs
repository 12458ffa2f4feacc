//! Publishing with acknowledgements: each message has a reply subject of its own under the connection's
//! inbox. The task that keeps the connection reads what comes there and hands it to the sender of the
//! message. So a burst is on its way at once and is answered in whatever order the streams answer. A future
//! per message, as the client offers, would cost more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::StatusCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use posthaste_core::{Error, Result, redact};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::link::Live;
use super::wire::{self, Message};

/// What became of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The stream has it.
    Acked,
    /// This stream has had a message with its id since before, under this number.
    Duplicate(String, u64),
    /// No stream takes this subject, or there is no JetStream.
    Untaken,
    /// The stream did not take it: the server's code and its words.
    Refused(u64, String),
    /// Our user may not publish there; the server's words.
    Forbidden(String),
    /// It is larger than this, which the server takes.
    TooLarge(String),
    /// The server did not say, though it did of others meanwhile.
    Silent,
    /// The server acknowledged nothing at all, though it answers.
    Mute,
    /// Unknown: the connection went away.
    Lost(String),
}

/// Where the answers about some messages go: the number that the sender gave it, and what was said.
pub(super) type Answers = mpsc::UnboundedSender<(usize, Said)>;

/// What was sent on a connection and is not acknowledged.
pub(super) struct Acks {
    inbox: String,
    next: AtomicU64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    waiting: HashMap<u64, Slot>,
    /// When something was acknowledged last.
    told_at: Option<Instant>,
    is_closed: bool,
}

struct Slot {
    index: usize,
    answers: Answers,
    subject: String,
}

impl Acks {
    pub(super) fn new(inbox: String) -> Self {
        Self { inbox, next: AtomicU64::new(0), slots: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what came to the inbox.
    pub(super) fn hear(&self, message: &async_nats::Message) {
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
        let mut slots = self.slots();
        // One that was given up is gone.
        let Some(slot) = number.and_then(|number| slots.waiting.remove(&number)) else { return };
        let said = meaning(message);
        if matches!(said, Said::Acked | Said::Duplicate(..)) {
            slots.told_at = Some(Instant::now());
        }
        let _ = slot.answers.send((slot.index, said));
    }

    /// The server has said that something is not allowed: `Permissions Violation for Publish to "subject"`.
    pub(super) fn refused(&self, words: &str) {
        let Some((_, rest)) = words.split_once('"') else { return };
        let subject = rest.split('"').next().unwrap_or_default();
        let mut slots = self.slots();
        // Subjects are told in lower case by some versions.
        let is_it = |slot: &Slot| slot.subject.eq_ignore_ascii_case(subject);
        let numbers: Vec<u64> =
            slots.waiting.iter().filter(|(_, slot)| is_it(slot)).map(|(number, _)| *number).collect();
        for slot in numbers.into_iter().filter_map(|number| slots.waiting.remove(&number)) {
            let _ = slot.answers.send((slot.index, Said::Forbidden(words.to_owned())));
        }
    }

    /// The connection is gone: nobody hears anything more.
    pub(super) fn close(&self) {
        let mut slots = self.slots();
        slots.is_closed = true;
        slots.waiting.clear();
    }

    /// Whether anything was acknowledged since then.
    pub(super) fn has_told_since(&self, since: Instant) -> bool {
        self.slots().told_at.is_some_and(|told_at| told_at >= since)
    }

    /// Nobody waits for these any more.
    pub(super) fn forget(&self, numbers: impl Iterator<Item = u64>) {
        let mut slots = self.slots();
        for number in numbers {
            slots.waiting.remove(&number);
        }
    }
}

impl Live {
    /// Hands a message to the client; what becomes of it is told to `answers` under this index. Answers the number by which it
    /// can be [forgotten](Acks::forget).
    pub(super) async fn publish(&self, index: usize, message: Message, answers: &Answers) -> u64 {
        let number = self.acks.next.fetch_add(1, Ordering::Relaxed);
        let slot = Slot { index, answers: answers.clone(), subject: message.subject.clone() };
        {
            let mut slots = self.acks.slots();
            if slots.is_closed {
                return number;
            }
            slots.waiting.insert(number, slot);
        }
        let reply = format!("{}.{number}", self.acks.inbox);
        let Message { subject, headers, payload } = message;
        let sent = self.client.publish_with_reply_and_headers(subject, reply, headers, payload).await;
        if let Err(error) = sent {
            self.acks.forget(std::iter::once(number));
            let words = redact::clean(&error.to_string());
            let said = match error.kind() {
                async_nats::client::PublishErrorKind::MaxPayloadExceeded => Said::TooLarge(words),
                async_nats::client::PublishErrorKind::InvalidSubject => Said::Refused(400, words),
                async_nats::client::PublishErrorKind::Send => Said::Lost(words),
            };
            let _ = answers.send((index, said));
        }
        number
    }

    /// Puts one message where a stream takes it, and waits until that has it.
    ///
    /// # Errors
    /// `Unavailable` when it is not certain that the stream has it.
    pub(super) async fn put(&self, message: Message, within: std::time::Duration) -> Result<()> {
        let (subject, size) = (message.subject.clone(), wire::size(&message));
        let refused = match self.ask(message, within).await {
            Said::Acked | Said::Duplicate(..) => return Ok(()),
            Said::Untaken => "no stream takes it; let the consumer create it, or create it".to_owned(),
            Said::TooLarge(_) => {
                format!("it has {size} bytes, and the server's max_payload is {}", self.max_payload())
            }
            Said::Refused(_, words) | Said::Forbidden(words) | Said::Lost(words) => words,
            Said::Silent | Said::Mute => format!("not acknowledged within {within:?}"),
        };
        Err(Error::unavailable(refused).during(format!("put a message on {subject:?}")))
    }

    /// Sends one message and answers what became of it.
    pub(super) async fn ask(&self, message: Message, within: std::time::Duration) -> Said {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let number = self.publish(0, message, &answers).await;
        drop(answers);
        let said = timeout(within, answered.recv()).await;
        self.acks.forget(std::iter::once(number));
        match said {
            Ok(Some((_, said))) => said,
            Ok(None) => Said::Lost("the connection was lost".to_owned()),
            Err(_) => Said::Lost(format!("not acknowledged within {within:?}")),
        }
    }
}

/// What an answer says about the message that it is about.
fn meaning(message: &async_nats::Message) -> Said {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Said::Untaken;
    }
    // An error names the stream too, with a number that no message has.
    if let Ok(ack) = serde_json::from_slice::<PublishAck>(&message.payload)
        && ack.sequence > 0
        && !message.payload.starts_with(b"{\"error\"")
    {
        return if ack.duplicate { Said::Duplicate(ack.stream, ack.sequence) } else { Said::Acked };
    }
    match serde_json::from_slice::<Response<PublishAck>>(&message.payload) {
        Ok(Response::Err { error }) => {
            let words = redact::clean(&error.to_string());
            Said::Refused(error.error_code().0, words)
        }
        Ok(Response::Ok(_)) | Err(_) => Said::Refused(
            500,
            "an answer that is not understood; does something else answer on this subject?".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(payload: &'static str, status: Option<StatusCode>) -> async_nats::Message {
        async_nats::Message {
            subject: "_INBOX.x.7".into(),
            reply: None,
            payload: Bytes::from_static(payload.as_bytes()),
            headers: None,
            status,
            description: None,
            length: 0,
        }
    }

    #[test]
    fn acknowledgements_duplicates_and_errors_are_told_apart() {
        assert_eq!(meaning(&answer(r#"{"stream":"S","seq":3}"#, None)), Said::Acked);
        assert_eq!(
            meaning(&answer(r#"{"stream":"S","seq":3,"duplicate":true}"#, None)),
            Said::Duplicate("S".to_owned(), 3)
        );
        assert_eq!(meaning(&answer("", Some(StatusCode::NO_RESPONDERS))), Said::Untaken);
        let full = r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}"#;
        assert!(
            matches!(meaning(&answer(full, None)), Said::Refused(10077, words) if words.contains("maximum messages"))
        );
        assert!(matches!(meaning(&answer("hello", None)), Said::Refused(500, _)));
    }

    #[tokio::test]
    async fn an_answer_goes_to_whoever_sent_the_message() {
        let acks = Acks::new("_INBOX.x".to_owned());
        let (answers, mut answered) = mpsc::unbounded_channel();
        for (number, subject) in [(7, "a"), (8, "b.C"), (9, "d")] {
            let slot =
                Slot { index: number as usize * 10, answers: answers.clone(), subject: subject.to_owned() };
            acks.slots().waiting.insert(number, slot);
        }
        let begun = Instant::now();
        acks.hear(&answer(r#"{"stream":"S","seq":3}"#, None));
        acks.hear(&answer(r#"{"stream":"S","seq":3}"#, None));
        assert_eq!(answered.recv().await, Some((70, Said::Acked)));
        assert!(acks.has_told_since(begun));
        acks.refused("permissions violation for publish to \"b.c\"");
        assert!(matches!(answered.recv().await, Some((80, Said::Forbidden(_)))));
        acks.close();
        drop(answers);
        assert_eq!(answered.recv().await, None, "what is not answered ends with the connection");
    }
}
