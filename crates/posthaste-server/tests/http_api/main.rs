//! The HTTP server on a port of its own, in this process, on a store in memory.

mod auth;
mod client;
mod faulty;
mod health;
mod hostile;
mod look;
mod publish;
mod stand;
