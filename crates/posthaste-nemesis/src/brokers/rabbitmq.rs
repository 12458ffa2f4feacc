//! RabbitMQ: an exchange for each lane.

use posthaste::broker::amqp::AmqpBroker;
use posthaste_testservers::Kind;

use super::{Between, Opened};

pub(super) const RABBITMQ: Between = Between {
    name: "rabbitmq",
    kind: Kind::Rabbitmq,
    scheme: "amqp:",
    url: |address| format!("amqp://guest:guest@{address}/%2f"),
    announce: None,
    open: |url, which| {
        let settings = "tiers=200ms,400ms&confirm_timeout=1500ms&heartbeat=1s&connect_timeout=2s&monitor=1s";
        Ok(Opened::new(AmqpBroker::at(&format!("{url}?exchange=nemesis-{}&{settings}", which.name()))?))
    },
};
