//! The raw limit: reading the rows of the log in order with the driver alone, and doing nothing with them.

use std::time::Duration;
#[cfg(feature = "sqlite")]
use std::time::Instant;

use posthaste::prefix::TablePrefix;
use posthaste_terminal::exit::Failure;

/// Rows per statement, as many as a relay's window.
#[cfg(feature = "sqlite")]
const PAGE: i64 = 1_000;

/// Reads every row of the log once; answers how many, and how long it took.
#[cfg(feature = "sqlite")]
pub(super) fn read_all(path: &str, prefix: &TablePrefix) -> Result<(u64, Duration), Failure> {
    scan(path, prefix).map_err(|error| Failure::other(format!("read the log for comparison: {error}")))
}

#[cfg(feature = "sqlite")]
fn scan(path: &str, prefix: &TablePrefix) -> rusqlite::Result<(u64, Duration)> {
    let connection = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let sql = prefix.apply(
        "SELECT seq, source, event_id, event_type, topic, key, subject, schema_version, content_type, headers, \
         payload, occurred_at, available_at, expires_at, created_at FROM {prefix}events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
    );
    let start = Instant::now();
    let mut page = connection.prepare(&sql)?;
    let (mut after, mut rows, mut bytes) = (0_i64, 0_u64, 0_usize);
    loop {
        let before = rows;
        let mut cursor = page.query([after, PAGE])?;
        while let Some(row) = cursor.next()? {
            after = row.get(0)?;
            rows += 1;
            // Copied, as any reader must: the bytes belong to SQLite only until the next row.
            for column in [1, 2, 3, 5, 8, 9] {
                bytes += row.get::<_, Option<String>>(column)?.map_or(0, |text| text.len());
            }
            bytes += row
                .get_ref(10)?
                .as_bytes_or_null()?
                .map_or(0, |payload| std::hint::black_box(payload.to_vec()).len());
        }
        if rows == before {
            std::hint::black_box(bytes);
            return Ok((rows, start.elapsed()));
        }
    }
}

#[cfg(not(feature = "sqlite"))]
pub(super) fn read_all(_path: &str, _prefix: &TablePrefix) -> Result<(u64, Duration), Failure> {
    Err(Failure::config("this build has no SQLite; build it with the feature `sqlite`"))
}
