//! The binary on an outbox table on MariaDB: what `migrate print` shows, with rows of three columns.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

mod doctoring;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
mod refusing;
mod relaying;
#[path = "../doctor/seen.rs"]
#[expect(dead_code, reason = "shared with the tests of the doctor")]
mod seen;
mod sharing;
#[path = "../http_process/skip.rs"]
mod skip;
mod stand;
