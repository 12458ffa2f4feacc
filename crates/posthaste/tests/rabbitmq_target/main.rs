//! RabbitMQ as a target, against a real broker.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod alarm;
mod broken;
mod bus;
#[path = "../certificates/mod.rs"]
mod certificates;
mod crowd;
mod killed;
mod limits;
mod line;
#[path = "../certificates/papers.rs"]
mod papers;
mod refused;
mod routing;
mod silent;
mod stand;
mod tls;
mod wire;
