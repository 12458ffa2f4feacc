//! The statement that makes transactions of one key wait for each other.

use std::collections::BTreeSet;

use posthaste_sql::{Statement, Value};

use crate::prefix::TablePrefix;

/// Takes the lock of each key's bucket, the one that the table computes too, in the order of the buckets: at most 256
/// locks, however many keys, and no circle between two batches. They end with the transaction.
const TEXT: &str = "SELECT pg_advisory_xact_lock(hashtext('{prefix}order'), bucket) FROM \
     (SELECT DISTINCT (hashtextextended(key, 0) & 255)::integer AS bucket \
      FROM jsonb_array_elements_text($1::text::jsonb) AS keys (key) ORDER BY 1) AS buckets";

pub(super) fn text(prefix: &TablePrefix) -> String {
    prefix.apply(TEXT)
}

/// The statement for these keys; `None`: there is none.
pub(super) fn statement(text: &str, keys: BTreeSet<&str>) -> Option<Statement> {
    if keys.is_empty() {
        return None;
    }
    let keys = serde_json::to_string(&keys).expect("a set of texts is JSON");
    Some(Statement::new(text.to_owned(), vec![Value::Text(Some(keys))]))
}
