//! What is known of an event that failed, or may be what ends its consumers: kept at the broker, under the event's number.
//!
//! A consumer of JetStream counts how often it handed an event out, but not why it came back. So whoever gives one back as a
//! failed attempt notes that first, and an event that came back without a word too often is handled alone, with a note from
//! before to after: one that is left there is a process that ended in between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::HeaderMap;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use bytes::Bytes;
use posthaste_core::broker::Trial;
use posthaste_core::time::Timestamp;
use posthaste_core::{BoxFuture, Result};
use serde_json::{Value, json};

use super::told;
use crate::broker::nats::link::Link;
use crate::broker::nats::settings::Consuming;
use crate::broker::nats::wire::Message;
use crate::broker::story::Story;

/// How many events whose notes could not be taken back a process remembers.
const OVER_MAX: usize = 10_000;

/// What this process knows of trials that are over though their notes could not be taken back.
pub(super) type Over = Arc<Mutex<HashMap<String, u32>>>;

/// Where notes are kept.
#[derive(Clone)]
pub(super) struct Notes {
    link: Link,
    stream: String,
    over: Over,
}

/// What is noted about an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) attempts: u32,
    pub(super) first_failed_at: Option<Timestamp>,
    /// How often it had been handed out when it was given back with an answer.
    pub(super) answered: u32,
    /// How often handling it alone began and did not end.
    pub(super) begun: u32,
}

impl Note {
    fn read(text: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let number =
            |name: &str| value[name].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
        Self {
            attempts: number("attempts"),
            first_failed_at: value["first_failed_at"].as_str().and_then(|time| time.parse().ok()),
            answered: number("answered"),
            begun: number("begun"),
        }
    }

    fn text(&self) -> Bytes {
        let first_failed_at = self.first_failed_at.map(|at| at.to_string());
        let value = json!({
            "attempts": self.attempts,
            "first_failed_at": first_failed_at,
            "answered": self.answered,
            "begun": self.begun,
        });
        Bytes::from(value.to_string())
    }

    /// Adds to what the message itself says.
    pub(super) fn add_to(&self, story: &mut Story) {
        story.attempts = story.attempts.max(self.attempts);
        story.first_failed_at = self.first_failed_at.or(story.first_failed_at);
    }
}

impl Notes {
    pub(super) fn new(link: Link, consuming: &Consuming, over: Over) -> Self {
        Self { link, stream: consuming.notes_stream.clone(), over }
    }

    /// What is noted under this subject, if anything.
    pub(super) async fn read(&self, subject: &str) -> Result<Option<Note>> {
        let live = self.link.live().await?;
        let doing = |error: &dyn std::fmt::Display| told(&format!("read the note {subject:?}"), error);
        let stream = live.jetstream.get_stream_no_info(&self.stream).await.map_err(|error| doing(&error))?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(Note::read(&message.payload))),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(doing(&error)),
        }
    }

    /// Notes this in place of what was there.
    pub(super) async fn write(&self, subject: &str, note: &Note) -> Result<()> {
        let live = self.link.live().await?;
        let message =
            Message { subject: subject.to_owned(), headers: HeaderMap::new(), payload: note.text() };
        live.put(message, self.link.patience()).await
    }

    /// Forgets it.
    pub(super) async fn remove(&self, subject: &str) -> Result<()> {
        let live = self.link.live().await?;
        let doing = |error: &dyn std::fmt::Display| told(&format!("remove the note {subject:?}"), error);
        let stream = live.jetstream.get_stream_no_info(&self.stream).await.map_err(|error| doing(&error))?;
        stream.purge().filter(subject).await.map(drop).map_err(|error| doing(&error))
    }

    /// What is noted of one event.
    pub(super) fn of(&self, subject: String, note: Note) -> Arc<Records> {
        let records = Records {
            notes: self.clone(),
            subject,
            note: Mutex::new(note),
            crashes: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
        };
        Arc::new(records)
    }
}

/// The notes of one event, shared by its receipt and its trial.
pub(super) struct Records {
    notes: Notes,
    subject: String,
    note: Mutex<Note>,
    /// How many processes it has ended, as was found when its trial began.
    crashes: AtomicU32,
    /// It is settled: what its trial would write comes too late.
    is_closed: AtomicBool,
}

impl Records {
    pub(super) fn crashes(&self) -> u32 {
        self.crashes.load(Ordering::Acquire)
    }

    /// It was given back, as a failed attempt: so it stands.
    pub(super) async fn give_back(
        &self,
        attempts: u32,
        first_failed_at: Option<Timestamp>,
        answered: u32,
    ) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        self.notes.write(&self.subject, &Note { attempts, first_failed_at, answered, begun: 0 }).await
    }

    /// It is settled, and what was noted of it is of no use any more.
    pub(super) async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if *self.note() != Note::default() {
            // What stays behind goes by its age.
            let _ = self.notes.remove(&self.subject).await;
        }
    }

    fn note(&self) -> MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn over(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.notes.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn begin(&self) -> Result<u32> {
        let mut note = self.notes.read(&self.subject).await?.unwrap_or_default();
        let over = self.over().get(&self.subject).copied().unwrap_or(0);
        let crashes = note.begun.saturating_sub(over);
        self.crashes.store(crashes, Ordering::Release);
        note.begun = crashes + 1;
        *self.note() = note.clone();
        self.notes.write(&self.subject, &note).await?;
        self.over().remove(&self.subject);
        Ok(crashes)
    }

    async fn end(&self) -> Result<()> {
        let note = {
            let mut note = self.note();
            note.begun = note.begun.saturating_sub(1);
            note.clone()
        };
        if self.is_closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.notes.write(&self.subject, &note).await
    }
}

/// An event on trial.
pub(super) struct NatsTrial {
    pub(super) records: Arc<Records>,
    pub(super) has_begun: bool,
}

impl NatsTrial {
    /// The process is there, so whatever began was ended by something else than this event: when the event comes again its note
    /// is taken back.
    fn is_over(&mut self) {
        if std::mem::take(&mut self.has_begun) && !self.records.is_closed.load(Ordering::Acquire) {
            let mut over = self.records.over();
            if over.len() >= OVER_MAX {
                // Most of them have gone to other processes.
                over.clear();
            }
            *over.entry(self.records.subject.clone()).or_default() += 1;
        }
    }
}

impl Trial for NatsTrial {
    fn begin(&mut self) -> BoxFuture<'_, Result<u32>> {
        Box::pin(async {
            self.is_over();
            // Whether it is written or not, from here on it may be.
            self.has_begun = true;
            self.records.begin().await
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            if self.has_begun {
                self.records.end().await?;
                self.has_begun = false;
            }
            Ok(())
        })
    }
}

impl Drop for NatsTrial {
    fn drop(&mut self) {
        self.is_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let at = Some(Timestamp::from_micros(1_767_225_600_250_000));
        let note = Note { attempts: 3, first_failed_at: at, answered: 4, begun: 1 };
        assert_eq!(Note::read(&note.text()), note);
        assert_eq!(Note::read(&Note::default().text()), Note::default());
        assert_eq!(Note::read(b"nonsense"), Note::default());
    }
}
