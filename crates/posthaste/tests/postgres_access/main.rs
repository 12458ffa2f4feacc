//! The way to a Postgres database: encrypted or refused, with as few rights as possible, given up half-way, and what is
//! said when it cannot be had. On real servers; those whose settings matter are private to their test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

#[path = "../certificates/mod.rs"]
mod certificates;
mod dropped;
mod limits;
mod ordered;
mod private;
mod refused;
mod roles;
mod scope;
mod tls;
