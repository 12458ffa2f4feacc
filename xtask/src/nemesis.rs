//! `cargo xtask nemesis`: a program of its own, as it needs the whole library and this one must be quick to build.

use crate::steps::cargo;
use posthaste_testservers::{Doing as _, Interrupt, Result, Run, wait};

/// Builds and runs it with these arguments; the answer tells whether nothing was wrong.
pub(crate) fn nemesis(arguments: &[String], interrupt: &Interrupt) -> Result<bool> {
    let run = Run::private(interrupt)?;
    let mut command = cargo(&["run", "--quiet", "--package", "posthaste-nemesis", "--"])?;
    command.args(arguments);
    run.adopt(&mut command);
    let mut child = command.spawn().doing("start the nemesis")?;
    Ok(wait(&mut child, run.interrupt())?.success())
}
