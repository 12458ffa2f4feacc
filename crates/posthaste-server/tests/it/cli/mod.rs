//! The command line as its users meet it: the real binary, in a folder of its own.

pub(crate) mod audit;
#[cfg(feature = "postgres")]
pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod deploy;
pub(crate) mod event;
pub(crate) mod fake;
pub(crate) mod folder;
pub(crate) mod jobs;
pub(crate) mod lane;
pub(crate) mod output;
pub(crate) mod produce;
pub(crate) mod relay;
pub(crate) mod server;
pub(crate) mod serving;
pub(crate) mod store;
pub(crate) mod trust;
