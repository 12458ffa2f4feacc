//! The binary `posthaste`: configuration, command line and server, as a library so that tests can run its
//! parts.
//!
//! Find your way: [`cli`] has one file per verb, [`config`] everything that can be set, [`serve`] and
//! [`http`] the server, and `posthaste-terminal` how a verb answers and what the process says at its end.
//! Two verbs are crates of their own, as they use clients of databases and brokers directly, which the
//! server does not: `posthaste-bench` measures, and `posthaste-conformance` holds tables and relays to
//! open-outbox. Without the features `bench` and `conformance` the binary does not have these verbs.

pub mod cli;
pub mod config;
mod depth;
pub mod http;
pub mod keys;
pub mod logging;
mod proof;
mod record;
mod sample;
pub mod serve;
pub mod shutdown;
pub mod supervisor;

use posthaste_terminal::exit;
