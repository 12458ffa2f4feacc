//! What a task says on stdout, and the sum that it ends with.

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
