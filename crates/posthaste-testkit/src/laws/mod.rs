//! The laws, in lists: the specification of a backend.

pub mod store;

use crate::drive::StoreBench;
use crate::law::Law;
use crate::laws;
use store::{
    cancelling, claiming, commanding, dying, finding, leasing, operating, parking, publishing, pruning, waking,
};

/// A law on a store.
pub type StoreLaw = Law<StoreBench>;

/// What every store obeys.
pub const STORE_LAWS: &[StoreLaw] = laws![
    publishing::a_committed_publish_is_claimed,
    publishing::a_rolled_back_publish_is_never_claimed,
    publishing::what_is_rolled_back_to_a_savepoint_is_never_claimed,
    publishing::an_uncommitted_publish_is_invisible,
    publishing::a_late_commit_is_not_skipped_and_delays_nobody,
    publishing::a_late_commit_is_not_skipped_by_a_later_lease,
    publishing::the_same_event_twice_is_stored_once,
    publishing::the_same_id_with_other_contents_is_a_conflict_and_stores_nothing,
    publishing::a_batch_is_all_or_nothing,
    publishing::payload_bytes_are_exact,
    publishing::every_attribute_arrives_as_it_was_published,
    publishing::what_is_over_a_limit_is_refused_and_not_stored,
    claiming::a_claim_never_answers_more_events_than_its_room,
    claiming::a_claim_never_answers_more_bytes_than_its_room_but_one_event_always_fits,
    claiming::no_event_is_claimed_twice_in_one_lease,
    claiming::claims_follow_the_order_of_the_log,
    claiming::a_lane_sees_only_its_topics,
    claiming::lanes_do_not_see_one_another,
    claiming::a_lane_that_wants_nothing_of_the_log_still_moves_on,
    claiming::parked_events_take_at_most_half_of_the_room,
    claiming::a_room_of_one_serves_parked_and_new_events_in_turn,
    claiming::a_new_lane_begins_where_it_says,
    leasing::a_stale_epoch_settles_nothing_and_says_so,
    leasing::a_crash_gives_back_exactly_what_was_not_settled,
    leasing::answers_in_any_order_move_the_place_over_the_contiguous_prefix,
    leasing::giving_up_frees_the_lane_at_once,
    leasing::nobody_takes_a_held_lane_before_its_lease_ends_and_then_somebody_does,
    leasing::settling_renews_the_lease,
    leasing::an_owner_that_comes_back_takes_its_lane_and_ends_its_earlier_lease,
    leasing::two_relays_share_lanes_and_no_event_comes_twice,
    leasing::stumbles_count_acquisitions_without_progress,
    leasing::released_events_are_handed_out_again_as_if_never_claimed,
    parking::a_retry_is_not_claimed_before_it_is_due,
    parking::attempts_are_counted_across_leases,
    parking::only_the_key_of_a_parked_event_waits,
    parking::what_waits_behind_a_key_drains_in_order,
    parking::unsent_events_of_a_failed_key_come_back_in_order,
    parking::an_event_behind_nobody_does_not_wait,
    parking::without_order_nobody_waits,
    parking::a_scheduled_event_holds_nobody_and_is_claimed_when_due,
    parking::an_expired_event_is_discarded_with_a_record,
    parking::an_event_that_expires_while_parked_is_discarded_with_a_record,
    parking::a_slow_event_does_not_hold_the_place_and_its_answer_settles_it,
    parking::a_slow_event_is_handed_out_again_after_a_crash,
    parking::a_parked_event_above_the_place_is_not_handed_out_from_the_log_again,
    dying::a_dead_event_is_never_claimed_but_found_and_its_key_goes_on,
    dying::a_dead_event_that_blocks_holds_its_key_until_it_is_redriven,
    dying::a_dead_event_that_blocks_holds_its_key_until_it_is_discarded,
    dying::redrive_hands_a_dead_event_out_again_with_a_fresh_budget,
    dying::discard_gives_up_dead_and_waiting_events_with_a_record,
    dying::an_answer_for_a_discarded_event_changes_nothing,
    commanding::replay_delivers_again_what_was_delivered,
    commanding::a_dry_run_counts_and_changes_nothing,
    commanding::pause_reaches_a_running_lease_and_keeps_others_out_until_resume,
    commanding::a_retired_lane_waits_for_an_operator,
    commanding::a_report_shows_in_the_lanes_state,
    commanding::seek_moves_the_place_and_ends_the_lease,
    commanding::a_removed_lane_is_forgotten_and_its_lease_lost,
    commanding::a_command_on_a_missing_lane_says_so,
    commanding::erased_payloads_are_gone_and_the_rest_stays,
    operating::totals_add_up_after_every_step,
    operating::unread_and_oldest_unread_say_how_far_a_lane_is,
    finding::find_pages_through_everything_once,
    finding::find_answers_by_every_field_of_its_filter,
    finding::find_says_how_every_lane_sees_an_event,
    pruning::prune_touches_only_what_every_lane_has_passed,
    pruning::prune_leaves_what_is_parked_and_dead_unless_asked,
    pruning::prune_without_lanes_keeps_everything,
    pruning::what_is_published_after_a_prune_is_claimed,
    waking::wait_returns_soon_after_a_publish_and_at_its_limit,
    cancelling::a_dropped_claim_loses_nothing,
    cancelling::a_dropped_settle_leaves_nothing_half_done,
    cancelling::a_dropped_publish_stores_all_or_nothing,
];

/// A law on a broker.
pub type BrokerLaw = Law<()>;

/// What every broker obeys; there is no broker yet.
pub const BROKER_LAWS: &[BrokerLaw] = &[];
