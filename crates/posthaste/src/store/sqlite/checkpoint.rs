//! Keeps the write-ahead log of the file short.
//!
//! SQLite copies the log into the file by itself, but begins it anew only when it finds no reader in it. Busy lanes and
//! operators leave no such moment, and the log would grow as long as they are busy. So when it has become long, we ask
//! for that moment: readers that come meanwhile wait for nothing, those that are there end soon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

/// From this length on the log is begun anew; also what SQLite cuts it back to.
pub(super) const JOURNAL_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long everybody waits for the readers that are in the log.
const PATIENCE: Duration = Duration::from_millis(100);

/// Watches the log's length.
pub(super) struct Checkpoint {
    journal: PathBuf,
    /// What a writer otherwise waits for another process.
    busy_timeout: Duration,
    /// Begin anew when the log is longer than this.
    longer_than: u64,
}

impl Checkpoint {
    pub(super) fn new(journal: &Path, busy_timeout: Duration) -> Self {
        Self { journal: journal.to_owned(), busy_timeout, longer_than: JOURNAL_BYTES_MAX }
    }

    /// Called after every commit.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        let length = std::fs::metadata(&self.journal).map_or(0, |journal| journal.len());
        if length <= self.longer_than {
            return;
        }
        // After a reader that did not end in time: not at once again, but when the log has grown by as much once more.
        let begun_anew = self.begin_anew(connection).unwrap_or(false);
        self.longer_than = if begun_anew { JOURNAL_BYTES_MAX } else { length + JOURNAL_BYTES_MAX };
    }

    fn begin_anew(&self, connection: &Connection) -> rusqlite::Result<bool> {
        connection.busy_timeout(PATIENCE)?;
        let was_busy =
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        connection.busy_timeout(self.busy_timeout)?;
        Ok(!was_busy?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_begins_anew_as_soon_as_no_reader_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE n (n)").unwrap();
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM n").unwrap();
        writer.execute_batch("INSERT INTO n VALUES (zeroblob(100000))").unwrap();

        let journal = folder.path().join("store.db-wal");
        let mut checkpoint = Checkpoint { longer_than: 1_000, ..Checkpoint::new(&journal, Duration::ZERO) };
        let length = || std::fs::metadata(&journal).unwrap().len();
        checkpoint.after_commit(&writer);
        assert!(length() > 100_000, "a reader is in it");
        assert!(checkpoint.longer_than > JOURNAL_BYTES_MAX, "not at once again");
        reader.execute_batch("COMMIT").unwrap();
        checkpoint.longer_than = 1_000;
        checkpoint.after_commit(&writer);
        assert_eq!(length(), 0);
        assert_eq!(checkpoint.longer_than, JOURNAL_BYTES_MAX);
    }
}
