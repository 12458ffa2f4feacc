//! The HTTP server on a port of its own, in this process, on a store in memory.

pub(crate) mod auth;
pub(crate) mod client;
pub(crate) mod commands;
pub(crate) mod crowd;
pub(crate) mod faulty;
pub(crate) mod health;
pub(crate) mod hostile;
pub(crate) mod jobs;
pub(crate) mod letters;
pub(crate) mod look;
pub(crate) mod openapi;
pub(crate) mod proof;
pub(crate) mod publish;
pub(crate) mod stand;
pub(crate) mod strange;
