//! The binary `posthaste`.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste_server::cli::main()
}
