//! The binary on an outbox table of somebody else, on Postgres, MariaDB and SQLite: the reference table of open-outbox, unchanged.

pub(crate) mod attempts;
pub(crate) mod doctoring;
pub(crate) mod guide;
pub(crate) mod lasting;
pub(crate) mod odd;
pub(crate) mod partitioned;
pub(crate) mod refusing;
pub(crate) mod relaying;
pub(crate) mod session;
pub(crate) mod sharing;
pub(crate) mod stand;
