//! The log engine's statements for Postgres.

mod functions;

use crate::prefix::TablePrefix;

pub use functions::{postgres_functions, postgres_functions_exist};

/// The version of the schema that this release brings.
pub const POSTGRES_SCHEMA: u32 = 1;
/// The oldest release's schema version that may work on tables of [`POSTGRES_SCHEMA`].
pub const POSTGRES_COMPATIBLE_FROM: u32 = 1;

const MIGRATIONS: &[(u32, &str)] = &[(1, include_str!("migrations/1.sql"))];

const _: () =
    assert!(MIGRATIONS[MIGRATIONS.len() - 1].0 == POSTGRES_SCHEMA, "the last migration makes the schema");

/// Every migration with the version it leads to, in order.
pub fn postgres_migrations(prefix: &TablePrefix) -> Vec<(u32, String)> {
    MIGRATIONS.iter().map(|&(version, text)| (version, prefix.apply(text))).collect()
}

/// The statements that make all tables, for those who want to run them by hand.
pub fn postgres_ddl(prefix: &TablePrefix) -> String {
    let mut texts: Vec<String> = postgres_migrations(prefix).into_iter().map(|(_, text)| text).collect();
    texts.push(postgres_functions(prefix));
    texts.join("\n")
}

/// The statements that make the four roles and give them the rights that each needs on tables with this prefix.
pub fn postgres_roles(prefix: &TablePrefix) -> String {
    prefix.apply(include_str!("roles.sql"))
}

/// Makes a struct with one text per statement; a statement's file has its field's name.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Every statement of the log engine on Postgres, with the table prefix in its place.
        #[derive(Debug)]
        pub struct PostgresSql {
            $($(#[$doc])* pub $name: String,)*
        }

        impl PostgresSql {
            /// The statements for tables with this prefix.
            pub fn new(prefix: &TablePrefix) -> Self {
                Self { $($name: prefix.apply(include_str!(concat!(stringify!($name), ".sql"))),)* }
            }
        }
    };
}

