//! `posthaste serve` as a process of its own, on an SQLite file in a folder of its own.

#[path = "../http_api/client.rs"]
mod client;
mod crash;
mod disk;
mod first_start;
mod full_disk;
mod process;
mod skip;
mod stop;
