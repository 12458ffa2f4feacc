//! What every verb of the command line needs to answer people and programs.
//!
//! [`exit`] has the exit codes, [`output`] writes tables, JSON documents and notes and shows progress,
//! [`visible`] escapes what would steer a terminal, and [`words`] counts things in words. A verb that
//! lives in a crate of its own (the bench, the conformance kit) answers like the verbs of the server.
//! There is no store, no HTTP and no configuration in here.

pub mod exit;
pub mod output;
pub mod visible;
pub mod words;
