//! Remembers at the broker which event a consumer has begun to handle, so that one that kills its consumers is found out.
//!
//! A quorum queue counts how often a message came back, a classic one knows only whether; neither knows why, and neighbours
//! that were fetched beside a killer come back as often as it does. So what came back often is handled alone, with a message of
//! its own in the group's trial queue from before to after. One that is left there is a process that ended in between.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use posthaste_core::broker::Trial;
use posthaste_core::envelope::Envelope;
use posthaste_core::{BoxFuture, Result};

use super::mover::Mover;
use super::sift::sift;
use super::topology;
use crate::broker::amqp::link::{Link, told};
use crate::broker::amqp::wire::Body;

/// A message that a quorum queue got back so often is on trial. Losing the broker once costs nobody anything.
pub(super) const RETURNS_MIN: u32 = 2;
/// How many records a group's queue holds; beyond that the oldest go.
const RECORDS_MAX: i64 = 1_000;
/// How long a record is kept: what was settled elsewhere leaves one behind if a process ends in a bad moment.
const RECORD_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// How many events whose records could not be taken back a process remembers.
const OVER_MAX: usize = 10_000;

/// Makes a group's trial queue.
pub(super) async fn declare(channel: &Channel, queue: &str) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(RECORDS_MAX));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("drop-head".into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(RECORD_MS_MAX));
    topology::queue(channel, queue, arguments).await
}

/// What this process knows of records that it could not take back: the trials are over all the same.
pub(super) type Over = Arc<Mutex<HashMap<Vec<u8>, usize>>>;

/// Where the trials of a group are recorded.
#[derive(Clone)]
pub(super) struct Court {
    pub(super) link: Link,
    pub(super) mover: Mover,
    pub(super) queue: String,
    pub(super) over: Over,
}

impl Court {
    /// The records of an event of this queue.
    pub(super) fn records(&self, queue: &str, envelope: &Envelope) -> Records {
        let event = [queue, &envelope.source, &envelope.id].join("\n").into_bytes();
        Records { court: self.clone(), event, crashes: AtomicU32::new(0) }
    }
}

/// The records of one event.
pub(super) struct Records {
    court: Court,
    /// Names it: the queue in which it is, its source and its id.
    event: Vec<u8>,
    /// How many were there when the trial began.
    crashes: AtomicU32,
}

impl Records {
    pub(super) fn crashes(&self) -> u32 {
        self.crashes.load(Ordering::Acquire)
    }

    /// The event is settled, and what was recorded of it is of no use any more.
    pub(super) async fn close(&self) {
        if self.crashes() > 0 {
            // What stays behind goes by its age.
            let _ = self.sweep(usize::MAX).await;
        }
    }

    fn over(&self) -> MutexGuard<'_, HashMap<Vec<u8>, usize>> {
        self.court.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back what this process could not take back before, and answers how many are left.
    async fn count(&self) -> Result<usize> {
        let over = self.over().get(&self.event).copied().unwrap_or(0);
        let found = self.sweep(over).await?;
        self.over().remove(&self.event);
        Ok(found.saturating_sub(over))
    }

    /// Takes back at most so many records of this event; answers how many there were.
    async fn sweep(&self, most: usize) -> Result<usize> {
        let channel = self.court.link.channel().await?.channel;
        let mut found = 0;
        let sifted = sift(&channel, &self.court.queue, RECORDS_MAX, |record| {
            let is_ours = record == self.event;
            found += usize::from(is_ours);
            is_ours && found <= most
        });
        sifted
            .await
            .map_err(|error| told(&format!("look through the queue {:?}", self.court.queue), &error))?;
        // An answer on this channel means that the broker has heard all of it.
        topology::is_there(&channel, &self.court.queue).await?;
        Ok(found)
    }

    async fn put(&self) -> Result<()> {
        let properties = BasicProperties::default().with_delivery_mode(2);
        self.court.mover.put(&self.court.queue, properties, Body::own(self.event.clone())).await
    }
}

/// An event on trial.
pub(super) struct AmqpTrial {
    pub(super) records: Arc<Records>,
    pub(super) has_begun: bool,
}

impl AmqpTrial {
    /// The process is there, so whatever began was ended by something else than this event: when the event comes again its record
    /// is taken back.
    fn is_over(&mut self) {
        if std::mem::take(&mut self.has_begun) {
            let mut over = self.records.over();
            if over.len() >= OVER_MAX {
                // Most of them have gone to other processes, and by their age.
                over.clear();
            }
            *over.entry(self.records.event.clone()).or_default() += 1;
        }
    }
}

impl Trial for AmqpTrial {
    fn begin(&mut self) -> BoxFuture<'_, Result<u32>> {
        Box::pin(async {
            self.is_over();
            let crashes = u32::try_from(self.records.count().await?).unwrap_or(u32::MAX);
            self.records.crashes.store(crashes, Ordering::Release);
            // Whether it is written or not, from here on it may be.
            self.has_begun = true;
            self.records.put().await?;
            Ok(crashes)
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            if self.has_begun {
                self.records.sweep(1).await?;
                self.has_begun = false;
            }
            Ok(())
        })
    }
}

impl Drop for AmqpTrial {
    fn drop(&mut self) {
        self.is_over();
    }
}
