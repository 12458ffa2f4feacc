//! What the table engine counts; stores themselves know no metrics.

use metrics::counter;

use crate::telemetry::{label, metric};

/// So many rows were no longer this relay's when their outcome came: somebody else has them, and nothing was recorded.
pub fn count_lost(lane: &str, rows: u64) {
    counter!(metric::ROW_LEASES_LOST_TOTAL, label::LANE => lane.to_owned()).increment(rows);
}

/// So many leases of rows had ended and were taken back; so many of them died by it.
pub fn count_swept(lane: &str, rows: u64, dead: u64) {
    let swept = |outcome: &'static str| counter!(metric::SWEPT_TOTAL, label::LANE => lane.to_owned(), label::OUTCOME => outcome);
    swept("pending").increment(rows - dead);
    swept("dead").increment(dead);
}

/// So many rows could not be understood and were set aside as dead.
pub fn count_set_aside(lane: &str, rows: u64) {
    counter!(metric::SET_ASIDE_TOTAL, label::LANE => lane.to_owned()).increment(rows);
}
