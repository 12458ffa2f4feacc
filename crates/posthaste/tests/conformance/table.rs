//! The table engine under the laws: the table that they run on, and which of them are about a log and not about a table.

use posthaste::store::TableOptions;
use posthaste::table::{Column, Profile};

/// A table with a column for everything, so that nothing of an event is lost.
pub(crate) const TABLE: &str = "law_outbox";

pub(crate) fn options() -> TableOptions {
    let mut profile =
        Profile::named("custom").expect("it is one of the names").on(TABLE.parse().expect("a name"));
    for (column, name) in [
        (Column::Topic, "topic"),
        (Column::Key, "partition_key"),
        (Column::Headers, "headers"),
        (Column::Source, "source"),
        (Column::Subject, "subject"),
        (Column::ContentType, "content_type"),
        (Column::Version, "version"),
        (Column::OccurredAt, "occurred_at"),
        (Column::DeliveredAt, "delivered_at"),
        (Column::UpdatedAt, "updated_at"),
        (Column::LastError, "last_error"),
        (Column::Sequence, "sequence"),
    ] {
        profile = profile.with(column, name.parse().expect("a name"));
    }
    TableOptions::new(profile)
}

const ONE_LANE: &str =
    "a row has one state: a table has one lane, of all its rows, and a command that names none means it";
const SHARED: &str = "relays share the rows of a table: nobody owns its lane";
const NO_PLACE: &str = "rows carry their state: there is no log and no place in it";
const COUNTED: &str = "a row's lease that ends counts as an attempt, as the open-outbox specification says";
const NO_STATE: &str =
    "an outbox table has no state for that: pending, delivering, delivered and dead are all";
const NO_COLUMN: &str =
    "an outbox table has no column for that: when it first failed, when it expires, that it was replayed";
const BY_ID: &str = "the id alone names a row, whatever its source is";
const BEHIND: &str = "a row that waits behind its key is pending as a new one is, and counts as unread";
const COUNTED_ANEW: &str = "totals are counted from the rows that are there";
const NOT_OURS: &str = "a table of somebody else has no place for a pause, a seek, a removed lane or an erased payload: it takes no such command";
const IN_HAND: &str =
    "what a relay has in hand is its own until it answers: an operator buries only what nobody has";
const IN_TIME_ORDER: &str = "rows are claimed in the order of their time, whether they failed before or not";

const BOOKS: &str = "it gives the commands of a log (seek, pause, erase) and keeps its books: totals that grow with every replay and outlive a \
     prune, where those of a table are counted from its rows; X8 of `posthaste conformance` gives the verbs that a table has at random";

