//! The laws, in lists: the specification of a backend.

pub mod broker;
pub mod consuming;
pub mod line;
pub mod store;
pub mod tx;

use crate::drive::StoreBench;
use crate::law::Law;
use crate::laws;
use broker::{BrokerBench, dying as burying, keeping, ordering, sharing as group_sharing};
use consuming::{ConsumeBench, crashing as dying_out, effects, failing as refusing, surviving};
use line::{LineBench, crashing, delivering, failing, freezing, sharing, stopping};
use tx::TxBench;

use store::{
    cancelling, claiming, commanding, dying, finding, leasing, operating, parking, passing, pruning,
    publishing, reviewing, rows, steering, waking,
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
    publishing::what_committed_late_counts_as_unread,
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
    leasing::a_relay_with_two_lanes_more_hands_one_over,
    leasing::a_promise_ends_with_the_length_of_a_lease,
    leasing::stumbles_count_acquisitions_without_progress,
    leasing::crashes_of_an_idle_or_waiting_lane_are_no_stumbles,
    leasing::released_events_are_handed_out_again_as_if_never_claimed,
    parking::a_retry_is_not_claimed_before_it_is_due,
    parking::a_failed_event_says_when_it_first_failed,
    parking::attempts_are_counted_across_leases,
    parking::what_is_put_off_waits_and_counts_no_attempt,
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
    parking::a_key_given_back_below_its_parked_event_is_still_held_above_it,
    passing::what_was_delivered_above_the_place_is_neither_handed_out_nor_counted_again,
    passing::what_was_delivered_before_the_log_reached_it_is_not_handed_out_again,
    passing::what_was_delivered_above_the_place_is_nothing_but_delivered,
    passing::replay_and_seek_deliver_again_what_was_delivered_above_the_place,
    passing::what_is_skipped_above_the_place_was_delivered_all_the_same,
    passing::nothing_is_left_of_what_the_place_has_passed,
    parking::what_is_behind_two_retries_waits_for_both,
    parking::a_slow_event_may_be_answered_in_the_same_settle,
    dying::a_dead_event_is_never_claimed_but_found_and_its_key_goes_on,
    dying::a_dead_event_that_blocks_holds_its_key_until_it_is_redriven,
    dying::a_dead_event_that_blocks_holds_its_key_until_it_is_discarded,
    dying::redrive_hands_a_dead_event_out_again_with_a_fresh_budget,
    dying::discard_gives_up_dead_and_waiting_events_with_a_record,
    dying::an_answer_for_a_discarded_event_changes_nothing,
    dying::what_an_operator_buries_is_dead_until_it_is_redriven,
    dying::an_operator_sets_when_an_event_is_due,
    commanding::replay_delivers_again_what_was_delivered,
    commanding::a_dry_run_counts_and_changes_nothing,
    commanding::a_dry_redrive_or_replay_counts_and_changes_nothing,
    commanding::pause_reaches_a_running_lease_and_keeps_others_out_until_resume,
    commanding::a_retired_lane_waits_for_an_operator,
    commanding::a_report_shows_in_the_lanes_state,
    commanding::seek_moves_the_place_and_ends_the_lease,
    commanding::what_a_seek_passes_unread_counts_as_discarded,
    commanding::a_removed_lane_is_forgotten_and_its_lease_lost,
    commanding::a_command_on_a_missing_lane_says_so,
    commanding::erased_payloads_are_gone_and_the_rest_stays,
    steering::operators_in_any_order_lose_no_event_without_a_record,
    operating::lanes_come_in_pages_ordered_by_name,
    operating::totals_add_up_after_every_step,
    operating::unread_and_oldest_unread_say_how_far_a_lane_is,
    operating::what_is_scheduled_is_not_retried,
    operating::what_failed_and_waits_is_told_with_the_age_of_the_oldest,
    finding::find_pages_through_everything_once,
    finding::find_answers_by_every_field_of_its_filter,
    finding::find_says_how_every_lane_sees_an_event,
    pruning::prune_touches_only_what_every_lane_has_passed,
    pruning::prune_leaves_what_is_parked_and_dead_unless_asked,
    pruning::a_dead_event_stays_dead_while_another_lane_needs_it,
    pruning::what_is_pruned_still_counts_as_accepted,
    pruning::what_a_lane_is_moved_past_counts_as_discarded,
    pruning::prune_without_lanes_keeps_everything,
    pruning::what_is_published_after_a_prune_is_claimed,
    pruning::a_seek_after_a_prune_finds_what_is_left,
    reviewing::every_change_is_recorded_with_who_made_it,
    reviewing::the_record_is_searched_by_actor_verb_and_time,
    reviewing::a_command_of_many_steps_is_one_line_of_the_record,
    reviewing::what_a_command_did_before_it_was_cut_off_is_recorded,
    reviewing::what_a_removed_lane_had_not_read_is_recorded,
    reviewing::a_lane_that_is_defined_anew_is_recorded,
    reviewing::dead_events_are_counted_by_lane_and_code,
    waking::wait_returns_soon_after_a_publish_and_at_its_limit,
    cancelling::a_dropped_claim_loses_nothing,
    cancelling::a_dropped_settle_leaves_nothing_half_done,
    cancelling::a_dropped_publish_stores_all_or_nothing,
];

