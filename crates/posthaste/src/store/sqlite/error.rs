//! What SQLite says, in our words: who must act, which file, and what to do.

use std::path::Path;

use posthaste_core::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Translates an error of SQLite about this file.
pub(super) fn explain(error: rusqlite::Error, path: &Path) -> Error {
    let (kind, message) = meaning(&error, path);
    Error::new(kind, message).because(error)
}

fn meaning(error: &rusqlite::Error, path: &Path) -> (ErrorKind, String) {
    let file = path.display();
    let Some(code) = error.sqlite_error_code() else {
        return (ErrorKind::Corrupt, format!("{file} holds something that cannot be read"));
    };
    match code {
        _ if error.sqlite_error().is_some_and(is_no_room) => (
            ErrorKind::Unavailable,
            format!("the disk of {file} is full; free some space, nothing was stored"),
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            ErrorKind::Unavailable,
            format!("{file} is locked by another process for too long; end its long write transaction"),
        ),
        ErrorCode::SystemIoFailure => {
            (ErrorKind::Unavailable, format!("{file} cannot be read or written; look at its disk"))
        }
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted | ErrorCode::FileLockingProtocolFailed => {
            (ErrorKind::Unavailable, format!("{file} cannot be used at the moment"))
        }
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => (
            ErrorKind::Config,
            format!(
                "{file} is read-only; give this user the right to write it and its folder, or open it with ?mode=ro"
            ),
        ),
        ErrorCode::CannotOpen => (
            ErrorKind::Config,
            format!("{file} cannot be opened; its folder must exist, and this user must be able to write it"),
        ),
        ErrorCode::NotADatabase => {
            (ErrorKind::Config, format!("{file} is not a SQLite database; name another file"))
        }
        ErrorCode::DatabaseCorrupt => {
            (ErrorKind::Corrupt, format!("{file} is damaged; restore it from a backup"))
        }
        ErrorCode::TooBig => (ErrorKind::TooLarge, "a value is larger than SQLite takes".to_owned()),
        ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => {
            (ErrorKind::Rejected, format!("{file} refuses a value"))
        }
        _ => (
            ErrorKind::Config,
            format!(
                "the tables in {file} are missing or not as expected; run `posthaste migrate up`, or restore a backup if somebody changed them"
            ),
        ),
    }
}

/// Also where not the file itself but the small one beside it, which readers and writers share, found no room.
fn is_no_room(error: &rusqlite::ffi::Error) -> bool {
    error.code == ErrorCode::DiskFull || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
}

/// The same failure for everybody who shared a commit.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    kind: ErrorKind,
    message: String,
}

impl Shared {
    pub(super) fn new(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }

    pub(super) fn to_error(&self) -> Error {
        // With a cause, as the first one had: its words are SQLite's, and not for everybody.
        Error::new(self.kind, "the writes that were committed together failed")
            .because(std::io::Error::other(self.message.clone()))
    }
}
