//! The binary on a Postgres database, under the rights that `posthaste migrate print --roles` gives.

pub(crate) mod languages;
pub(crate) mod late;
pub(crate) mod moved;
pub(crate) mod operating;
pub(crate) mod serving;
pub(crate) mod sharing;
pub(crate) mod stand;
