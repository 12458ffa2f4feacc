//! Other languages with the packages that a test needs: made once in the target folder, and found again by later runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with what this file of requirements names.
///
/// # Errors
/// What cannot be had, for whoever reads why a trial was skipped.
pub(crate) fn python(name: &str, requirements: &Path) -> Result<PathBuf, String> {
    let folder = made(name, requirements, |folder| {
        let mut venv = Command::new("python3");
        worked(venv.args(["-m", "venv"]).arg(folder), "there is no Python with venv")?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
        pip.args(["--retries", "1", "--requirement"]).arg(requirements);
        worked(&mut pip, &format!("what {} names cannot be had", requirements.display()))
    })?;
    Ok(folder.join("bin/python"))
}

/// A folder in which Node.js finds what this package.json names.
///
/// # Errors
/// What cannot be had, for whoever reads why a trial was skipped.
pub(crate) fn node(name: &str, package: &Path) -> Result<PathBuf, String> {
    made(name, package, |folder| {
        worked(Command::new("node").arg("--version"), "there is no Node.js")?;
        fs::copy(package, folder.join("package.json")).map_err(|error| error.to_string())?;
        let mut npm = Command::new("npm");
        npm.current_dir(folder).args(["install", "--silent", "--no-audit", "--no-fund"]);
        npm.args(["--fetch-retries=1", "--fetch-timeout=20000"]);
        worked(&mut npm, &format!("what {} names cannot be had", package.display()))
    })
}

/// A folder that holds what this recipe names; tests beside each other, and in other processes, wait until it does.
fn made(
    name: &str,
    recipe: &Path,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let failed = |error: std::io::Error| format!("{} cannot be made: {error}", folder.display());
    let lock = File::create(folder.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let (wanted, there) = (fs::read(recipe).map_err(failed)?, folder.join("made-of"));
    if fs::read(&there).is_ok_and(|made_of| made_of == wanted) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    make(&folder)?;
    fs::write(there, wanted).map_err(failed)?;
    Ok(folder)
}

/// Runs a command. What it says is not repeated: it may name a mirror that is nobody's business.
fn worked(command: &mut Command, otherwise: &str) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(otherwise.to_owned()),
    }
}
