//! Rounds, medians, percentiles, and what the operating system says about this process.

use std::time::Duration;

use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::{Map, Value, json};

/// One round of one side.
pub(super) struct Round {
    pub(super) side: &'static str,
    pub(super) events: u64,
    pub(super) took: Duration,
}

impl Round {
    pub(super) fn rate(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// What a bench found out.
pub(super) struct Summary {
    pub(super) bench: &'static str,
    /// The two sides: what is measured, and the raw limit it is compared with.
    pub(super) sides: [&'static str; 2],
    pub(super) rounds: Vec<Round>,
    /// Settings and further figures, in the order they are shown.
    pub(super) facts: Vec<(&'static str, Value)>,
}

impl Summary {
    fn median_rate(&self, side: &str) -> f64 {
        median(self.rounds.iter().filter(|round| round.side == side).map(Round::rate).collect())
    }

    fn document(&self) -> Value {
        let [measured, raw] = self.sides.map(|side| self.median_rate(side));
        let mut document = Map::new();
        document.insert("bench".to_owned(), json!(self.bench));
        document.insert("events_per_second".to_owned(), json!(measured.round()));
        document.insert("raw_events_per_second".to_owned(), json!(raw.round()));
        document.insert("of_raw".to_owned(), json!(hundredths(measured / raw.max(1.0))));
        for (name, value) in &self.facts {
            document.insert((*name).to_owned(), value.clone());
        }
        let round = |round: &Round| {
            json!({"side": round.side, "events": round.events, "seconds": round.took.as_secs_f64(),
                   "events_per_second": round.rate().round()})
        };
        document.insert("rounds".to_owned(), self.rounds.iter().map(round).collect());
        Value::Object(document)
    }

    /// One JSON document, or a table and the rounds in a line each.
    pub(super) fn print(&self, as_json: bool) -> Result<(), Failure> {
        let document = self.document();
        if as_json {
            return output::json(&document);
        }
        let figures = document.as_object().into_iter().flatten().filter(|(name, _)| *name != "rounds");
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let rows = figures.map(|(name, value)| vec![name.clone(), shown(value)]).collect();
        output::table(&["FIGURE", "VALUE"], rows, "nothing was measured")?;
        for side in self.sides {
            let rounds = self.rounds.iter().filter(|round| round.side == side);
            let rates: Vec<_> = rounds.map(|round| format!("{:.0}", round.rate())).collect();
            output::line(&format!("{side}: {} events/s", rates.join(", ")))?;
        }
        Ok(())
    }
}

/// The middle of these figures; the mean of the two in the middle.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => figures[middle],
        _ => (figures[middle - 1] + figures[middle]) / 2.0,
    }
}

/// The figure that this share of all figures does not exceed.
pub(super) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

pub(super) fn hundredths(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

pub(super) fn millis(span: Duration) -> f64 {
    hundredths(span.as_secs_f64() * 1e3)
}

/// Forgets the peak of the resident memory, so that the next one is of what follows. Where that cannot be had, the peak is of
/// the whole run.
#[cfg(feature = "postgres")]
pub(super) fn forget_rss_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process had resident, in MiB; `None` where `/proc` does not say.
pub(super) fn rss_peak_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(hundredths(kib / 1024.0))
}

/// Processor time of all threads of this process; `None` where `/proc` does not say.
pub(super) fn cpu_time() -> Option<Duration> {
    let mut nanos = 0_u64;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        nanos += stat.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_what_their_names_say() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        let spans: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&spans, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&spans, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&spans[..1], 0.99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
    }
}
