//! Removing what a group has settled from its own topic of retries, which nobody else reads and which is kept without end otherwise.
//!
//! The topic cannot have a retention by time, because an event may be due in a year.

use std::time::Duration;

use posthaste_core::telemetry::field;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::config::FromClientConfigAndContext as _;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::time::Instant;
use tracing::debug;

use super::member::Member;
use super::offsets::Place;
use super::state::At;
use crate::broker::kafka::link::{Saying, client_config};
use crate::broker::kafka::settings::LinkSettings;

/// How often a partition is swept while something is settled in it.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

/// What was swept of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swept {
    before: i64,
    at: Option<Instant>,
}

impl Swept {
    /// Whether it is time to sweep what is before this offset, which is noted.
    fn is_due(&mut self, before: i64, now: Instant) -> bool {
        let has_rested = self.at.is_none_or(|at| now.duration_since(at) >= SWEEP_EVERY);
        if before <= self.before || !has_rested {
            return false;
        }
        *self = Self { before, at: Some(now) };
        true
    }
}

impl Member {
    /// Has what is settled removed from the group's own topics, now that this is committed. Whether that was done does not matter:
    /// it is tried again in a while, and is a question of room alone.
    pub(super) fn sweep(&self, committed: &[(At, u64, Place)]) {
        let mut list = TopicPartitionList::new();
        let mut state = self.lock();
        for (at, epoch, place) in committed {
            let source = &self.sources[at.0];
            let Some(part) = state.parts.get_mut(at).filter(|part| part.epoch == *epoch) else { continue };
            if source.is_own && part.swept.is_due(place.offset, Instant::now()) {
                let added = list.add_partition_offset(source.topic(), at.1, Offset::Offset(place.offset));
                debug_assert!(added.is_ok(), "an offset that was committed");
            }
        }
        drop(state);
        if list.count() == 0 {
            return;
        }
        let (settings, group) = (self.moving.settings().link.clone(), self.group.clone());
        // Nobody waits for it, least of all whoever commits.
        let started = std::thread::Builder::new().name("kafka-sweep".to_owned()).spawn(move || {
            if let Err(error) = remove(&settings, &list) {
                debug!(group, { field::ERROR } = %error, "what is settled stays in the topic of retries");
            }
        });
        drop(started);
    }
}

/// Removes what is before these offsets.
fn remove(settings: &LinkSettings, list: &TopicPartitionList) -> Result<(), KafkaError> {
    let config = client_config(settings, "admin");
    let admin: AdminClient<Saying> = AdminClient::from_config_and_context(&config, Saying::default())?;
    let options = AdminOptions::new()
        .request_timeout(Some(settings.patience))
        .operation_timeout(Some(settings.patience));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
    let removed = runtime.block_on(admin.delete_records(list, &options))?;
    removed.elements().iter().try_for_each(|one| one.error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_swept_when_there_is_something_and_not_all_the_time() {
        let (mut swept, now) = (Swept::default(), Instant::now());
        assert!(!swept.is_due(0, now), "nothing is settled");
        assert!(swept.is_due(1, now));
        assert!(!swept.is_due(2, now), "just now");
        assert!(!swept.is_due(1, now + SWEEP_EVERY), "nothing new");
        assert!(swept.is_due(2, now + SWEEP_EVERY));
    }
}
