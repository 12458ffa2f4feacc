//! The HTTP server: REST for publishing, looking and commanding, health and metrics.
//!
//! ```text
//! server    accepts, limits connections, drains      (caller owns the socket and the end)
//!   connections  which are open, and which idle one is closed for a new one
//!   stream    a connection's timeouts: head, idle, stalled writes
//!     router    one table of routes; layers: panic, observe, time, well-formed, key
//!       publish, events, dead, lanes, audit, commands, jobs, health, metrics, proof
//! ```
//!
//! [`wire`] has every JSON shape, [`problem`] every error and its status. Everything needs `Authorization: Bearer KEY` but
//! `/healthz`, `/readyz`, `/startupz`, `/version`, `/openapi.json` and `/v1/proof`; `/metrics` and `/stats`
//! need it too, except on the admin address, which the operator opens on purpose and must not expose.

mod app;
mod audit;
mod auth;
mod commands;
mod connections;
pub(crate) mod dead;
pub(crate) mod events;
mod files;
mod head;
mod health;
pub(crate) mod history;
mod jobs;
mod lanes;
mod letters;
mod metrics;
pub mod problem;
mod proof;
pub(crate) mod publish;
pub(crate) mod query;
mod rarely;
mod router;
mod server;
mod stream;
mod strict;
pub mod wire;

pub use app::{App, Limits};
pub use files::make_room;
pub use health::Watched;
pub use letters::Letters;
pub use metrics::{Metrics, UPKEEP_EVERY};
pub use router::{Face, paths, router};
pub use server::{ConnectionLimits, Server};
