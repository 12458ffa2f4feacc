//! What is wrong with a consumer, said before it runs.

use super::Consumer;
use super::cx::Ground;
use crate::broker::FeedSpec;
use crate::pattern::Pattern;
use crate::target::Capabilities;
use crate::{Error, Result};

const NAME_BYTES_MAX: usize = 64;
/// More unsettled deliveries than that are no speed, only memory.
const UNSETTLED_MAX: usize = 100_000;

impl<D: Ground, S: Send + Sync + 'static> Consumer<D, S> {
    /// Looks for everything that is wrong with how it was built, without doing anything.
    ///
    /// # Errors
    /// `Config` with all problems: no name or an unusable one, no handler, two handlers for one type, no workers, a topic
    /// that is no pattern.
    pub fn check(&self) -> Result<()> {
        let mut problems = self.problems.clone();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX || !self.name.bytes().all(fits) {
            problems.push(format!(
                "the name {:?} cannot be a group: it must have 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' and '.'",
                self.name
            ));
        }
        if self.routes.is_empty() && self.any.is_none() {
            problems.push("there is no handler: add one with .on(…) or .on_any(…)".to_owned());
        }
        for (what, value) in [("workers", self.workers), ("prefetch", self.prefetch), ("batch", self.batch)] {
            if value == 0 {
                problems.push(format!("{what} is 0; at least 1 is needed"));
            }
        }
        if self.workers.saturating_mul(self.ahead()) > UNSETTLED_MAX {
            problems.push(format!("workers × prefetch is over {UNSETTLED_MAX} events"));
        }
        if self.batch > 1 && !D::TRANSACTIONAL {
            problems
                .push("batch mode is one transaction for many events, and there is no database".to_owned());
        }
        if self.timeout.is_zero() {
            problems.push("the timeout is 0; nothing could be handled".to_owned());
        }
        if let Err(error) = self.patterns() {
            problems.push(error.to_string());
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::config(format!("the consumer {:?} cannot run: {}", self.name, problems.join("; "))))
    }

    pub(super) fn ahead(&self) -> usize {
        self.prefetch.max(self.batch)
    }

    pub(super) fn patterns(&self) -> Result<Vec<Pattern>> {
        match &self.topics {
            Some(topics) => topics.iter().map(|topic| topic.parse()).collect(),
            None if self.type_topics.is_empty() => Ok(vec![Pattern::all()]),
            None if self.any.is_some() => Ok(vec![Pattern::all()]),
            None => self.type_topics.iter().map(|topic| topic.parse()).collect(),
        }
    }

    pub(super) fn feed_spec(&self) -> Result<FeedSpec> {
        self.check()?;
        let unsettled = u32::try_from(self.workers * self.ahead()).unwrap_or(u32::MAX);
        Ok(FeedSpec::new(&self.name, self.patterns()?).prefetch(unsettled).order(self.order))
    }

    pub(super) fn check_against(&self, can: &Capabilities) -> Result<()> {
        let patterns = self.patterns()?;
        let pattern = patterns.iter().find(|pattern| !pattern.is_literal());
        if let (Some(pattern), false) = (pattern, can.patterns) {
            return Err(Error::config(format!(
                "the consumer {:?} reads {pattern}, and this broker has no patterns; name the topics",
                self.name
            )));
        }
        Ok(())
    }
}
