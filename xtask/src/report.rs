//! What a task says on stdout, and the sum that it ends with.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write as _};

/// Prints one line on stdout.
pub(crate) fn say(line: &str) {
    say_part(&format!("{line}\n"));
}

/// Prints a part of a line at once, so that one sees what is being done.
pub(crate) fn say_part(part: &str) {
    let mut out = io::stdout().lock();
    // Whoever closed our stdout does not want to know; the exit code still tells.
    let _ = out.write_all(part.as_bytes()).and_then(|()| out.flush());
}

/// How many of what was tried passed, failed or was skipped.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Sum {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// What was skipped, by its reason: many trials share one, and a reader wants the reasons.
#[derive(Debug, Default)]
pub(crate) struct Skipped(BTreeMap<String, Vec<String>>);

impl Skipped {
    /// So many names of one reason are shown.
    const SHOWN: usize = 2;

    pub(crate) fn add(&mut self, name: &str, why: &str) {
        self.0.entry(why.to_owned()).or_default().push(name.to_owned());
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (why, names) in &self.0 {
            let shown = names.iter().take(Self::SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(Self::SHOWN);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            writeln!(f, "skipped: {why}: {shown}{more}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_skipped_for_one_reason_is_one_line() {
        let mut skipped = Skipped::default();
        for name in ["a", "b", "c"] {
            skipped.add(name, "no server");
        }
        skipped.add("d", "takes an hour");
        assert_eq!(skipped.to_string(), "skipped: no server: a, b and 1 more\nskipped: takes an hour: d\n");
    }
}