/// Why a law is not about a table.
pub(crate) fn exempt(law: &str) -> Option<&'static str> {
    Some(match law {
        "a_lane_sees_only_its_topics"
        | "one_pass_delivers_what_comes_after_events_of_other_lanes"
        | "lanes_do_not_see_one_another"
        | "a_lane_that_wants_nothing_of_the_log_still_moves_on"
        | "two_relays_share_lanes_and_no_event_comes_twice"
        | "find_says_how_every_lane_sees_an_event"
        | "dead_events_are_counted_by_lane_and_code"
        | "prune_touches_only_what_every_lane_has_passed"
        | "a_dead_event_stays_dead_while_another_lane_needs_it"
        | "a_command_on_a_missing_lane_says_so"
        | "two_relays_end_up_with_half_of_the_lanes_each"
        | "a_panic_in_a_target_stops_neither_its_lane_nor_others"
        | "two_relays_deliver_everything_once"
        | "five_relays_deliver_everything_once"
        | "a_dropped_settle_leaves_nothing_half_done"
        | "a_settle_that_stands_still_does_not_keep_its_lane"
        | "lanes_come_in_pages_ordered_by_name" => ONE_LANE,
        "nobody_takes_a_held_lane_before_its_lease_ends_and_then_somebody_does"
        | "settling_renews_the_lease"
        | "an_owner_that_comes_back_takes_its_lane_and_ends_its_earlier_lease"
        | "a_relay_with_two_lanes_more_hands_one_over"
        | "a_promise_ends_with_the_length_of_a_lease"
        | "stumbles_count_acquisitions_without_progress"
        | "crashes_of_an_idle_or_waiting_lane_are_no_stumbles"
        | "a_report_shows_in_the_lanes_state"
        | "a_lane_that_is_defined_anew_is_recorded"
        | "a_relay_stopped_past_its_lease_records_nothing" => SHARED,
        "a_new_lane_begins_where_it_says"
        | "answers_in_any_order_move_the_place_over_the_contiguous_prefix"
        | "a_slow_event_does_not_hold_the_place_and_its_answer_settles_it"
        | "unread_and_oldest_unread_say_how_far_a_lane_is"
        | "what_was_delivered_above_the_place_is_nothing_but_delivered"
        | "replay_and_seek_deliver_again_what_was_delivered_above_the_place"
        | "what_is_skipped_above_the_place_was_delivered_all_the_same"
        | "nothing_is_left_of_what_the_place_has_passed"
        | "a_slow_event_does_not_hold_others" => NO_PLACE,
        "a_stale_epoch_settles_nothing_and_says_so"
        | "a_crash_gives_back_exactly_what_was_not_settled"
        | "a_slow_event_is_handed_out_again_after_a_crash"
        | "attempts_are_counted_across_leases"
        | "a_dropped_claim_loses_nothing" => COUNTED,
        "only_the_key_of_a_parked_event_waits"
        | "a_key_given_back_below_its_parked_event_is_still_held_above_it"
        | "a_slow_event_may_be_answered_in_the_same_settle"
        | "what_is_put_off_waits_and_counts_no_attempt"
        | "discard_gives_up_dead_and_waiting_events_with_a_record"
        | "an_answer_for_a_discarded_event_changes_nothing"
        | "a_dead_event_that_blocks_holds_its_key_until_it_is_redriven"
        | "a_dead_event_that_blocks_holds_its_key_until_it_is_discarded"
        | "a_gone_address_retires_the_lane_and_its_events_wait" => NO_STATE,
        "an_expired_event_is_discarded_with_a_record"
        | "an_event_that_expires_while_parked_is_discarded_with_a_record"
        | "totals_add_up_after_every_step"
        | "a_failed_event_says_when_it_first_failed"
        | "redrive_hands_a_dead_event_out_again_with_a_fresh_budget"
        | "replay_delivers_again_what_was_delivered" => NO_COLUMN,
        "pause_reaches_a_running_lease_and_keeps_others_out_until_resume"
        | "a_retired_lane_waits_for_an_operator"
        | "seek_moves_the_place_and_ends_the_lease"
        | "what_a_seek_passes_unread_counts_as_discarded"
        | "what_a_removed_lane_had_not_read_is_recorded"
        | "a_removed_lane_is_forgotten_and_its_lease_lost"
        | "erased_payloads_are_gone_and_the_rest_stays"
        | "what_a_lane_is_moved_past_counts_as_discarded"
        | "a_dry_run_counts_and_changes_nothing"
        | "a_seek_after_a_prune_finds_what_is_left" => NOT_OURS,
        "every_change_is_recorded_with_who_made_it" | "the_record_is_searched_by_actor_verb_and_time" => {
            NOT_OURS
        }
        "operators_in_any_order_lose_no_event_without_a_record" => BOOKS,
        "what_an_operator_buries_is_dead_until_it_is_redriven" => IN_HAND,
        "the_same_event_twice_is_stored_once" => BY_ID,
        "what_is_pruned_still_counts_as_accepted" => COUNTED_ANEW,
        "what_failed_and_waits_is_told_with_the_age_of_the_oldest" => BEHIND,
        "parked_events_take_at_most_half_of_the_room"
        | "a_room_of_one_serves_parked_and_new_events_in_turn"
        | "what_is_behind_two_retries_waits_for_both"
        | "what_was_delivered_before_the_log_reached_it_is_not_handed_out_again" => IN_TIME_ORDER,
        _ => return None,
    })
}