/// What every store obeys that leases rows and not lanes.
pub const ROW_LAWS: &[StoreLaw] = laws![
    rows::a_claimed_row_is_hidden_until_its_lease_ends_which_counts,
    rows::a_stale_claim_settles_nothing_and_says_so,
    rows::renewing_keeps_what_was_claimed,
    rows::a_row_whose_lease_ends_too_often_is_dead,
    rows::a_row_that_is_put_off_waits_and_counts_no_attempt,
    rows::terminal_rows_never_move_by_themselves,
    rows::relays_claim_apart_and_together_everything,
    rows::the_order_of_a_key_holds_between_relays,
    rows::a_clean_end_leaves_nothing_claimed,
    rows::what_a_dropped_claim_took_is_handed_back_by_a_clean_end,
    rows::a_dropped_settle_of_rows_leaves_nothing_half_done,
    rows::a_row_that_is_sent_again_by_an_operator_has_a_fresh_budget,
];

/// A law on publishing in a driver's transaction.
pub type TxLaw = Law<TxBench>;

/// What publishing in every driver's transaction obeys.
pub const TX_LAWS: &[TxLaw] = laws![
    tx::an_event_is_there_with_the_commit_and_not_before,
    tx::what_is_rolled_back_or_dropped_never_was,
    tx::a_savepoint_takes_back_what_came_after_it,
    tx::a_batch_keeps_its_order,
    tx::once_says_that_an_event_was_there_before,
    tx::a_duplicate_id_is_a_conflict,
    tx::values_come_back_as_they_were_published,
    tx::a_delay_is_counted_on_the_databases_clock,
];

/// A law on the whole line.
pub type LineLaw = Law<LineBench>;

