//! What was handed to the client and is not answered.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use lapin::{Confirmation, PublisherConfirm};
use tokio::time::Instant;

use crate::broker::amqp::publisher::{Answers, Said};
use crate::broker::amqp::wire::Body;

/// A message that was handed to the client and is not answered.
pub(super) struct Slot {
    pub(super) index: usize,
    pub(super) answers: Answers,
    /// By what a returned message is recognised, beside its bytes.
    pub(super) mark: u64,
    pub(super) body: Body,
    pub(super) said: Said,
    pub(super) returned: Option<String>,
    pub(super) sent_at: Instant,
}

/// The confirm of the slot with this number.
pub(super) struct Awaited {
    pub(super) number: u64,
    pub(super) confirm: PublisherConfirm,
}

impl Future for Awaited {
    type Output = (u64, lapin::Result<Confirmation>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let number = self.number;
        Pin::new(&mut self.confirm).poll(cx).map(|result| (number, result))
    }
}

/// Slots by their numbers, which count up in the order in which the messages were sent and are never used again.
#[derive(Default)]
pub(super) struct Slots {
    /// Those from the oldest on; what was taken from the middle leaves a gap.
    slots: VecDeque<Option<Slot>>,
    /// The number of the first of them.
    first: u64,
}

impl Slots {
    pub(super) fn push(&mut self, slot: Slot) -> u64 {
        self.slots.push_back(Some(slot));
        self.first + self.slots.len() as u64 - 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many there are, with the gaps.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn oldest(&self) -> Option<&Slot> {
        self.slots.front()?.as_ref()
    }

    pub(super) fn take_oldest(&mut self) -> Option<Slot> {
        self.take(self.first)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Slot> {
        let at = self.at(number)?;
        self.slots.get_mut(at)?.as_mut()
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Slot> {
        let at = self.at(number)?;
        let slot = self.slots.get_mut(at)?.take();
        while self.slots.front().is_some_and(Option::is_none) {
            self.slots.pop_front();
            self.first += 1;
        }
        slot
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().flatten()
    }

    fn at(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn slot(index: usize) -> Slot {
        Slot {
            index,
            answers: mpsc::unbounded_channel().0,
            mark: 0,
            body: Body::own(Vec::new()),
            said: Said::Silent,
            returned: None,
            sent_at: Instant::now(),
        }
    }

    #[test]
    fn a_number_names_its_slot_whatever_was_taken_before() {
        let mut slots = Slots::default();
        let numbers: Vec<u64> = (0..4).map(|index| slots.push(slot(index))).collect();
        let index = |slot: Option<Slot>| slot.map(|slot| slot.index);
        assert_eq!(index(slots.take(numbers[1])), Some(1));
        assert_eq!(index(slots.take(numbers[1])), None);
        assert_eq!(index(slots.take(numbers[0])), Some(0));
        assert_eq!(slots.oldest().map(|slot| slot.index), Some(2));
        assert_eq!(slots.get_mut(numbers[3]).map(|slot| slot.index), Some(3));
        assert!(slots.get_mut(numbers[0]).is_none(), "it was taken");
        let next = slots.push(slot(4));
        assert_eq!((index(slots.take_oldest()), index(slots.take_oldest())), (Some(2), Some(3)));
        assert_eq!(index(slots.take(next)), Some(4));
        assert!(slots.is_empty());
    }
}
