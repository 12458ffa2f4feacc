//! A small disk in memory, to be filled or made read-only.

use std::path::Path;
use std::process::Command;

use crate::http_process::skip;

/// A mounted tmpfs; dropping it unmounts it.
pub(crate) struct Disk(tempfile::TempDir);

impl Disk {
    /// Mounts a disk of this size. `None`, after saying so by the trial's name, without the right to.
    pub(crate) fn mount(trial: &str, size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        skip::say(trial, "a tmpfs cannot be mounted without root");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,{options}")]).arg(self.path());
        assert!(mount.status().expect("mount is there").success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that was killed may still have its file open.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
