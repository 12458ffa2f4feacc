//! Servers that crash, fail over, are restored and copied: nothing is lost that the database still has. Every test starts
//! servers of its own, because it kills them.

pub(crate) mod clash;
pub(crate) mod crash;
pub(crate) mod failover;
pub(crate) mod moved;
pub(crate) mod retention;
pub(crate) mod stand;
pub(crate) mod surroundings;
pub(crate) mod switched;
