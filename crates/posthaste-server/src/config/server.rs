//! `[server]`: where the server listens, and its limits.

use std::net::SocketAddr;
use std::time::Duration;

use posthaste::limits::{NAME_BYTES_MAX, PAYLOAD_BYTES_CEILING};

use super::scope::Operator;
use super::section::Section;

/// A part of the work that `posthaste serve` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Publishing over REST.
    Api,
    /// Driving the lanes.
    Relay,
}

impl std::str::FromStr for Role {
    type Err = posthaste::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "api" => Ok(Self::Api),
            "relay" => Ok(Self::Relay),
            _ => Err(posthaste::Error::config(format!(
                "there is no role {text:?}; there are \"api\" and \"relay\""
            ))),
        }
    }
}

/// Where the server listens, and its limits.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What this process does.
    pub roles: Vec<Role>,
    /// REST, health and metrics.
    pub listen: SocketAddr,
    /// Health and metrics on an address of their own; `None`: on `listen`.
    pub admin_listen: Option<SocketAddr>,
    /// How many connections may be open at once.
    pub connections_max: usize,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// How far a request's body may fall behind its slowest rate, and so how long it may pause.
    pub body_timeout: Duration,
    /// The slowest rate of a request's body, in bytes per second.
    pub body_rate_min: u64,
    /// How long a connection may be open without a request.
    pub idle_timeout: Duration,
    /// How long a request may take, from its head to its answer.
    pub request_timeout: Duration,
    /// The largest payload of an event, in bytes.
    pub payload_max: usize,
    /// The number of arrays and objects that may stand inside one another in a JSON payload.
    pub json_depth_max: usize,
    /// The source of events that come without one.
    pub source: String,
    /// What keys may do over REST.
    pub operators: Vec<Operator>,
}

impl ServerConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let config = Self {
            roles: section.list("roles"),
            listen: section.address("listen"),
            admin_listen: section.address_or_none("admin_listen"),
            connections_max: section.integer("connections_max", 1..=1_000_000),
            header_timeout: section.duration("header_timeout"),
            body_timeout: section.duration("body_timeout"),
            body_rate_min: section.size("body_rate_min", 1..=PAYLOAD_BYTES_CEILING as u64),
            idle_timeout: section.duration("idle_timeout"),
            request_timeout: section.duration("request_timeout"),
            payload_max: section.size("payload_max", 1..=PAYLOAD_BYTES_CEILING as u64) as usize,
            json_depth_max: section.integer("json_depth_max", 1..=1_000_000),
            source: section.text("source"),
            operators: section.list("operators"),
        };
        section.require("roles", !config.roles.is_empty(), || {
            "names nothing to do; there are \"api\" and \"relay\"".to_owned()
        });
        let timeouts = [
            ("header_timeout", config.header_timeout),
            ("body_timeout", config.body_timeout),
            ("idle_timeout", config.idle_timeout),
            ("request_timeout", config.request_timeout),
        ];
        for (key, value) in timeouts {
            section.within(key, value, Duration::from_millis(100)..=Duration::from_secs(3600));
        }
        section.require("source", (1..=NAME_BYTES_MAX).contains(&config.source.len()), || {
            format!("must have 1 to {NAME_BYTES_MAX} bytes")
        });
        config
    }
}
