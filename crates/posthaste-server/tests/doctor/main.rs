//! `posthaste doctor` on faults that somebody made: each is found by its check, mended by what that says, and gone after it.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

#[path = "../http_process/disk.rs"]
mod disk;
mod embedded;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "amqp")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
mod seen;
#[path = "../http_process/skip.rs"]
mod skip;
#[cfg(feature = "postgres")]
#[path = "../postgres/stand.rs"]
#[expect(dead_code, reason = "shared with the tests on Postgres")]
mod stand;
