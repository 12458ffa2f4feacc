//! The command line as its users meet it: the real binary, in a folder of its own.

mod config;
mod dead;
mod event;
mod folder;
mod lane;
mod output;
mod relay;
mod server;
mod store;
