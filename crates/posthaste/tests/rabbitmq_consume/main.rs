//! Consuming from a real RabbitMQ: retries in tiers, dead letters, and what breaks under a consumer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod broken;
mod dead;
mod innocent;
mod order;
mod refused;
mod seen;
#[expect(dead_code, reason = "shared with the tests of the target, which need more of it")]
#[path = "../rabbitmq_target/stand.rs"]
mod stand;
mod tiers;
