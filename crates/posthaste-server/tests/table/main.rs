//! The binary on an outbox table of somebody else, on Postgres, MariaDB and SQLite: the reference table of open-outbox, unchanged.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

mod attempts;
mod doctoring;
#[path = "../cli/folder.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod folder;
mod guide;
mod lasting;
mod odd;
mod partitioned;
mod refusing;
mod relaying;
#[path = "../doctor/seen.rs"]
#[expect(dead_code, reason = "shared with the tests of the doctor")]
mod seen;
mod session;
mod sharing;
#[path = "../http_process/skip.rs"]
mod skip;
mod stand;
