//! A trial that cannot run here says so by its name; where everything must run that is a failure.

use std::io::Write as _;

/// Says on the real stderr that this trial was skipped, and why: the harness keeps what a passing test prints by
/// `eprintln!` to itself.
pub(crate) fn say(trial: &str, why: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!is_ci, "{why}; with CI=true that is a failure");
    say_of_optional(trial, why);
}

/// The same of a trial that needs what may be missing everywhere.
pub(crate) fn say_of_optional(trial: &str, why: &str) {
    writeln!(std::io::stderr(), "skipped: {trial}: {why}").expect("stderr is open");
}
