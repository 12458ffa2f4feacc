//! A column of the table that says how often a row is tried.

use crate::table::stand::{Seen, Stand, on_every_database};

on_every_database! {
    new: a_row_may_have_fewer_or_more_attempts_than_the_policy, what_is_unanswered_at_a_stop_for_the_last_time_is_dead,
}

/// Nobody takes what is published, so every attempt fails: a row is dead when its own number is reached, before the policy's or after,
/// and by the policy's where it has none. The same holds for leases that end.
async fn a_row_may_have_fewer_or_more_attempts_than_the_policy(stand: Stand) {
    let (now, hour) =
        (stand.base.either("now()", "utc_timestamp(6)"), stand.base.either("'1 hour'", "1 HOUR"));
    // Larger than what a pipe keeps.
    let large = stand.base.either("convert_to(repeat('x', 100000), 'UTF8')", "repeat('x', 100000)");
    stand.say("ALTER TABLE openoutbox_events ADD COLUMN max_attempts integer").await;
    for (event_type, most) in [("fewer", "1"), ("more", "40"), ("policy", "NULL")] {
        let id = posthaste::envelope::fresh_id();
        stand
            .say(&format!(
                "INSERT INTO openoutbox_events (event_id, event_type, payload, max_attempts) VALUES ('{id}', '{event_type}', {large}, {most})"
            ))
            .await;
    }
    for (event_type, attempts, most) in
        [("ended fewer", 2, "3"), ("ended more", 30, "40"), ("ended policy", 1, "NULL")]
    {
        let id = posthaste::envelope::fresh_id();
        stand
            .say(&format!(
                "INSERT INTO openoutbox_events (event_id, event_type, payload, max_attempts, attempts, status, locked_by, locked_at, available_at)
                 VALUES ('{id}', '{event_type}', '{{}}', {most}, {attempts}, 'DELIVERING', 'crashed', {now} - INTERVAL {hour}, {now} + INTERVAL {hour})"
            ))
            .await;
    }
    let relay = stand.quiet_relay(&[
        ("POSTHASTE__STORE__COLUMNS__MAX_ATTEMPTS", "max_attempts"),
        ("POSTHASTE__LANES__MAIN__RETRY__ATTEMPTS", "2"),
        ("POSTHASTE__LANES__MAIN__RETRY__FIRST", "50ms"),
        ("POSTHASTE__RELAY__LEASE", "30s"),
    ]);
    let expired = "last_error LIKE 'LEASE_EXPIRED%'";
    for state in [
        "event_type = 'fewer' AND status = 'DEAD' AND attempts = 1",
        "event_type = 'policy' AND status = 'DEAD' AND attempts = 2",
        &format!("event_type = 'more' AND status = 'PENDING' AND attempts = 2 AND available_at > {now}"),
        &format!("event_type = 'ended fewer' AND status = 'DEAD' AND attempts = 3 AND {expired}"),
        &format!("event_type = 'ended more' AND status = 'PENDING' AND attempts = 31 AND {expired}"),
        &format!("event_type = 'ended policy' AND status = 'DEAD' AND attempts = 2 AND {expired}"),
    ] {
        stand.until(1, state).await;
    }
    drop(relay);
    // Whoever takes it now gets what is left when its time has come.
    stand.say(&format!("UPDATE openoutbox_events SET available_at = {now} WHERE status = 'PENDING'")).await;
    let seen = Seen::default();
    let relay = stand.relay(&seen);
    seen.until(2);
    stand.until(2, "event_type IN ('more', 'ended more') AND status = 'DELIVERED'").await;
    drop(relay);
    stand.end().await;
}

/// A relay that stops while its target does not answer gives up what it sent: that is an attempt, and the last one is the end.
async fn what_is_unanswered_at_a_stop_for_the_last_time_is_dead(stand: Stand) {
    let large = stand.base.either("convert_to(repeat('x', 100000), 'UTF8')", "repeat('x', 100000)");
    stand.insert(1).await;
    stand.say(&format!("UPDATE openoutbox_events SET payload = {large}, attempts = 24")).await;
    let relay = stand.quiet_relay(&[
        ("POSTHASTE__RELAY__LEASE", "60s"),
        ("POSTHASTE__RELAY__GRACE", "200ms"),
        ("POSTHASTE__LANES__MAIN__TIMEOUT", "50s"),
    ]);
    stand.until(1, "status = 'DELIVERING'").await;
    relay.signal("TERM");
    stand.until(1, "status = 'DEAD' AND attempts = 25 AND last_error LIKE 'UNANSWERED%'").await;
    drop(relay);
    stand.end().await;
}
