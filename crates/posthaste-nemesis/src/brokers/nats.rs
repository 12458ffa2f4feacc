//! NATS: a stream for each lane.

use posthaste::broker::nats::NatsBroker;
use posthaste_testservers::Kind;

use super::{Between, Opened};

pub(super) const NATS: Between = Between {
    name: "nats",
    kind: Kind::Nats,
    scheme: "nats:",
    url: |address| format!("nats://{address}"),
    announce: None,
    open: |url, which| {
        let place = format!("nemesis-{}", which.name());
        let settings =
            "create_stream=true&ack_timeout=1500ms&ping=1s&connect_timeout=2s&reconnect_max=1s&ack_wait=4s";
        Ok(Opened::new(NatsBroker::at(&format!("{url}?stream={place}&prefix={place}&{settings}"))?))
    },
};
