//! What the compiler says about common mistakes: it must name the mistake and what to write instead.
//!
//! After a wanted change of a message: `TRYBUILD=overwrite cargo test -p posthaste-derive --test compile_errors`, then read
//! the difference.

use std::io::Write as _;
use std::process::Command;

/// The compiler whose wording `ui/*.stderr` has.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn mistakes_are_explained() {
    if rustc_is_another() {
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

/// Another compiler words the same errors differently. That is a skip, said by name; where everything must run
/// (`CI=true`) it is a failure.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment what must run")]
fn rustc_is_another() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(rustc).arg("--version").output().expect("the compiler that built this test is there");
    let version = String::from_utf8_lossy(&output.stdout);
    if version.starts_with(RUSTC) {
        return false;
    }
    let reason =
        format!("compile_errors: the messages are those of {RUSTC}x, and this is {}", version.trim());
    assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "{reason}");
    writeln!(std::io::stderr(), "skipped: {reason}").expect("stderr is open");
    true
}
