//! Consuming from a real Redis: retries, dead letters, what dead consumers leave, and what breaks under a consumer.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod broken;
mod dead;
#[path = "../rabbitmq_consume/seen.rs"]
mod seen;
#[path = "../sending/mod.rs"]
mod sending;
#[expect(dead_code, reason = "shared with the tests of the target, which need more of it")]
#[path = "../redis_target/stand.rs"]
mod stand;
mod taken;
