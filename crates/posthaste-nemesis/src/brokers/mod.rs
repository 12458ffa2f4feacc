//! The brokers that can stand between relays and consumers: one file each, and a line in [`ALL`].

mod kafka;
mod nats;
mod rabbitmq;
mod redis;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use posthaste::admin::Admin;
use posthaste::broker::Broker;
use posthaste_testservers::{Kind, Server};

use crate::Result;
use crate::lanes::Which;

/// All of them.
pub(crate) const ALL: [&Between; 4] = [&rabbitmq::RABBITMQ, &nats::NATS, &redis::REDIS, &kafka::KAFKA];

/// A broker between relays and consumers.
pub(crate) struct Between {
    /// What it is called after `--to`.
    pub(crate) name: &'static str,
    /// Its server, which is killed and stopped.
    pub(crate) kind: Kind,
    /// What its URLs begin with.
    scheme: &'static str,
    /// The URL of a server that is reached at this address.
    pub(crate) url: fn(SocketAddr) -> String,
    /// Tells the server that its clients find it at this address, where they would not believe it otherwise.
    pub(crate) announce: Option<fn(&mut Server, SocketAddr) -> Result<()>>,
    /// How one lane and its consumers see it: with places of their own, and quick to notice that it is away.
    open: fn(&str, Which) -> Result<Opened>,
}

/// A broker that was opened.
pub(crate) struct Opened {
    pub(crate) broker: Arc<dyn Broker>,
    /// Where its dead letters are found, by group.
    pub(crate) admin: Arc<dyn Admin>,
}

impl Opened {
    fn new<B: Broker + Admin + Clone + 'static>(broker: B) -> Self {
        Self { admin: Arc::new(broker.clone()), broker: Arc::new(broker) }
    }
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The broker that was asked for by this name.
pub(crate) fn named(name: &str) -> Option<&'static Between> {
    ALL.into_iter().find(|broker| broker.name == name)
}

/// Opens the broker at this URL as this lane and its consumers see it.
pub(crate) fn open(url: &str, which: Which) -> Result<Opened> {
    let broker = ALL.into_iter().find(|broker| url.starts_with(broker.scheme));
    (broker.ok_or("no broker of the nemesis has such a URL")?.open)(url, which)
}
