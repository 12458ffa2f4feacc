//! The largest payload that the configured lanes take.

use posthaste::envelope::Envelope;
use posthaste::pattern::Pattern;
use posthaste::{Error, Result};
use secrecy::ExposeSecret;

use super::Config;

/// What each lane takes at most: whoever publishes more than that is told at once, instead of finding it among the dead.
#[derive(Clone, Debug, Default)]
pub struct LaneLimits(Vec<LaneLimit>);

#[derive(Clone, Debug)]
struct LaneLimit {
    lane: String,
    topics: Vec<Pattern>,
    bytes_max: u64,
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
            let bytes_max = posthaste::target::open(url).ok()?.capabilities().payload_bytes_max;
            Some((name.as_str().to_owned(), lane.topics.clone(), bytes_max))
        });
        limits.collect()
    }

    /// Checks that every lane that reads an event's topic takes its payload.
    ///
    /// # Errors
    /// `TooLarge`, naming the lane.
    pub fn check(&self, event: &Envelope) -> Result<()> {
        let size = event.payload.len() as u64;
        let wants = |limit: &&LaneLimit| limit.topics.iter().any(|topic| topic.matches(&event.topic));
        match self.0.iter().filter(wants).find(|limit| size > limit.bytes_max) {
            None => Ok(()),
            Some(LaneLimit { lane, bytes_max, .. }) => Err(Error::too_large(format!(
                "the payload has {size} bytes, and the target of lane {lane} takes {bytes_max}; publish a reference to large \
                 data instead, or raise message_bytes_max in its URL"
            ))),
        }
    }
}

/// Of lanes by name: their topics, and how many bytes they take.
impl FromIterator<(String, Vec<Pattern>, u64)> for LaneLimits {
    fn from_iter<I: IntoIterator<Item = (String, Vec<Pattern>, u64)>>(limits: I) -> Self {
        let limit = |(lane, topics, bytes_max)| LaneLimit { lane, topics, bytes_max };
        Self(limits.into_iter().map(limit).collect())
    }
}
