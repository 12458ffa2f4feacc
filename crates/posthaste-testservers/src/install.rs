//! Installs what is missing, as root with apt, without starting any of the system's own services.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::account::is_root;
use crate::child::{tail, wait};
use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;
use crate::kind::{Kind, find};
use crate::run::Run;
use crate::{kafka, nats};

/// Debian asks this program before a package starts its service.
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// By this line we know a policy of ours that a killed run left behind.
const POLICY_TEXT: &str = "#!/bin/sh\n# Written by posthaste's xtask while it installs packages.\nexit 101\n";
/// One installation at a time on this machine, or one would remove the policy under the other.
const LOCK: &str = "/run/posthaste-xtask-install.lock";

/// Debian's NATS server.
const OLDER: &str = "nats-server";

/// Installs what is missing of `kinds`.
///
/// # Errors
/// `Unavailable` when packages are missing and we are not root, there is no apt, or apt failed.
pub(crate) fn ensure(kinds: &[Kind], run: &Run) -> Result<()> {
    if kinds.contains(&Kind::Nats) {
        nats::fetch(run);
    }
    if kinds.contains(&Kind::Kafka) {
        kafka::fetch(run);
    }
    let can_install = is_root() && find("apt-get").is_some();
    if missing(kinds).is_empty() && !(can_install && lacks_older(kinds)) {
        return Ok(());
    }
    if !can_install {
        let packages = missing(kinds).join(" ");
        return Err(Error::Unavailable(format!("not installed, and only root with apt can: {packages}")));
    }
    let lock = File::create(LOCK).doing(format!("create {LOCK}"))?;
    lock.lock().doing("wait for another installation")?;
    let mut packages = missing(kinds);
    if lacks_older(kinds) && !packages.contains(&OLDER) {
        packages.push(OLDER);
    }
    if packages.is_empty() {
        return Ok(());
    }
    eprintln!("installing {}", packages.join(" "));
    let _policy = Policy::forbid_services()?;
    apt(run, &["update"])?;
    apt(run, &[["install", "--yes", "--no-install-recommends"].as_slice(), &packages].concat())?;
    match missing(kinds).as_slice() {
        [] => Ok(()),
        left => {
            Err(Error::Unavailable(format!("apt installed {} but its program is not there", left.join(" "))))
        }
    }
}

fn missing(kinds: &[Kind]) -> Vec<&'static str> {
    kinds.iter().filter(|kind| kind.program().is_none()).filter_map(|kind| kind.package()).collect()
}

/// Whether Debian's server is wanted beside the current one, and not there: some tests run on both.
fn lacks_older(kinds: &[Kind]) -> bool {
    kinds.contains(&Kind::Nats) && find("nats-server").is_none()
}

fn apt(run: &Run, arguments: &[&str]) -> Result<()> {
    let log = run.folder().join("apt.log");
    let output = File::create(&log).doing(format!("create {}", log.display()))?;
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=300"]).args(arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command.process_group(0);
    command.stderr(output.try_clone().doing("share a log file")?).stdout(output);
    // Not part of the run: an interrupt lets dpkg finish, since half an installation would be left to repair.
    let mut child = command.spawn().doing("run apt-get")?;
    let status = wait(&mut child, &Interrupt::default())?;
    if status.success() {
        return Ok(());
    }
    let said = tail(&fs::read_to_string(&log).unwrap_or_default(), 15);
    Err(Error::Unavailable(format!("apt-get {} failed: {status}\n{said}", arguments.join(" "))))
}

/// Keeps packages from starting services; dropped, it removes what it wrote and nothing else.
struct Policy {
    ours: bool,
}

impl Policy {
    fn forbid_services() -> Result<Self> {
        if fs::read_to_string(POLICY).is_ok_and(|text| text == POLICY_TEXT) {
            return Ok(Self { ours: true });
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o755).open(POLICY) {
            Ok(mut file) => {
                let policy = Self { ours: true };
                file.write_all(POLICY_TEXT.as_bytes()).doing(format!("write {POLICY}"))?;
                Ok(policy)
            }
            // The machine has its own; what it says is not ours to change.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { ours: false }),
            Err(error) => Err(error).doing(format!("create {POLICY}")),
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours && Path::new(POLICY).exists() && fs::remove_file(POLICY).is_err() {
            eprintln!("failed to remove {POLICY}: remove it by hand");
        }
    }
}