/// What the whole line obeys, on every store.
pub const LINE_LAWS: &[LineLaw] = laws![
    delivering::everything_published_is_delivered_once_and_in_order,
    delivering::order_per_key_holds_across_retries,
    delivering::a_slow_event_does_not_hold_others,
    delivering::a_scheduled_event_is_delivered_when_it_is_due,
    delivering::one_pass_delivers_what_comes_after_events_of_other_lanes,
    failing::a_poison_event_ends_dead_and_can_be_redriven,
    failing::an_unavailable_target_burns_no_attempt,
    failing::a_gone_address_retires_the_lane_and_its_events_wait,
    failing::an_event_without_an_answer_times_out_and_is_tried_again,
    failing::a_panic_in_a_target_stops_neither_its_lane_nor_others,
    failing::hooks_hear_of_failures_and_deaths,
    sharing::two_relays_deliver_everything_once,
    sharing::two_relays_end_up_with_half_of_the_lanes_each,
    sharing::five_relays_deliver_everything_once,
    sharing::relays_that_come_and_go_deliver_one_lane_once,
    sharing::a_relay_stopped_past_its_lease_records_nothing,
    freezing::a_settle_that_stands_still_does_not_keep_its_lane,
    freezing::a_process_stopped_past_its_lease_goes_on_and_loses_nothing,
    stopping::a_graceful_stop_settles_what_is_in_flight_and_frees_the_lane,
    stopping::a_stop_ends_after_its_grace_period,
    stopping::a_relay_dropped_at_any_moment_loses_nothing,
    crashing::a_crash_when_a_lane_was_acquired_loses_nothing,
    crashing::a_crash_after_reading_loses_nothing,
    crashing::a_crash_after_a_claim_loses_nothing,
    crashing::a_crash_before_delivering_loses_nothing,
    crashing::a_crash_between_deliver_and_settle_loses_nothing,
    crashing::a_crash_before_settling_loses_nothing,
    crashing::a_crash_before_a_settle_commits_loses_nothing,
    crashing::a_crash_after_a_settle_committed_loses_nothing,
    crashing::a_crash_when_a_settle_was_answered_loses_nothing,
    crashing::a_crash_before_a_publish_commits_loses_nothing,
    crashing::a_crash_after_a_publish_committed_loses_nothing,
    crashing::a_crash_before_the_place_passes_a_delivered_retry_does_not_repeat_it,
];

/// A law on a broker.
pub type BrokerLaw = Law<BrokerBench>;

/// What every broker obeys.
pub const BROKER_LAWS: &[BrokerLaw] = laws![
    keeping::a_round_trip_keeps_everything,
    keeping::an_oversize_event_fails_alone,
    keeping::what_is_not_acked_is_delivered_again_when_a_feed_drops,
    keeping::what_is_acked_is_not_delivered_again,
    keeping::a_dropped_wait_loses_nothing,
    keeping::a_released_event_comes_back_after_its_time,
    keeping::declaring_a_group_again_is_harmless,
    group_sharing::two_groups_both_get_everything,
    group_sharing::groups_are_isolated,
    group_sharing::two_members_share,
    group_sharing::a_feed_never_holds_more_than_its_prefetch,
    ordering::events_of_a_key_come_in_order,
    ordering::a_key_is_at_one_member_at_a_time,
    ordering::a_released_event_holds_its_key_and_no_other,
    burying::a_poison_event_ends_dead_and_can_be_listed_and_redriven,
];

/// A law on a consumer.
pub type ConsumerLaw = Law<ConsumeBench>;

/// What a consumer with an inbox obeys, on every database and from every broker. Their names have the word consumer, by which they are chosen.
pub const CONSUMER_LAWS: &[ConsumerLaw] = laws![
    effects::a_consumer_that_dies_between_commit_and_ack_has_the_effect_once,
    effects::a_consumer_dropped_at_any_moment_has_each_effect_once,
    effects::two_consumers_that_get_the_same_events_have_each_effect_once,
    effects::a_consumer_in_batches_has_each_effect_once,
    dying_out::a_consumer_that_crashes_with_its_inbox_row_written_has_each_effect_once,
    dying_out::a_consumer_that_crashes_before_its_commit_has_each_effect_once,
    dying_out::a_consumer_that_crashes_when_it_has_committed_has_each_effect_once,
    dying_out::a_consumer_that_crashes_when_it_has_acknowledged_has_each_effect_once,
    dying_out::a_consumer_that_crashes_before_it_commits_a_batch_has_each_effect_once,
    dying_out::a_consumer_that_crashes_when_it_has_committed_a_batch_has_each_effect_once,
    refusing::a_consumer_that_fails_leaves_no_effect_behind,
    refusing::a_consumer_keeps_the_order_of_a_key_across_a_retry,
    refusing::a_consumer_s_dead_letters_add_up,
    refusing::a_consumer_in_batches_isolates_a_failing_event,
    surviving::a_consumer_s_killer_ends_dead_and_its_neighbours_live,
    surviving::a_consumer_that_only_ends_spends_no_attempt,
];

/// What a consumer obeys as the target of a lane, on every database; no broker is in it.
pub const LANE_LAWS: &[ConsumerLaw] = laws![effects::a_lane_into_a_consumer_has_each_effect_once];
