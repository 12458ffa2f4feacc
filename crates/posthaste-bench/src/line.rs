//! The whole line from committed rows to a broker's confirms, against what its two halves can do by themselves.
//!
//! `r` is the rate from the store to a target that does nothing, `p` the rate at which the bare client publishes the same
//! messages, with the properties and headers that the target gives them. Both halves share the machine, so together they can do
//! `1 / (1/r + 1/p)`: the line's ceiling. What it would be for messages that are a payload and nothing else is told beside it.

use std::sync::Arc;

use posthaste::lane::Order;
use posthaste::relay::Lane;
use posthaste::schema::Backend;
use posthaste::store::Store;
use posthaste::target::{NullTarget, Target};
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::json;

use super::bed::{self, Bed, Load, Message};
use super::figures::{Round, Summary, hundredths, median, rss_peak_mib};
use super::relay::{drain_lane, scheme};
use super::{LaneOrder, RelayArgs};

/// Relays what is in the store to a broker, in rounds that alternate with those of the two halves.
pub(super) async fn measure(store: Arc<dyn Backend>, args: &RelayArgs) -> Result<Summary, Failure> {
    let bed = bed::make(&args.to, args.queue).await?;
    let line = Line { store, target: posthaste::target::open(bed.url())?, bed, args };
    let summary = line.measure().await;
    let removed = line.bed.remove().await;
    let summary = summary?;
    removed?;
    Ok(summary)
}

struct Line<'a> {
    store: Arc<dyn Backend>,
    target: Arc<dyn Target>,
    bed: Box<dyn Bed>,
    args: &'a RelayArgs,
}

impl Line<'_> {
    async fn measure(&self) -> Result<Summary, Failure> {
        let args = self.args;
        let size = usize::try_from(args.size).unwrap_or(1024);
        let load = Load { events: args.events, size, window: args.window as usize };
        let null: Arc<dyn Target> = Arc::new(NullTarget::new());
        let order = match args.order {
            LaneOrder::Key => Order::PerKey,
            LaneOrder::None => Order::None,
        };
        let (mut rounds, mut reads, mut unordered) = (Vec::new(), Vec::new(), Vec::new());
        let bar = output::bar("rounds", u64::from(args.rounds));
        for number in 0..args.rounds {
            let read = self.round("read", format!("read-{number}"), &null, order).await?;
            reads.push(read.rate());
            rounds.push(read);
            rounds.push(self.bed.round(Message::Raw, load).await?);
            rounds.push(self.bed.round(Message::Same, load).await?);
            rounds.push(self.round("line", format!("line-{number}"), &self.target, order).await?);
            if order == Order::PerKey {
                let round =
                    self.round("unordered", format!("free-{number}"), &self.target, Order::None).await?;
                unordered.push(round.rate());
                rounds.push(round);
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let rate =
            |side: &str| median(rounds.iter().filter(|round| round.side == side).map(Round::rate).collect());
        let (line, read) = (rate("line"), median(reads));
        let (bare, same) = (rate("raw"), rate("same"));
        let ceiling = |publish: f64| 1.0 / (1.0 / read.max(1.0) + 1.0 / publish.max(1.0));
        let of_ceiling = |publish: f64| json!(hundredths(line / ceiling(publish).max(1.0)));
        // Without headers of ours the same message is the bare payload.
        let publish = if self.bed.is_bare() { bare } else { same };
        let mut facts = vec![
            ("raw_publish_per_second", json!(bare.round())),
            ("same_publish_per_second", json!(same.round())),
            ("read_per_second", json!(read.round())),
            ("line_ceiling_per_second", json!(ceiling(publish).round())),
            ("line_ceiling_ratio", of_ceiling(publish)),
            ("line_ceiling_ratio_bare_payload", of_ceiling(bare)),
        ];
        if !unordered.is_empty() {
            let unordered = median(unordered);
            facts.push(("unordered_per_second", json!(unordered.round())));
            facts.push(("of_unordered", json!(hundredths(line / unordered.max(1.0)))));
        }
        facts.extend([
            ("rss_mb", json!(rss_peak_mib())),
            ("to", json!(scheme(&args.to))),
            ("order", json!(if order == Order::PerKey { "key" } else { "none" })),
            ("events", json!(args.events)),
            ("size", json!(args.size)),
            ("keys", json!(args.keys)),
            ("window", json!(args.window)),
        ]);
        facts.extend(self.bed.facts());
        Ok(Summary { bench: "relay", sides: ["line", "raw"], rounds, facts })
    }

    /// A lane that did not exist before relays the whole backlog.
    async fn round(
        &self,
        side: &'static str,
        lane: String,
        target: &Arc<dyn Target>,
        order: Order,
    ) -> Result<Round, Failure> {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let lane = Lane::named(&lane)?.to(Arc::clone(target)).order(order).window(self.args.window);
        let (events, took) = drain_lane(store, lane).await?;
        self.bed.empty().await?;
        Ok(Round { side, events, took })
    }
}
