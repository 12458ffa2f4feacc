//! Consuming from a real Redis: retries, dead letters, what dead consumers leave, and what breaks under a consumer.

pub(crate) mod broken;
pub(crate) mod dead;
pub(crate) mod taken;
