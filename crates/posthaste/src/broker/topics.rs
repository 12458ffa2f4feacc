//! The topics of a group, where each has a queue or a consumer of its own at the broker.

use posthaste_core::pattern::Pattern;
use posthaste_core::{Error, Result};

/// These topics, each once.
///
/// # Errors
/// `Config` when an event could match two of them: the group would get it twice.
pub(crate) fn each_once<'t>(group: &str, topics: &'t [Pattern]) -> Result<Vec<&'t Pattern>> {
    let mut chosen: Vec<&Pattern> = Vec::new();
    for topic in topics {
        match chosen.iter().find(|other| topic.overlaps(other)) {
            Some(other) if *other == topic => {}
            Some(other) => {
                return Err(Error::config(format!(
                    "the group {group:?} reads {other} and {topic}, and a topic can match both: it would get such events twice; read one of them, or each in a group of its own"
                )));
            }
            None => chosen.push(topic),
        }
    }
    Ok(chosen)
}
