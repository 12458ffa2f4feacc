//! Files of this machine: who may read the key, and the disk under an embedded store.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use posthaste::findings::{Finding, Mend};
use posthaste::store::Synchronous;
use rustix::fs::Access;

use crate::config::Config;
use crate::keys::file::is_trusted;

/// With less than this SQLite soon cannot write.
const FREE_BYTES_MIN: u64 = 64 << 20;
/// Less than this, and less than a tenth of the disk, is soon used up.
const FREE_BYTES_FEW: u64 = 1 << 30;

/// File systems that other machines have too, on which locks cannot be relied upon.
const SHARED: [&str; 13] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "lustre",
    "glusterfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.s3fs",
];

/// Everything about files.
pub(super) fn examine(config: &Config, key_file: Option<PathBuf>) -> Vec<Finding> {
    let mut found: Vec<Finding> = key_file.and_then(|file| key(&file)).into_iter().collect();
    if let Some(file) = config.store.database_file() {
        found.extend(fs::canonicalize(&file).ok().filter(|file| file.is_file()).map(|file| writable(&file)));
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = fs::canonicalize(folder.unwrap_or(Path::new("."))) {
            found.extend(disk(&folder));
            found.extend(file_system(
                &folder,
                &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            ));
        }
        if config.store.table.is_none() {
            found.push(synchronous(config.store.synchronous));
        }
    }
    found
}

/// Whether the key is of this user, and only its owner may read it.
fn key(file: &Path) -> Option<Finding> {
    let about = fs::metadata(file).ok()?;
    let (owner, mode) = (about.uid(), about.mode() & 0o777);
    let shown = file.display();
    if !is_trusted(owner, rustix::process::geteuid().as_raw()) {
        let seen = format!("{shown} belongs to user {owner}, who knows the key: it is not used");
        return Some(Finding::failure("key file", seen, Mend::words("remove it, or run this as its owner")));
    }
    Some(if mode & 0o077 == 0 {
        Finding::ok("key file", format!("{shown} is for its owner only"))
    } else {
        let seen = format!("others may read {shown} (mode {mode:o}), and with it publish and read events");
        Finding::failure("key file", seen, Mend::command(format!("chmod 600 {}", quoted(file))))
    })
}

/// As a shell reads it.
fn quoted(file: &Path) -> String {
    format!("'{}'", file.display().to_string().replace('\'', r"'\''"))
}

/// Whether this user may write the file.
fn writable(file: &Path) -> Finding {
    // Not opened: to close it again would release the locks of this process's own connections.
    match rustix::fs::access(file, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Finding::ok("file", "can be written"),
        Err(error) => Finding::failure(
            "file",
            format!("{} cannot be written: {error}", file.display()),
            Mend::words("give this user the right to write it and its folder, or mount its disk for writing"),
        ),
    }
}

/// How much room is left on the disk.
fn disk(folder: &Path) -> Option<Finding> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    let (free, all) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
    let seen = format!("{} MiB of {} MiB are free where the database lies", free >> 20, all >> 20);
    let mend = || Mend::words("free some room, give the disk more, or run `posthaste prune`");
    Some(match free {
        _ if free < FREE_BYTES_MIN => Finding::failure("disk", seen, mend()),
        _ if free < FREE_BYTES_FEW && free < all / 10 => Finding::warning("disk", seen, mend()),
        _ => Finding::ok("disk", seen),
    })
}

/// Whether other machines may have the folder too, as far as the list of mounts tells.
fn file_system(folder: &Path, mounts: &str) -> Option<Finding> {
    let of_line = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let place = before.split(' ').nth(4)?.replace("\\040", " ");
        let kind = after.split(' ').next()?.to_owned();
        folder.starts_with(&place).then_some((place.len(), kind))
    };
    // Of two at one place the later one covers the earlier.
    let (_, kind) = mounts.lines().filter_map(of_line).max_by_key(|(length, _)| *length)?;
    Some(if SHARED.contains(&kind.as_str()) {
        let seen =
            format!("the database lies on {kind}: two machines that open it, or a lost lock, break it");
        Finding::warning(
            "file system",
            seen,
            Mend::words("put it on a disk of this machine, or use Postgres"),
        )
    } else {
        Finding::ok("file system", kind)
    })
}

/// Whether what is answered waits for the disk.
fn synchronous(synchronous: Synchronous) -> Finding {
    match synchronous {
        Synchronous::Full => Finding::ok("store.synchronous", "full: what was answered is on the disk"),
        _ => Finding::warning(
            "store.synchronous",
            "normal: a loss of power may take back the last moments of what was published and answered",
            Mend::words("write synchronous = \"full\" under [store]"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use posthaste::findings::Verdict;

    use super::*;

    #[test]
    fn a_name_is_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("it's a key")), r"'it'\''s a key'");
    }

    #[test]
    fn a_network_file_system_is_known_by_the_mount_nearest_to_the_folder() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 0:31 / /srv/data rw - nfs4 server:/data rw\n\
                      41 40 0:32 / /srv/data/my\\040disk rw - xfs /dev/vdb rw\n";
        for (folder, verdict) in [
            ("/srv/data", Verdict::Warning),
            ("/srv/data/deep/er", Verdict::Warning),
            ("/srv/database", Verdict::Ok),
            ("/srv/data/my disk/x", Verdict::Ok),
        ] {
            let finding = file_system(Path::new(folder), mounts).expect(folder);
            assert_eq!(finding.verdict, verdict, "{folder}: {finding:?}");
        }
        assert_eq!(file_system(Path::new("/x"), ""), None);
    }
}
