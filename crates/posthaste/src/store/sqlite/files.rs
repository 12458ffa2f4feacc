//! Notices that a file which is open has lost its path.
//!
//! A file that was deleted or replaced stays open and takes every commit, and nobody finds it again: at the
//! next start all of that is gone. The same holds for the write-ahead log alone. So nothing is acknowledged
//! before its files were seen at their paths.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_core::{Error, Result};
use rusqlite::Connection;

/// A database file and its write-ahead log, as they were opened.
pub(super) struct Files {
    path: Arc<Path>,
    file: Option<FileId>,
    journal: PathBuf,
    /// `None` until there is one: an outbox table of another owner may be in a file without it.
    journal_id: Mutex<Option<FileId>>,
    is_reported: AtomicBool,
}

impl Files {
    /// The files of a connection that was opened at this path.
    pub(super) fn of(connection: &Connection, path: &Arc<Path>) -> Result<Self> {
        // SQLite's own name for the file: behind a link, the log lies beside the file and not beside the
        // link.
        let mut journal: OsString = connection.path().map_or_else(|| path.as_os_str().to_owned(), Into::into);
        journal.push("-wal");
        let journal = PathBuf::from(journal);
        // A connection that has read something has the log open, and no other process removes it.
        let has_read = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).is_ok();
        let journal_id = if has_read { find(&journal)? } else { None };
        Ok(Self {
            file: find(path)?,
            journal_id: Mutex::new(journal_id),
            path: Arc::clone(path),
            journal,
            is_reported: AtomicBool::new(false),
        })
    }

    /// The database file, as it was named.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The write-ahead log.
    pub(super) fn journal(&self) -> &Path {
        &self.journal
    }

    /// Fails if these are no longer the files that are found at their paths.
    pub(super) fn check(&self) -> Result<()> {
        let checked = self.look();
        match &checked {
            Ok(()) => self.is_reported.store(false, Ordering::Relaxed),
            Err(error) if !self.is_reported.swap(true, Ordering::Relaxed) => {
                tracing::error!(%error, "nothing is stored any more");
            }
            Err(_) => {}
        }
        checked
    }

    /// The same after a commit.
    pub(super) fn check_committed(&self) -> Result<()> {
        let mut known = self.journal_id();
        if known.is_none() {
            // The owner of the file may have changed how it is logged. A connection that has committed has the
            // log open.
            *known = find(&self.journal)?;
        }
        drop(known);
        self.check()
    }

    fn look(&self) -> Result<()> {
        let found = find(&self.path)?;
        if found != self.file {
            return Err(lost(&self.path, found));
        }
        let Some(known) = *self.journal_id() else { return Ok(()) };
        match find(&self.journal)? {
            Some(found) if found == known => Ok(()),
            found => Err(lost(&self.journal, found)),
        }
    }

    fn journal_id(&self) -> MutexGuard<'_, Option<FileId>> {
        self.journal_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(path: &Path) -> Result<Option<FileId>> {
    FileId::of(path).map_err(|error| {
        let message =
            format!("{} cannot be looked at; this user must be able to search its folder", path.display());
        Error::unavailable(message).because(error)
    })
}

fn lost(path: &Path, found: Option<FileId>) -> Error {
    let what = if found.is_some() { "replaced" } else { "deleted" };
    Error::unavailable(format!(
        "{} was {what} while this process had it open; nothing is stored until this process is restarted. \
         Stop it before you restore a database file",
        path.display()
    ))
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// Of the file that is at this path, links followed. `None` if there is none, or where the system has no
    /// such numbers: there, a file that is open cannot be deleted or replaced.
    pub(super) fn of(path: &Path) -> std::io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            #[cfg(unix)]
            Ok(about) => {
                use std::os::unix::fs::MetadataExt as _;
                Ok(Some(Self { device: about.dev(), inode: about.ino() }))
            }
            #[cfg(not(unix))]
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
