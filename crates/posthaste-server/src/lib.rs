//! The binary `posthaste`: configuration, command line, server and measuring, as a library so that tests can run its parts.
//!
//! Find your way: [`cli`] has one file per verb, [`config`] everything that can be set, [`serve`] and [`http`] the
//! server, [`mod@bench`] the measuring, `conformance` the kit that holds tables and relays to open-outbox, [`exit`] what the process says at its end.

pub mod bench;
pub mod cli;
pub mod config;
mod conformance;
mod depth;
pub mod exit;
pub mod http;
pub mod keys;
pub mod logging;
mod proof;
mod record;
mod sample;
pub mod serve;
pub mod shutdown;
pub mod supervisor;
