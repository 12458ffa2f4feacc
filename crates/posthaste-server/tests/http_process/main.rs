//! `posthaste serve` as a process of its own, on an SQLite file in a folder of its own.

#[expect(dead_code, reason = "shared with the tests that run the server in their own process")]
#[path = "../http_api/client.rs"]
mod client;
mod crash;
mod first_start;
mod process;
mod stop;
