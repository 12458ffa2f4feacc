//! The command line: one file per verb.

use std::process::ExitCode;

/// Reads the command line, does what it says and answers the exit code.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
