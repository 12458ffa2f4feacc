//! Handlers without a database, of envelopes and of typed JSON: the effect is a mark in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use posthaste::codec::Json;
use posthaste::consumer::{Consumer, Cx, Failure as Verdict, NoDatabase};
use posthaste::envelope::Envelope;
use posthaste::event::Event;
use posthaste::publish::Publish;
use posthaste_terminal::exit::Failure;
use serde::{Deserialize, Serialize};

use super::{ConsumeArgs, Round, Rounds, drain, rounds};

/// What is around the text in an order's JSON.
const JSON_FRAME_BYTES: u64 = 40;
const MARKS_PER_WORD: u64 = 64;

/// A mark for every event.
struct Ledger {
    marks: Vec<AtomicU64>,
    marked: AtomicU64,
}

impl Ledger {
    fn new(events: u64) -> Arc<Self> {
        let words = events.div_ceil(MARKS_PER_WORD);
        Arc::new(Self { marks: (0..words).map(|_| AtomicU64::new(0)).collect(), marked: AtomicU64::new(0) })
    }

    /// Marks an event; one that has its mark already counts for nothing, and then the sum is wrong.
    fn mark(&self, number: u64) {
        let mark = 1 << (number % MARKS_PER_WORD);
        let word = self.marks.get((number / MARKS_PER_WORD) as usize);
        let is_new = word.is_some_and(|word| word.fetch_or(mark, Ordering::Relaxed) & mark == 0);
        self.marked.fetch_add(if is_new { 1 } else { u64::MAX / 2 }, Ordering::Relaxed);
    }

    fn holds(&self, events: u64) -> bool {
        self.marked.load(Ordering::Relaxed) == events
    }
}

type Context = Cx<NoDatabase, Arc<Ledger>>;

/// An event with a type.
#[derive(Serialize, Deserialize)]
struct Order {
    number: u64,
    note: String,
}

impl Event for Order {
    const TYPE: &'static str = "bench.order";
    type Codec = Json;
}

async fn take_envelope(cx: &mut Context, envelope: Arc<Envelope>) -> Result<(), Verdict> {
    cx.state().mark(envelope.id.parse().map_err(Verdict::reject)?);
    Ok(())
}

async fn take_order(cx: &mut Context, order: Order) -> Result<(), Verdict> {
    cx.state().mark(order.number);
    Ok(())
}

pub(super) async fn measure(args: &ConsumeArgs) -> Result<Vec<Rounds>, Failure> {
    let envelopes = rounds(args, "events_per_second", async |_| {
        let payload = vec![b'x'; args.size as usize];
        let event = |number: u64| Publish::raw("bench.event", payload.clone()).id(number.to_string());
        let ledger = Ledger::new(args.events);
        let consumer = Consumer::with_state("bench", Arc::clone(&ledger)).on_any(take_envelope);
        let took = drain(args, consumer, event).await?;
        Ok(Round { took, exactly_once: ledger.holds(args.events) })
    });
    let envelopes = envelopes.await?;
    let orders = rounds(args, "json_events_per_second", async |_| {
        let note = "x".repeat(args.size.saturating_sub(JSON_FRAME_BYTES) as usize);
        let event = |number: u64| Publish::of(&Order { number, note: note.clone() }).id(number.to_string());
        let ledger = Ledger::new(args.events);
        let consumer = Consumer::with_state("bench", Arc::clone(&ledger)).on(take_order);
        let took = drain(args, consumer, event).await?;
        Ok(Round { took, exactly_once: ledger.holds(args.events) })
    });
    Ok(vec![envelopes, orders.await?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_holds_only_if_every_event_was_marked_once() {
        let marked = |numbers: &[u64]| {
            let ledger = Ledger::new(70);
            numbers.iter().for_each(|number| ledger.mark(*number));
            ledger.holds(70)
        };
        let all: Vec<u64> = (0..70).collect();
        assert!(marked(&all));
        assert!(!marked(&all[1..]));
        let mut twice = all.clone();
        twice[3] = 4;
        assert!(!marked(&twice));
        twice.push(3);
        assert!(!marked(&twice));
    }
}
