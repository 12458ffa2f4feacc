//! The log engine's statements on SQLite.

use crate::prefix::TablePrefix;

/// The schema's version that this binary brings.
pub const SQLITE_SCHEMA: u32 = 1;
/// The oldest version of a binary that may work on that schema.
pub const SQLITE_COMPATIBLE_FROM: u32 = 1;

const MIGRATIONS: [(u32, &str); 1] = [(1, include_str!("migrations/1.sql"))];

const _: () =
    assert!(MIGRATIONS[MIGRATIONS.len() - 1].0 == SQLITE_SCHEMA, "the last migration makes the schema");

/// Every migration with the version it leads to, in order.
pub fn sqlite_migrations(prefix: &TablePrefix) -> Vec<(u32, String)> {
    MIGRATIONS.iter().map(|&(version, text)| (version, prefix.apply(text))).collect()
}

/// The statements that make all tables, for those who want to run them by hand.
pub fn sqlite_ddl(prefix: &TablePrefix) -> String {
    sqlite_migrations(prefix).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n")
}

/// Makes a struct with one text per statement; a statement's file has its field's name.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Every statement of the log engine on SQLite, with the table prefix in its place.
        #[derive(Debug)]
        pub struct SqliteSql {
            $($(#[$doc])* pub $name: String,)*
        }

        impl SqliteSql {
            /// The statements for tables with this prefix.
            pub fn new(prefix: &TablePrefix) -> Self {
                Self { $($name: prefix.apply(include_str!(concat!(stringify!($name), ".sql"))),)* }
            }
        }
    };
}

statements! {
    /// The schema's version, and the oldest version of a binary that may use it.
    meta_get,
    /// Whether there are any tables of ours.
    meta_exists,
    /// Records a migration.
    meta_set,
    /// Where the epochs of a new lane begin.
    epoch_floor_get,
    /// Remembers the epoch of a lane that is removed.
    epoch_floor_raise,
    /// Appends an event, unless its identity exists.
    event_insert,
    /// The event with this identity.
    event_same,
    /// One event with its payload.
    event_get,
    /// One event with the length of its payload.
    event_look,
    /// Where events with this id are.
    event_seqs,
    /// The log from a place on.
    log_read,
    /// Whether the log goes on after a number.
    log_beyond,
    /// The oldest event's number.
    log_first,
    /// The highest number ever given.
    log_last,
    /// The first event at or after a number, and when it was taken in.
    log_at_or_after,
    /// A lane's row, as an acquisition and a claim see it.
    lane_get,
    /// Makes a lane.
    lane_insert,
    /// Takes a lane with a new epoch.
    lane_take,
    /// Promises a lane to a relay with fewer lanes.
    lane_want,
    /// A lane's row, if this lease still holds it.
    lane_standing,
    /// Moves a lane's place, changes its totals and renews or ends its lease.
    lane_settle,
    /// Changes a lane's totals.
    lane_totals,
    /// Changes a lane's state.
    lane_state,
    /// Puts a lane somewhere else and ends its lease.
    lane_seek,
    /// What a lane has not parked of a stretch of the log, by topic.
    stretch_count,
    /// Says why a lane is as it is.
    lane_reason,
    /// Begins a lane's removal.
    lane_removing,
    /// Ends a lane's removal.
    lane_delete,
    /// Every lane with its totals.
    lanes_all,
    /// What waits in a lane.
    lane_waiting,
    /// The place that every lane has passed.
    lanes_floor,
    /// Parked events whose time has come.
    due,
    /// One parked event.
    parked_get,
    /// What waits behind a parked event of a key, in order.
    followers,
    /// Where a key's first parked event is.
    key_first,
    /// Where a key's first dead event is.
    key_first_dead,
    /// Where a key's next dead event is.
    key_dead_after,
    /// What a lane has parked beyond a place.
    parked_from,
    /// Parks an event of the log.
    park,
    /// Changes a parked event's state.
    park_again,
    /// Removes a parked event that was delivered.
    unpark,
    /// Remembers that a parked event beyond the place was delivered.
    done_keep,
    /// Forgets what was delivered from its row up to a place.
    done_forget,
    /// How much is remembered as delivered beyond a place.
    done_count,
    /// Makes a key's next event due if nothing holds the key.
    promote,
    /// The same for every key of a lane.
    promote_all,
    /// Makes everything due that waits behind a key.
    promote_unordered,
    /// Walks the log towards its beginning.
    scan_log_down,
    /// Walks the log towards its end.
    scan_log_up,
    /// Walks what a lane has parked towards the log's beginning.
    scan_parked_down,
    /// Walks what a lane has parked towards the log's end.
    scan_parked_up,
    /// Walks what any lane has parked towards the log's beginning.
    scan_parked_any_down,
    /// Walks what any lane has parked towards the log's end.
    scan_parked_any_up,
    /// Walks what a lane has parked in one state towards the log's beginning.
    scan_ended_down,
    /// Walks what a lane has parked in one state towards the log's end.
    scan_ended_up,
    /// One event as the walks see it.
    scan_one,
    /// How the lanes that parked an event see it.
    views,
    /// Makes a dead event due.
    redrive,
    /// Gives a parked event up.
    discard,
    /// Makes a parked event dead.
    bury,
    /// Sets when a parked event is due.
    schedule,
    /// Overwrites a payload.
    erase,
    /// How much a lane has parked.
    lane_parked_count,
    /// Removes a part of what a lane has parked.
    lane_parked_delete,
    /// What a lane has had dead or discarded for long, and what of it may go.
    prune_over,
    /// Removes what all lanes have of an event.
    over_delete,
    /// How many events of a stretch retention would remove.
    prune_count,
    /// Removes an event that nobody needs.
    event_forget,
    /// Which events retention removes next.
    prune_step,
    /// Removes an event.
    event_delete,
    /// Begins an idempotency record, unless somebody else has it.
    dedup_begin,
    /// The state of an idempotency record, and since when.
    dedup_get,
    /// Ends an idempotency record.
    dedup_finish,
    /// Removes old idempotency records.
    dedup_prune,
    /// How many idempotency records are old.
    dedup_count,
    /// Removes old rows of the inbox.
    inbox_prune,
    /// How many rows of the inbox are old.
    inbox_count,
    /// What events died of.
    dead_codes,
    /// Records what an operator did.
    audit_insert,
    /// Walks what was done, the newest first.
    audit_down,
    /// Adds an API key by its hash.
    api_key_insert,
    /// The name of the API key with this hash.
    api_key_name,
    /// How many API keys there are.
    api_key_count,
    /// The hashes of the newest API keys.
    api_key_hashes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let prefix: TablePrefix = "shop_".parse().unwrap();
        let all = format!("{:?}{}", SqliteSql::new(&prefix), sqlite_ddl(&prefix));
        assert!(!all.contains("{prefix}"));
        assert!(all.contains("shop_events") && !all.contains("posthaste_"));
    }
}
