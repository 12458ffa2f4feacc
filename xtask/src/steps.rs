//! A step: one command whose output is kept, shown only if it fails, and that ends with us.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use posthaste_testservers::{Doing as _, Result, Run, tail, wait};

/// So much of what a failed step said is shown.
const TAIL_LINES: usize = 60;

/// What a step did. Its two outputs are kept apart: a line of one may not end up inside a line of the other.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Ended {
    /// The end of what it said, for somebody who must find out why it failed.
    pub(crate) fn last_words(&self) -> String {
        let words = [tail(&self.stdout, TAIL_LINES), tail(&self.stderr, TAIL_LINES)];
        words.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// Runs `command` to its end and keeps what it says.
pub(crate) fn run_step(run: &Run, mut command: Command) -> Result<Ended> {
    let begun = Instant::now();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| run.folder().join(format!("step.{name}")));
    let open = |path: &Path| File::create(path).doing(format!("create {}", path.display()));
    run.adopt(&mut command);
    command.stdout(open(&stdout)?).stderr(open(&stderr)?);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().doing(format!("run {program}"))?;
    let status = wait(&mut child, run.interrupt())?;
    let read = |path: &Path| {
        let bytes = fs::read(path).doing("read what a step said")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Ended { ok: status.success(), stdout: read(&stdout)?, stderr: read(&stderr)?, took: begun.elapsed() })
}

/// Cargo as our caller started it, without what it told us about ourselves: that would be other people's build input.
pub(crate) fn cargo(arguments: &[&str]) -> Result<Command> {
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&variable);
        }
    }
    command.args(arguments).env("CARGO_TERM_COLOR", "never").current_dir(posthaste_testservers::workspace()?);
    Ok(command)
}
