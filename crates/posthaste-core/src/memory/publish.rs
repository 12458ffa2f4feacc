//! Publishing in a transaction of the store's own.

use super::Memory;
use super::state::{State, Stored};
use crate::envelope::Envelope;
use crate::publisher::{Published, Publisher};
use crate::time::Timestamp;
use crate::{BoxFuture, Error, Result};

impl Publisher for Memory {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        Box::pin(async move {
            for event in &events {
                event.check(self.payload_bytes_max)?;
            }
            let published = self.lock().publish(events, self.now())?;
            self.signal.ring();
            Ok(published)
        })
    }
}

impl State {
    fn publish(&mut self, events: Vec<Envelope>, now: Timestamp) -> Result<Vec<Published>> {
        // Looks at all of them before it stores one: a conflict anywhere stores nothing.
        let mut fresh: Vec<Stored> = Vec::new();
        let mut published = Vec::with_capacity(events.len());
        for event in events {
            let same =
                |stored: &&Stored| stored.envelope.source == event.source && stored.envelope.id == event.id;
            match fresh.iter().find(same).or_else(|| self.with_identity(&event.source, &event.id)) {
                None => {
                    fresh.push(Stored::taken_in(event, now));
                    published.push(Published::Now);
                }
                Some(before) if has_same_contents(&before.envelope, &event) => {
                    published.push(Published::Before)
                }
                Some(_) => {
                    return Err(Error::conflict(format!(
                        "the event {:?} of source {:?} exists with other contents",
                        event.id, event.source
                    )));
                }
            }
        }
        for stored in fresh {
            let seq = self.take_seq();
            self.events.insert(seq, stored);
        }
        Ok(published)
    }
}

/// Whether two publishes of one id say the same; times are not compared, as a second try has other ones.
fn has_same_contents(a: &Envelope, b: &Envelope) -> bool {
    a.event_type == b.event_type
        && a.topic == b.topic
        && a.key == b.key
        && a.subject == b.subject
        && a.version == b.version
        && a.content_type == b.content_type
        && a.headers == b.headers
        && a.payload == b.payload
}
