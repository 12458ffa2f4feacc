//! Redis: a stream for each lane.

use posthaste::broker::redis::RedisBroker;
use posthaste_testservers::Kind;

use super::{Between, Opened};

pub(super) const REDIS: Between = Between {
    name: "redis",
    kind: Kind::Redis,
    scheme: "redis:",
    url: |address| format!("redis://{address}"),
    announce: None,
    open: |url, which| {
        let settings = "stream=events&answer_timeout=1500ms&connect_timeout=1s&claim_after=4s";
        Ok(Opened::new(RedisBroker::at(&format!("{url}?prefix=nemesis-{}:&{settings}", which.name()))?))
    },
};
