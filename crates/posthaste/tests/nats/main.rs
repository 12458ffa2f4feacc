//! NATS as a target and a broker, against a real server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod beside;
mod broken;
#[path = "../certificates/mod.rs"]
mod certificates;
mod consuming;
mod dead;
mod duplicates;
mod kafka;
mod killed;
mod line;
#[path = "../sending/mistyped.rs"]
mod mistyped;
mod older;
#[path = "../certificates/papers.rs"]
mod papers;
mod refused;
mod seen;
#[path = "../sending/mod.rs"]
mod sending;
mod stand;
mod tls;
