//! Servers that crash, fail over, are restored and copied: nothing is lost that the database still has. Every test starts
//! servers of its own, because it kills them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

mod clash;
mod crash;
mod failover;
mod moved;
mod retention;
mod stand;
mod surroundings;
