//! The binary on a Postgres database, under the rights that `posthaste migrate print --roles` gives.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

#[path = "../http_api/client.rs"]
#[expect(dead_code, reason = "shared with the tests of the HTTP API")]
mod client;
#[path = "../brokers/environment.rs"]
#[expect(dead_code, reason = "shared with the tests of brokers")]
mod environment;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
mod languages;
mod late;
mod moved;
mod operating;
#[path = "../http_process/process.rs"]
mod process;
mod serving;
mod sharing;
#[path = "../http_process/skip.rs"]
mod skip;
mod stand;
