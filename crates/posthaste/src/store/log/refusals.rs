//! What the log engines say when a command, or a look, cannot be.

use posthaste_core::admin::{Applied, Filter};
use posthaste_core::lane::LaneName;
use posthaste_core::{Error, Result};

/// There is no such lane.
pub(in crate::store) fn no_such_lane(name: &LaneName) -> Error {
    Error::not_found(format!("there is no lane {name}; `posthaste lane list` shows those that are"))
}

/// A lane that is there and whose state was not changed is half removed.
pub(in crate::store) fn half_removed(filter: &Filter, applied: Applied) -> Result<Applied> {
    match &filter.lane {
        Some(name) if applied.changed == 0 => Err(Error::rejected(format!(
            "lane {name} is being removed, and what it had parked is gone in part; `posthaste lane remove {name} --yes` ends it"
        ))),
        _ => Ok(applied),
    }
}
