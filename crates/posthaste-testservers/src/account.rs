//! The account that a server runs as: some refuse to run as root.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Doing as _, Error, Result};
use crate::run::Run;

/// Comes with Debian's Postgres packages.
const UNPRIVILEGED: &str = "postgres";

/// True if we may install packages and become others.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// `program` as ourselves, or as user `postgres` if we are root.
pub(crate) fn unprivileged(program: impl AsRef<OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={UNPRIVILEGED}")).arg(format!("--regid={UNPRIVILEGED}"));
    command.arg("--init-groups").arg("--").arg(program);
    command
}

/// A folder for a server that runs as [`unprivileged`]; in the temp folder if that account cannot reach the run's.
pub(crate) fn unprivileged_home(run: &Run, name: &str) -> Result<PathBuf> {
    let home = run.new_folder(name)?;
    if !is_root() || hand_over(&home).is_ok() {
        return Ok(home);
    }
    let outside = run.outside_folder();
    match DirBuilder::new().mode(0o711).create(&outside) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).doing(format!("create {}", outside.display()));
        }
        _ => {}
    }
    let name = home.file_name().expect("a new folder has a name");
    let home = outside.join(name);
    hand_over(&home)?;
    Ok(home)
}

/// Makes a folder that belongs to the unprivileged account, and sees whether it can be reached from there.
fn hand_over(home: &Path) -> Result<()> {
    let mut install = Command::new("install");
    install.args(["-d", "-m", "700", "-o", UNPRIVILEGED, "-g", UNPRIVILEGED]).arg(home);
    let mut reach = unprivileged("test");
    reach.arg("-w").arg(home);
    for mut command in [install, reach] {
        let status = command.stderr(Stdio::null()).status().doing("make a folder for user postgres")?;
        if !status.success() {
            return Err(Error::failed(format!("user {UNPRIVILEGED} cannot use {}", home.display())));
        }
    }
    Ok(())
}
