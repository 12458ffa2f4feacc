//! Redis as a target, against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod broken;
#[path = "../certificates/mod.rs"]
mod certificates;
mod killed;
#[path = "../certificates/papers.rs"]
mod papers;
mod refused;
#[path = "../sending/mod.rs"]
mod sending;
mod stand;
mod tls;
mod wire;
