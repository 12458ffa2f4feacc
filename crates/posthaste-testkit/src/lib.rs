//! The laws that every Posthaste backend obeys, and what is needed to hold one to them.
//!
//! A [law](mod@laws) is a plain async function whose name is the promise. There are lists of them: [`laws::STORE_LAWS`] for a
//! store, [`laws::TX_LAWS`] for publishing in a driver's transaction, [`laws::LINE_LAWS`] for the whole line with a relay,
//! [`laws::BROKER_LAWS`] for a broker and [`laws::CONSUMER_LAWS`] for a consumer with an inbox. A backend is held to a list by writing a [`rig`] for it and running every law on a fresh one;
//! `tests/conformance.rs` of the crate `posthaste` does so for the backends of the project.
//!
//! Whoever tests handlers of their own starts with [`kit`].
//!
//! [`model`] drives two stores with the same random steps and compares them. Beside them: a [scriptable target](target), a [history checker](history), a [proxy] that breaks connections, and
//! [waiting for facts](wait) instead of for time.

pub mod broker;
mod child;
pub mod database;
pub mod drive;
pub mod driver;
pub mod harness;
pub mod history;
pub mod kit;
pub mod law;
pub mod laws;
pub mod memory;
pub mod model;
pub mod proxy;
pub mod rig;
pub mod target;
pub mod wait;

/// Private servers that tests start, stop, kill and start again.
pub use posthaste_testservers as servers;