statements! {
    /// Whether there are any tables of ours.
    meta_exists,
    /// The schema's version, and the oldest version of a binary that may use it.
    meta_get,
    /// Records a migration.
    meta_set,
    /// Keeps two migrations from running at once.
    migrate_lock,
    /// Remembers the epoch of a lane that is removed.
    epoch_floor_raise,
    /// What reading without gaps relies on.
    server_check,
    /// The identity of these tables.
    identity,
    /// Settings on which durability and cleaning rest.
    examine_settings,
    /// How many connections there are and may be.
    examine_connections,
    /// What holds vacuum back.
    examine_holders,
    /// Whether tables are vacuumed.
    examine_vacuum,
    /// Says of every lane that its database was moved.
    lanes_moved,
    /// Keeps everybody out while ids are changed.
    rebase_lock,
    /// How many events a rebase hands out again.
    rebase_count,
    /// Gives every event an id of this server.
    rebase_events,
    /// Keeps numbers from being given again.
    rebase_sequence,
    /// Begins the chain of ticks anew.
    rebase_ticks,
    /// Puts every lane at the chain's beginning.
    rebase_lanes,
    /// Records where the database is now.
    rebase_done,
    /// Looks for something new and notes what is visible.
    tick,
    /// Says which transactions have ended.
    peek,
    /// The newest tick.
    tick_newest,
    /// Ticks by their numbers.
    tick_get,
    /// Keeps those who remove events and those who come to need them apart.
    retention_lock,
    /// Removes ticks that no lane can need.
    ticks_prune,
    /// Appends events, unless their identity exists.
    event_insert,
    /// The event with this identity.
    event_same,
    /// Events with their payloads.
    event_get,
    /// Events with the lengths of their payloads.
    event_look,
    /// The first page between two ticks: what committed late, then what is new.
    window_begin,
    /// A page of what is new between two ticks.
    window_page,
    /// Which events of a page are parked.
    parked_among,
    /// A lane's place.
    lane_get,
    /// A lane as a claim sees it.
    lane_claim,
    /// Makes a lane.
    lane_insert,
    /// Takes a lane with a new epoch, if it is free.
    lane_take,
    /// Who defines a lane another way.
    lane_clash,
    /// Promises a lane to a relay that should have it.
    lane_want,
    /// Keeps two relays from counting lanes at once.
    share_lock,
    /// A relay asks for a lane.
    relay_seen,
    /// Forgets relays that ended long ago.
    relays_forget,
    /// Moves a lane's place and renews or ends its lease.
    lane_settle,
    /// Changes a lane's totals.
    lane_totals,
    /// Locks a lane's row.
    lane_lock,
    /// Changes a lane's state.
    lane_state,
    /// Puts a lane somewhere else and ends its lease.
    lane_seek,
    /// What a lane has passed or not of a stretch of the log, by topic.
    stretch_count,
    /// Moves a lane past what is too old.
    lane_skip,
    /// Begins a lane's removal.
    lane_removing,
    /// Ends a lane's removal.
    lane_delete,
    /// Every lane with its totals and its place.
    lanes_all,
    /// What waits in every lane.
    lanes_waiting,
    /// Parked events whose time has come.
    due,
    /// What waits behind a parked event of a key, in order.
    followers,
    /// Where each key's first parked event is.
    keys_first,
    /// Parks events of the log.
    park,
    /// Changes the states of parked events.
    park_again,
    /// Removes parked events that were delivered, or remembers those beyond the place as done.
    unpark,
    /// Forgets what is done and passed.
    done_forget,
    /// Forgets whatever is done and passed, at an acquisition.
    done_forget_passed,
    /// How much is done beyond a number.
    done_count,
    /// Forgets all that is done in a lane.
    done_forget_all,
    /// Makes each key's next event due if nothing holds the key.
    promote,
    /// The keys behind which something waits.
    keys_behind,
    /// Makes everything due that waits behind a key.
    promote_unordered,
    /// Begins an idempotency record, unless somebody else has it.
    dedup_begin,
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
    /// Where the log begins and ends.
    log_ends,
    /// The first event at or after a number, and when it was taken in.
    log_at_or_after,
    /// Walks the log towards its end.
    scan_log_up,
    /// Walks the log towards its beginning.
    scan_log_down,
    /// Walks what is parked towards the log's end.
    scan_parked_up,
    /// Walks what is parked towards the log's beginning.
    scan_parked_down,
    /// Walks what is parked in one state towards the log's end.
    scan_ended_up,
    /// Walks what is parked in one state towards the log's beginning.
    scan_ended_down,
    /// Walks events with these ids towards the log's end.
    scan_ids_up,
    /// Walks events with these ids towards the log's beginning.
    scan_ids_down,
    /// How the lanes that parked events see them.
    views,
    /// Makes dead events due.
    redrive,
    /// Gives parked events up.
    discard,
    /// Makes parked events dead.
    bury,
    /// Sets when parked events are due.
    schedule,
    /// Overwrites payloads.
    erase,
    /// How much a lane has parked.
    lane_parked_count,
    /// Removes a part of what a lane has parked.
    lane_parked_delete,
    /// What a lane has had dead or discarded for long, and what of it may go.
    prune_over,
    /// Waits for all lanes that park some events.
    over_lock,
    /// Removes what all lanes have of events that are over in all of them.
    over_delete,
    /// Removes old events of a stretch that nobody needs.
    prune_events,
    /// Removes events that nobody needs.
    event_forget,
    /// How many events of a stretch retention would remove.
    prune_count,
    /// What the database's clock says.
    now,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let prefix: TablePrefix = "shop_".parse().unwrap();
        let all = format!("{:?}{}", PostgresSql::new(&prefix), postgres_ddl(&prefix));
        assert!(!all.contains("{prefix}"));
        assert!(all.contains("shop_events") && !all.contains("posthaste_"));
    }
}
