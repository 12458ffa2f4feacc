//! The file that holds an API key: who may have written it, and how it is read and written.
//!
//! The user who wrote the file knows the key in it. A server that adopted the file of another user would let
//! that user in, and a command that used it would trust that user's server. So a file must belong to this
//! user or to root. The file is opened once, and its owner and mode are read from the open file, so that it
//! cannot be replaced in between.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use secrecy::SecretString;

use super::ApiKey;

/// More than any key has.
const FILE_BYTES_MAX: u64 = 4 * 1024;

/// Why a key file is not used: a sentence that names the file and says what to do.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key in the file that `serve` writes at its first start; `None` if the file does not exist. It must be
/// a plain file that belongs to this user or to root and that others cannot read.
pub(crate) fn own(file: &Path) -> Result<Option<SecretString>, Refused> {
    // Does not follow a link, and does not wait for a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(file);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(Refused(format!("{} is a symbolic link; put the key itself there", file.display())));
        }
        Err(error) => return Err(unreadable(file, &error)),
    };
    let about = opened.metadata().map_err(|error| unreadable(file, &error))?;
    if !about.is_file() {
        return Err(Refused(format!("{} is not a plain file; remove it", file.display())));
    }
    let us = rustix::process::geteuid().as_raw();
    judge_owner(file, &about, us)?;
    // Root decides which users may read a file of root.
    let forbidden = if about.uid() == us { 0o077 } else { 0o022 };
    judge_mode(file, &about, forbidden)?;
    text(file, opened).map(Some)
}

/// The key in the file that `--key-file` names. It may be a link, a pipe, or a mounted secret that others can
/// read. It must belong to this user or to root, and others must not be able to write it.
pub(crate) fn named(file: &Path) -> Result<SecretString, Refused> {
    let opened = File::open(file).map_err(|error| unreadable(file, &error))?;
    let about = opened.metadata().map_err(|error| unreadable(file, &error))?;
    judge_owner(file, &about, rustix::process::geteuid().as_raw())?;
    if about.is_file() {
        judge_mode(file, &about, 0o022)?;
    }
    text(file, opened)
}

/// Writes a key into a new file that only its owner may read.
pub(super) fn write(file: &Path, key: &ApiKey) -> io::Result<()> {
    // create_new: an existing file or link is neither followed nor overwritten.
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let written = opened.write_all(format!("{}\n", key.expose()).as_bytes()).and_then(|()| opened.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(file);
    }
    written
}

fn judge_owner(file: &Path, about: &Metadata, us: u32) -> Result<(), Refused> {
    if is_trusted(about.uid(), us) {
        return Ok(());
    }
    Err(Refused(format!(
        "{} belongs to user {}, who is neither this user ({us}) nor root, and who knows the key; remove the file, \
         or run this as its owner",
        file.display(),
        about.uid()
    )))
}

fn judge_mode(file: &Path, about: &Metadata, forbidden: u32) -> Result<(), Refused> {
    let mode = about.mode() & 0o777;
    if mode & forbidden == 0 {
        return Ok(());
    }
    let others = if mode & forbidden & 0o022 != 0 { "write" } else { "read" };
    Err(Refused(format!(
        "others may {others} {} (mode {mode:o}), so they may know the key; make a new key, or close the file with \
         chmod 600 if no other user has seen it",
        file.display()
    )))
}

/// Whether a file of this owner may be trusted by this user.
pub(crate) fn is_trusted(owner: u32, us: u32) -> bool {
    owner == us || owner == 0
}

fn text(file: &Path, opened: File) -> Result<SecretString, Refused> {
    let mut text = String::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(file, &error))?;
    if text.trim().is_empty() || text.len() as u64 > FILE_BYTES_MAX {
        return Err(Refused(format!("{} holds no API key", file.display())));
    }
    Ok(SecretString::from(text.trim()))
}

fn unreadable(file: &Path, error: &io::Error) -> Refused {
    Refused(format!("{} cannot be read: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use secrecy::ExposeSecret as _;

    use super::*;

    /// A user that runs no test.
    const STRANGER: u32 = 65_534;

    fn with_mode(file: &Path, mode: u32) {
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_files_of_this_user_or_root_are_trusted() {
        for (owner, us, is) in [(7, 7, true), (0, 7, true), (0, 0, true), (7, 0, false), (8, 7, false)] {
            assert_eq!(is_trusted(owner, us), is, "{owner} {us}");
        }
    }

    #[test]
    fn a_key_file_of_another_user_is_refused_with_the_reason() {
        let trial = "keys::file::a_key_file_of_another_user_is_refused_with_the_reason";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.key");
        fs::write(&file, "ph_theirs\n").unwrap();
        with_mode(&file, 0o600);
        if chown(&file, Some(STRANGER), None).is_err() {
            // Not eprintln!: the harness keeps that of a passing test to itself.
            writeln!(io::stderr(), "skipped: {trial}: only root can give a file away").unwrap();
            return;
        }
        for refused in [own(&file).unwrap_err(), named(&file).unwrap_err()] {
            let told = refused.to_string();
            assert!(told.contains("posthaste.key") && told.contains("65534"), "{told}");
            assert!(!told.contains("ph_theirs"), "{told}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused_unless_it_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("posthaste.key");
        fs::write(&file, "ph_ours\n").unwrap();
        for (mode, is_own, is_named) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o640, false, true),
            (0o604, false, true),
            (0o620, false, false),
            (0o602, false, false),
        ] {
            with_mode(&file, mode);
            let key = |key: SecretString| assert_eq!(key.expose_secret(), "ph_ours");
            assert_eq!(own(&file).map(|text| text.map(key)).is_ok(), is_own, "{mode:o}");
            assert_eq!(named(&file).map(key).is_ok(), is_named, "{mode:o}");
        }
    }

    #[test]
    fn a_link_a_pipe_and_a_folder_are_not_the_file_that_a_start_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "ph_ours\n").unwrap();
        with_mode(&at("real"), 0o600);
        symlink(at("real"), at("link")).unwrap();
        symlink(at("nowhere"), at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for name in ["link", "dangling", "folder", "pipe"] {
            assert!(own(&at(name)).is_err(), "{name}");
        }
        assert_eq!(named(&at("link")).unwrap().expose_secret(), "ph_ours", "who names a link means it");
        assert!(own(&at("missing")).unwrap().is_none());
        for (name, text) in [("empty", String::new()), ("long", "x".repeat(5_000))] {
            fs::write(at(name), text).unwrap();
            with_mode(&at(name), 0o600);
            assert!(own(&at(name)).unwrap_err().to_string().contains("holds no API key"), "{name}");
        }
    }
}
