//! Opening connections to the file, each set up for its task.

use std::io::ErrorKind;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use posthaste_core::{Error, Result};
use rusqlite::ffi::SQLITE_READONLY;
use rusqlite::{Connection, OpenFlags};

use super::address::{Address, Mode};
use super::checkpoint::JOURNAL_BYTES_MAX;
use super::error::explain;
use crate::store::Synchronous;

/// For a new file; one that exists keeps what it has. Of events of 1 KiB seven fit on such a page, and three on the usual
/// one of 4 KiB: reading and appending many cost a fifth less, and appending one costs the same.
const PAGE_BYTES: u32 = 8192;
/// A checkpoint after so many pages: with fewer the same pages are written to the file again and again.
const CHECKPOINT_PAGES: u32 = 2000;
/// How many statements stay prepared; more than there are.
const STATEMENTS_MAX: usize = 96;

const WRITER_CACHE_KIB: u32 = 8 * 1024;
const READER_CACHE_KIB: u32 = 4 * 1024;

/// Makes the file, readable by its owner only, if it may be made and is not there.
///
/// A file that is there is left to SQLite. To close any descriptor of it would release the locks that other
/// connections of this process have on it (POSIX locks are the process's). Then the next process that closes
/// the file removes its write-ahead log under them, and everything that they commit afterwards is gone.
pub(super) fn prepare_file(address: &Address) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let found = std::fs::metadata(&address.path);
    if address.mode == Mode::Make && found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let mut options = std::fs::OpenOptions::new();
        // Not `create_new`: another process may make it at the same time.
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        return options.open(&address.path).map(drop).map_err(|error| cannot_write(address, error));
    }
    match found {
        Ok(found) if found.is_dir() => Err(cannot_write(address, ErrorKind::IsADirectory.into())),
        found => found.map(drop).map_err(|error| cannot_write(address, error)),
    }
}

/// A connection that may write; a file that cannot be written is refused with the reason.
pub(super) fn connect(address: &Address, busy: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(&address.path, flags)?;
        connection.busy_timeout(busy)?;
        // SQLite reads what it may not write.
        let is_readonly = connection.is_readonly("main")?;
        Ok((connection, is_readonly))
    };
    let why = match open() {
        Ok((connection, false)) => return Ok(connection),
        Ok((_, true)) => rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(SQLITE_READONLY), None),
        Err(error) => error,
    };
    // It says better than SQLite what is wrong; and as it fails too, it opens no descriptor.
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(&address.path);
    Err(match opened {
        Err(error) => cannot_write(address, error),
        Ok(_) => explain(why, &address.path),
    })
}

fn cannot_write(address: &Address, error: std::io::Error) -> Error {
    use posthaste_core::ErrorKind;
    use std::io::ErrorKind as Io;
    let file = address.path.display();
    let (kind, message) = match error.kind() {
        Io::NotFound if address.mode == Mode::Make => {
            (ErrorKind::Config, format!("{file} cannot be made: its folder does not exist; make it first"))
        }
        Io::NotFound => (ErrorKind::Config, format!("{file} does not exist, and mode=rw does not make it")),
        Io::PermissionDenied => {
            (ErrorKind::Config, format!("{file} cannot be written: this user may not write it or its folder"))
        }
        Io::ReadOnlyFilesystem => (
            ErrorKind::Config,
            format!(
                "{file} cannot be written: its disk is mounted read-only; mount it otherwise or name another file"
            ),
        ),
        Io::StorageFull => {
            (ErrorKind::Unavailable, format!("{file} cannot be made: its disk is full; free some space"))
        }
        Io::IsADirectory => (ErrorKind::Config, format!("{file} is a folder; name a file in it")),
        _ => (ErrorKind::Config, format!("{file} cannot be written")),
    };
    Error::new(kind, message).because(error)
}

/// The connection that writes.
pub(super) fn writer(address: &Address, synchronous: Synchronous, busy: Duration) -> Result<Connection> {
    let connection = connect(address, busy)?;
    let level = match synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    let set_up = || {
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        write_ahead(&connection, busy)?;
        connection.pragma_update(None, "synchronous", level)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_MAX as i64)?;
        cache(&connection, WRITER_CACHE_KIB)
    };
    set_up().map_err(|error| explain(error, &address.path))?;
    Ok(connection)
}

/// A connection that reads.
pub(super) fn reader(address: &Address, busy: Duration) -> Result<Connection> {
    let connection = match address.mode {
        Mode::Look => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(&address.path, flags)
                .map_err(|error| explain(error, &address.path))?
        }
        Mode::Write | Mode::Make => connect(address, busy)?,
    };
    let set_up = || {
        connection.busy_timeout(busy)?;
        connection.pragma_update(None, "query_only", true)?;
        cache(&connection, READER_CACHE_KIB)
    };
    set_up().map_err(|error| explain(error, &address.path))?;
    Ok(connection)
}

fn cache(connection: &Connection, kib: u32) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Negative: KiB, whatever the page size.
    connection.pragma_update(None, "cache_size", -i64::from(kib))
}

/// Changes the file to write-ahead logging. While another process does the same, SQLite answers "busy" at once, without
/// the patience that was set; so we bring our own.
fn write_ahead(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    let deadline = Instant::now() + busy;
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        let is_busy = |error: &rusqlite::Error| {
            error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) && Instant::now() < deadline
        };
        match mode {
            Err(error) if is_busy(&error) => std::thread::sleep(Duration::from_millis(5)),
            // A file system without shared memory keeps its old journal: slower, and as safe.
            other => return other.map(drop),
        }
    }
}
