//! The HTTP server on a port of its own, in this process, on a store in memory.

mod auth;
mod client;
mod commands;
mod faulty;
mod health;
mod hostile;
mod jobs;
mod letters;
mod look;
mod openapi;
mod publish;
mod stand;
