//! What was read of a feed's partitions and is not settled: what can be handed out, what is not due yet, and what is in hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rdkafka::message::{Message as _, OwnedMessage};
use tokio::time::Instant;

use super::offsets::{Ledger, Place};
use super::sweep::Swept;

/// What is read ahead of those who handle it, at most: events, unless a feed may hold more of them, and bytes.
const READY_MAX: usize = 1_000;
const READY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Events that were released and are not due yet, at most; further ones wait in their topic.
const LATER_MAX: usize = 10_000;
const LATER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// So far may the reading be ahead of the committed offset.
const GAP_MAX: i64 = 100_000;

/// A partition of a feed's topics: the topic's place among them, and its number.
pub(super) type At = (usize, i32);

/// A message that was read and is not settled.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) at: At,
    /// Which time it was that the feed got the partition.
    pub(super) epoch: u64,
    pub(super) offset: i64,
    pub(super) body: Arc<OwnedMessage>,
    pub(super) on_trial: bool,
}

impl Message {
    pub(super) fn bytes(&self) -> usize {
        self.body.payload().map_or(0, <[u8]>::len) + self.body.key().map_or(0, <[u8]>::len)
    }
}

/// A partition that the feed has.
pub(super) struct Part {
    pub(super) epoch: u64,
    pub(super) ledger: Ledger,
    /// What was committed last by this feed. Until something was, nothing is handed out: that it was opened must be on record.
    pub(super) saved: Option<Place>,
    /// How many of it are handed out.
    pub(super) in_hand: usize,
    /// It is about to be another member's: nothing more of it is handed out.
    pub(super) is_leaving: bool,
    pub(super) is_paused: bool,
    /// What was removed of it, if it is the group's own.
    pub(super) swept: Swept,
}

/// What a feed has.
#[derive(Default)]
pub(super) struct State {
    pub(super) parts: BTreeMap<At, Part>,
    /// Partitions that have come, and of which it is not known yet where the group was.
    pub(super) fresh: Vec<At>,
    /// How often the group's partitions were shared out while this one was a member.
    pub(super) shared_out: u32,
    pub(super) epochs: u64,
    pub(super) ready: VecDeque<Message>,
    pub(super) ready_bytes: usize,
    /// What is not due yet, by when it is.
    pub(super) later: BTreeMap<(Instant, u64), Message>,
    later_bytes: usize,
    numbers: u64,
    pub(super) outstanding: usize,
    /// Counts whatever is to be committed.
    pub(super) changes: u64,
    pub(super) is_commit_wanted: bool,
    pub(super) failure: Option<String>,
    /// The feed is gone; deliveries may still be settled.
    pub(super) is_feed_gone: bool,
    /// Everybody is gone.
    pub(super) is_over: bool,
    /// Nothing more is committed.
    pub(super) has_left: bool,
    pub(super) has_committer_ended: bool,
    pub(super) failed_commits: u64,
}

impl State {
    pub(super) fn part(&mut self, message: &Message) -> Option<&mut Part> {
        self.parts.get_mut(&message.at).filter(|part| part.epoch == message.epoch)
    }

    /// Nobody has it in hand any more.
    pub(super) fn left(&mut self, message: &Message) {
        self.outstanding -= 1;
        if let Some(part) = self.part(message) {
            part.in_hand -= 1;
        }
    }

    pub(super) fn put(&mut self, message: Message, due: Option<Instant>) {
        match due {
            Some(due) => {
                self.numbers += 1;
                self.later_bytes += message.bytes();
                self.later.insert((due, self.numbers), message);
            }
            None => {
                self.ready_bytes += message.bytes();
                self.ready.push_back(message);
            }
        }
    }

    /// Makes everything that is due ready.
    pub(super) fn ripen(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry()
            && first.key().0 <= now
        {
            let message = first.remove();
            self.later_bytes -= message.bytes();
            self.put(message, None);
        }
    }

    pub(super) fn drop_unread(&mut self, is_meant: impl Fn(&Message) -> bool) {
        self.ready.retain(|message| !is_meant(message));
        self.later.retain(|_, message| !is_meant(message));
        self.ready_bytes = self.ready.iter().map(Message::bytes).sum();
        self.later_bytes = self.later.values().map(Message::bytes).sum();
    }

    /// Whether a partition is to be read on; one that is paused only when there is plenty of room.
    pub(super) fn is_wanted(&self, at: At, is_own: bool, prefetch: usize) -> bool {
        let Some(part) = self.parts.get(&at) else { return true };
        let part_of = |most: usize| if part.is_paused { most / 2 } else { most };
        let ready_max = READY_MAX.max(prefetch.saturating_mul(2));
        let has_room = self.ready.len() < part_of(ready_max) && self.ready_bytes < part_of(READY_BYTES_MAX);
        let has_time =
            !is_own || (self.later.len() < part_of(LATER_MAX) && self.later_bytes < part_of(LATER_BYTES_MAX));
        has_room && has_time && !self.is_feed_gone && part.ledger.gap() < GAP_MAX
    }
}
