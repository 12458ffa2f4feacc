//! The largest events that the configured lanes take.

use std::fmt;
use std::sync::Arc;

use posthaste::envelope::Envelope;
use posthaste::pattern::Pattern;
use posthaste::target::Target;
use posthaste::{Error, Result};
use secrecy::ExposeSecret;

use super::Config;

/// What each lane takes at most: whoever publishes more than that is told at once, instead of finding it among the dead.
#[derive(Clone, Debug, Default)]
pub struct LaneLimits(Vec<LaneLimit>);

#[derive(Clone)]
struct LaneLimit {
    lane: String,
    topics: Vec<Pattern>,
    target: Arc<dyn Target>,
}

impl LaneLimits {
    /// Those of all lanes of this configuration; connects to nothing. A target that cannot be opened has none here, and is
    /// complained about by whoever needs it.
    pub fn of(config: &Config) -> Self {
        let limits = config.lanes.iter().filter_map(|(name, lane)| {
            let url = match config.targets.get(&lane.to) {
                Some(target) => target.url.expose_secret(),
                None => &lane.to,
            };
            let target = posthaste::target::open(url).ok()?;
            let is_limited = target.capabilities().payload_bytes_max < u64::MAX;
            is_limited.then(|| (name.as_str().to_owned(), lane.topics.clone(), target))
        });
        limits.collect()
    }

    /// Checks that every lane that reads an event's topic takes it, as large as it is on the wire.
    ///
    /// # Errors
    /// `TooLarge`, naming the lane.
    pub fn check(&self, event: &Envelope) -> Result<()> {
        let wants = |limit: &&LaneLimit| limit.topics.iter().any(|topic| topic.matches(&event.topic));
        for LaneLimit { lane, target, .. } in self.0.iter().filter(wants) {
            target.fits(event).map_err(|error| {
                Error::too_large(format!(
                    "the target of lane {lane} does not take it: {error}; publish a reference to large data instead, or raise \
                     message_bytes_max in its URL"
                ))
            })?;
        }
        Ok(())
    }
}

/// Of lanes by name: their topics, and their targets.
impl FromIterator<(String, Vec<Pattern>, Arc<dyn Target>)> for LaneLimits {
    fn from_iter<I: IntoIterator<Item = (String, Vec<Pattern>, Arc<dyn Target>)>>(limits: I) -> Self {
        let limit = |(lane, topics, target)| LaneLimit { lane, topics, target };
        Self(limits.into_iter().map(limit).collect())
    }
}

impl fmt::Debug for LaneLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneLimit").field("lane", &self.lane).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "nats", feature = "redis"))]
mod tests {
    use super::*;

    /// Each form has its own size: an event that passes here is not too large when it is sent.
    #[test]
    fn an_event_is_measured_as_it_will_be_sent() {
        let event = |bytes: usize, header: usize| {
            let mut event = Envelope::new("t", vec![0xff; bytes]);
            event.headers.insert("h".to_owned(), "x".repeat(header));
            event
        };
        let limits = |url: &str| -> LaneLimits {
            let target = posthaste::target::open(url).unwrap();
            [("narrow".to_owned(), vec!["#".parse().unwrap()], target)].into_iter().collect()
        };
        for (url, payload, header, fits) in [
            ("nats://h?message_bytes_max=64KiB", 60 << 10, 0, true),
            ("nats://h?message_bytes_max=64KiB", 60 << 10, 5 << 10, false),
            ("nats://h?message_bytes_max=64KiB&format=structured", 60 << 10, 0, false),
            ("redis://h?message_bytes_max=64KiB", 64 << 10, 0, true),
            ("redis://h?message_bytes_max=64KiB&format=structured", 60 << 10, 0, false),
        ] {
            let checked = limits(url).check(&event(payload, header));
            assert_eq!(checked.is_ok(), fits, "{url} {payload} {header}: {checked:?}");
            if let Err(error) = checked {
                assert!(error.to_string().contains("lane narrow"), "{error}");
            }
        }
    }
}
