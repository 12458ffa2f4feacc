//! Consuming from a real RabbitMQ: retries in tiers, dead letters, and what breaks under a consumer.

pub(crate) mod broken;
pub(crate) mod dead;
pub(crate) mod innocent;
pub(crate) mod order;
pub(crate) mod refused;
pub(crate) mod seen;
pub(crate) mod tiers;
