//! `retry` of a lane: when a failed event is tried again, and when it is enough.

use std::time::Duration;

use posthaste::retry::{Backoff, Jitter};

use super::section::Section;

const PRESETS: &str = "open-outbox, servicekit, lerian, axcom";
const DETAILS: [&str; 5] = ["first", "factor", "cap", "attempts", "jitter"];

pub(super) fn read(section: &Section<'_>) -> Backoff {
    let (first, cap) = (section.duration("first"), section.duration("cap"));
    let policy = Backoff::exponential(first)
        .factor(section.number("factor", 1.0..=100.0))
        .cap(cap)
        .attempts(section.integer("attempts", 1..=1_000_000))
        .jitter(section.convert("jitter", jitter));
    section.within("first", first, Duration::from_millis(1)..=Duration::from_secs(7 * 86_400));
    section.require("cap", cap >= first, || "is shorter than first".to_owned());
    section.within("cap", cap, Duration::from_millis(1)..=Duration::from_secs(30 * 86_400));
    let preset = section.text("preset");
    if preset.is_empty() {
        return policy;
    }
    let chosen = Backoff::preset(&preset);
    section.require("preset", chosen.is_some(), || format!("is not a preset; there are {PRESETS}"));
    for key in DETAILS {
        section.require(key, section.is_default(key), || {
            "cannot stand beside preset; remove one of the two".to_owned()
        });
    }
    chosen.unwrap_or(policy)
}

fn jitter(text: &str) -> Result<Jitter, String> {
    let share = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    match text {
        "none" => Ok(Jitter::None),
        "full" => Ok(Jitter::Full),
        _ => text
            .strip_prefix("additive:")
            .and_then(share)
            .map(Jitter::Additive)
            .ok_or_else(|| "is not a jitter; write \"none\", \"full\" or \"additive:0.15\"".to_owned()),
    }
}
