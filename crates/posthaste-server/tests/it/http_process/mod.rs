//! `posthaste serve` as a process of its own, on an SQLite file in a folder of its own.

pub(crate) mod crash;
pub(crate) mod disk;
pub(crate) mod first_start;
pub(crate) mod full_disk;
pub(crate) mod process;
pub(crate) mod replaced;
pub(crate) mod skip;
pub(crate) mod stop;
