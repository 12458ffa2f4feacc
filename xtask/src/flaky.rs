//! Tests that failed in the whole check and passed when they ran again by themselves.
//!
//! Each of them is a bug of the test or of the product. The list keeps them from being forgotten, and a few of them do
//! not hold up everybody else's work.

use std::fmt;

/// The flaky tests of one check, each with the output of its failure.
#[derive(Debug, Default)]
pub(crate) struct Flaky(Vec<(String, String)>);

impl Flaky {
    /// The check fails with more flaky tests than this.
    pub(crate) const ALLOWED: usize = 3;

    pub(crate) fn add(&mut self, name: &str, failure: String) {
        self.0.push((name.to_owned(), failure));
    }

    pub(crate) fn are_too_many(&self) -> bool {
        self.0.len() > Self::ALLOWED
    }
}

/// The output of each failure, and then the closing lines; nothing if no test was flaky.
impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, failure) in &self.0 {
            writeln!(f, "---- flaky: {name} ----\n{}", failure.trim_end())?;
        }
        for (name, _) in &self.0 {
            writeln!(f, "FLAKY: {name}: failed in the check and passed alone")?;
        }
        if !self.0.is_empty() {
            writeln!(f, "{} flaky (at most {} may be)", self.0.len(), Self::ALLOWED)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaky_tests_are_listed_with_their_failure_and_counted() {
        let mut flaky = Flaky::default();
        assert_eq!(flaky.to_string(), "");
        flaky.add("nats::cut", "the place moved\n".to_owned());
        assert_eq!(
            flaky.to_string(),
            "---- flaky: nats::cut ----\nthe place moved\n\
             FLAKY: nats::cut: failed in the check and passed alone\n1 flaky (at most 3 may be)\n"
        );
    }

    #[test]
    fn a_fourth_flaky_test_is_one_too_many() {
        let mut flaky = Flaky::default();
        for name in ["a", "b", "c"] {
            flaky.add(name, String::new());
        }
        assert!(!flaky.are_too_many());
        flaky.add("d", String::new());
        assert!(flaky.are_too_many());
    }
}
