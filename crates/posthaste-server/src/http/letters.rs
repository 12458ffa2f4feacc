//! The dead letters of brokers, over REST: by the name of a configured target and a group, as `posthaste dead … --broker` has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste::ErrorKind;
use posthaste::admin::{Admin, Filter};
use secrecy::ExposeSecret as _;

use super::problem::{Kind, Problem, is_own_words};
use super::query::bad;
use crate::config::Config;

/// The dead letters of every target that keeps some, by the target's name. Connects when they are needed first.
#[derive(Clone, Default)]
pub struct Letters(BTreeMap<String, Arc<dyn Admin>>);

impl Letters {
    /// Those of this configuration's targets.
    pub fn of(config: &Config) -> Self {
        let opened = config.targets.iter().filter_map(|(name, target)| {
            let letters = posthaste::broker::dead_letters(target.url.expose_secret()).ok()?;
            Some((name.clone(), letters))
        });
        opened.collect()
    }

    /// The dead letters that a query names, and their group in its filter; none if it names no broker.
    pub(super) fn asked(
        &self,
        (broker, group): (Option<&str>, Option<&str>),
        filter: &mut Filter,
    ) -> Result<Option<Arc<dyn Admin>>, Problem> {
        let (broker, group) = match (broker, group) {
            (None, None) => return Ok(None),
            (Some(broker), Some(group)) => (broker, group),
            _ => {
                return Err(malformed("broker and group belong together: a target's name, and a consumer's"));
            }
        };
        if filter.lane.is_some() {
            return Err(malformed("a lane is in the store; at a broker there is the group"));
        }
        filter.lane = Some(group.parse().map_err(bad("group"))?);
        let letters = self.0.get(broker).cloned();
        letters.map(Some).ok_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let detail =
                format!("no target of this name keeps dead letters; of those that are configured: {there}");
            Problem::new(Kind::NotFound, detail)
        })
    }
}

/// By the names of their targets.
impl FromIterator<(String, Arc<dyn Admin>)> for Letters {
    fn from_iter<I: IntoIterator<Item = (String, Arc<dyn Admin>)>>(letters: I) -> Self {
        Self(letters.into_iter().collect())
    }
}

/// What a broker says, as far as it is the caller's business.
pub(super) fn refused(error: posthaste::Error) -> Problem {
    match error.kind() {
        ErrorKind::Rejected if is_own_words(&error) => malformed(error.to_string()),
        ErrorKind::NotFound => {
            Problem::new(Kind::NotFound, "nothing is known of such a group at this broker")
        }
        _ => {
            tracing::warn!(%error, "a broker did not say what it has");
            Problem::new(Kind::Unavailable, "the broker cannot do this now; posthaste doctor says why")
        }
    }
}

fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Malformed, detail)
}
