//! Kafka as a target and as a broker, against a real server.

pub(crate) mod beginning;
pub(crate) mod behind;
pub(crate) mod consuming;
pub(crate) mod cut;
pub(crate) mod examined;
pub(crate) mod killed;
pub(crate) mod own_topics;
pub(crate) mod plain;
pub(crate) mod refused;
pub(crate) mod sent;
pub(crate) mod stand;
#[cfg(feature = "kafka-tls")]
pub(crate) mod tls;
