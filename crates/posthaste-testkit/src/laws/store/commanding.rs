//! What operators' commands do, and how a running lease learns of them.

use std::time::Duration;

use posthaste_core::ErrorKind;
use posthaste_core::admin::{Actor, Command, EventState, Filter, LaneState, Pace, Page, Seek, all_lanes};
use posthaste_core::store::{Outcome, Owner, Standing, Then};

use crate::drive::{StoreBench, dead, event, ids, in_lane, lane, one, settled};
use crate::law::LawResult;
use crate::{ensure, ensure_eq};

const SECOND: Duration = Duration::from_secs(1);

/// Replays one of two delivered events: it comes again, marked, and the totals add up before and after.
pub async fn replay_delivers_again_what_was_delivered(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("a", "k"), ("b", "k")]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    driver.drain().await?;
    let mut filter = in_lane(&main.name);
    filter.ids = vec!["a".to_owned()];
    let applied = bench.apply(&filter, Command::Replay { dry_run: false }).await?;
    ensure_eq!((applied.matched, applied.changed), (1, 1), "matched and changed");
    bench.publish_keyed(&[("c", "k")]).await?;
    let claimed = driver.claim_all().await?;
    let mut seen = ids(&claimed);
    seen.sort();
    ensure_eq!(seen, ["a", "c"], "what is claimed; a replayed event holds nobody");
    for claimed in &claimed {
        let expected = claimed.parcel.envelope.id == "a";
        ensure_eq!(claimed.parcel.replay, expected, "the mark of {}", claimed.parcel.envelope.id);
    }
    driver.deliver(&claimed).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.replayed, stats.waiting), (1, 0), "replayed and waiting");
    ensure!(driver.drain().await?.is_empty(), "a replayed event came twice");
    Ok(())
}

/// Runs every command that can be dry: each counts what the real one then changes, and changes nothing itself.
pub async fn a_dry_run_counts_and_changes_nothing(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], dead()), settled(&claimed[1], Outcome::Delivered)]).await?;
    let before = format!("{:?}", bench.find(&in_lane(&main.name)).await?);
    let filter = in_lane(&main.name);
    let cases = [
        (Command::Discard { reason: "x".to_owned(), dry_run: true }, 1),
        (Command::Seek { to: Seek::End, dry_run: true }, 1),
        (Command::Remove { dry_run: true }, 1),
        (Command::Erase { dry_run: true }, 3),
    ];
    for (command, matched) in cases {
        let name = command.name();
        let applied = bench.apply(&filter, command).await?;
        ensure_eq!((applied.matched, applied.changed), (matched, 0), "what a dry {name} counts");
    }
    ensure_eq!(format!("{:?}", bench.find(&filter).await?), before, "the records after dry runs");
    driver.deliver(&claimed[2..]).await?;
    Ok(())
}

/// The same for what sends events again.
pub async fn a_dry_redrive_or_replay_counts_and_changes_nothing(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b", "c"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle(vec![settled(&claimed[0], dead()), settled(&claimed[1], Outcome::Delivered)]).await?;
    let filter = in_lane(&main.name);
    let before = format!("{:?}", bench.find(&filter).await?);
    for command in [Command::Redrive { dry_run: true }, Command::Replay { dry_run: true }] {
        let name = command.name();
        let applied = bench.apply(&filter, command).await?;
        ensure_eq!((applied.matched, applied.changed), (1, 0), "what a dry {name} counts");
    }
    ensure_eq!(format!("{:?}", bench.find(&filter).await?), before, "the records after dry runs");
    driver.deliver(&claimed[2..]).await
}

/// Pauses a driven lane: its relay hears of it with the next settle, which is recorded; nobody takes it before resume.
pub async fn pause_reaches_a_running_lease_and_keeps_others_out_until_resume(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let applied = bench.apply(&in_lane(&main.name), Command::Pause).await?;
    ensure_eq!(applied.matched, 1, "lanes paused");
    ensure_eq!(bench.stats(&main.name).await?.state, LaneState::Paused, "the lane's state");
    let standing = driver.settle_then(vec![settled(&claimed[0], Outcome::Delivered)], Then::Hold).await?;
    ensure_eq!(standing, Standing::Paused, "the standing after a pause");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 1, "delivered after a pause");
    let standing = driver.settle_then(Vec::new(), Then::Report(None)).await?;
    ensure_eq!(standing, Standing::Paused, "the standing after a report");
    ensure_eq!(bench.stats(&main.name).await?.state, LaneState::Paused, "the state after a report");
    driver.give_up().await?;
    ensure!(!bench.can_drive(&main).await?, "a paused lane was taken");
    bench.pass(main.lease * 10);
    ensure!(!bench.can_drive(&main).await?, "a paused lane was taken later");
    ensure!(bench.can_drive(&lane("other")).await?, "a lane that is not paused is not free");
    bench.apply(&in_lane(&main.name), Command::Resume).await?;
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["b"], "what is claimed after resume");
    bench.apply(&Filter::default(), Command::Pause).await?;
    bench.pass(main.lease * 10);
    ensure!(
        !bench.can_drive(&main).await?,
        "a paused lane was taken when the lease of a crashed relay had ended"
    );
    Ok(())
}

/// Retires a lane: what was settled with it counts, nobody takes the lane, and its events wait until it is resumed.
pub async fn a_retired_lane_waits_for_an_operator(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let outcomes = vec![settled(&claimed[0], Outcome::Delivered)];
    driver.settle_then(outcomes, Then::Retire("410 gone".to_owned())).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!(
        (stats.state, stats.reason.as_deref()),
        (LaneState::Retired, Some("410 gone")),
        "state and reason"
    );
    ensure_eq!((stats.owner, stats.delivered), (None, 1), "owner and delivered");
    bench.pass(main.lease * 10);
    ensure!(!bench.can_drive(&main).await?, "a retired lane was taken");
    bench.apply(&in_lane(&main.name), Command::Resume).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.state, stats.reason), (LaneState::Active, None), "state and reason after resume");
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["b"], "what is claimed after resume");
    Ok(())
}

/// Reports a target that is away and comes back: the lane's row says so, and who drives it.
pub async fn a_report_shows_in_the_lanes_state(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.state, stats.owner.as_deref()), (LaneState::Active, Some("relay")), "state and owner");
    ensure_eq!(stats.epoch, driver.lease.epoch(), "the epoch");
    driver.settle_then(Vec::new(), Then::Report(Some("connection refused".to_owned()))).await?;
    let stats = bench.stats(&main.name).await?;
    let seen = (stats.state, stats.reason.as_deref());
    ensure_eq!(seen, (LaneState::Unavailable, Some("connection refused")), "state and reason");
    driver.renew().await?;
    ensure_eq!(
        bench.stats(&main.name).await?.state,
        LaneState::Unavailable,
        "the state after a plain settle"
    );
    driver.settle_then(Vec::new(), Then::Report(None)).await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.state, stats.reason), (LaneState::Active, None), "state and reason in the end");
    bench.pass(main.lease + SECOND);
    ensure_eq!(bench.stats(&main.name).await?.owner, None, "the owner after its lease");
    Ok(())
}

/// Seeks back, to a time and to the end: the running lease is lost, and the next one reads from there. What is parked stays.
pub async fn seek_moves_the_place_and_ends_the_lease(bench: StoreBench) -> LawResult {
    bench.publish(&["dead", "a"]).await?;
    bench.pass(SECOND * 60);
    let time = bench.rig.now();
    bench.publish(&["b", "c"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed[..1], dead()).await?;
    driver.deliver(&claimed[1..]).await?;
    let cases: [(Seek, &[&str]); 3] =
        [(Seek::Time(time), &["b", "c"]), (Seek::Beginning, &["a", "b", "c"]), (Seek::End, &[])];
    let mut running = driver;
    for (to, expected) in cases {
        bench.apply(&in_lane(&main.name), Command::Seek { to, dry_run: false }).await?;
        let standing = running.settle_then(Vec::new(), Then::Hold).await?;
        ensure_eq!(standing, Standing::Lost, "the running lease after seeking to {to:?}");
        running = bench.drive(&main).await?;
        ensure_eq!(running.drain().await?, expected, "what is claimed after seeking to {to:?}");
    }
    bench.apply(&in_lane(&main.name), Command::Seek { to: Seek::Beginning, dry_run: false }).await?;
    bench.apply(&in_lane(&main.name), Command::Seek { to: Seek::End, dry_run: false }).await?;
    bench.publish(&["d"]).await?;
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["d"], "what is claimed after the end");
    ensure_eq!(bench.state(&main.name, "dead").await?, EventState::Dead, "what was parked");
    Ok(())
}

/// A lane that wants one topic has delivered one event, parked another and not read two; it is moved to the end, back, and to a time
/// between. What it passes unread is taken in and given up, what it passed comes again, both are counted without what it does not
/// want, and the totals say it.
pub async fn what_a_seek_passes_unread_counts_as_discarded(bench: StoreBench) -> LawResult {
    let mut main = lane("main");
    main.topics = vec!["wanted".parse()?];
    let of = |id: &str, topic: &str| {
        let mut event = event(id);
        event.topic = topic.to_owned();
        event
    };
    let events =
        [("delivered", "wanted"), ("other", "unwanted"), ("parked", "wanted"), ("unread-1", "wanted")];
    bench.publish_all(events.map(|(id, topic)| of(id, topic)).into()).await?;
    let driver = bench.drive(&main).await?;
    let claimed = driver.claim_all().await?;
    let (delivered, parked) = (one(&claimed, "delivered")?, one(&claimed, "parked")?);
    driver.settle(vec![settled(delivered, Outcome::Delivered), settled(parked, dead())]).await?;
    bench.pass(SECOND * 60);
    let time = bench.rig.now();
    bench.publish_all(vec![of("other-2", "unwanted"), of("unread-2", "wanted")]).await?;
    // Where, what is counted, and accepted, delivered, dead and discarded after it.
    let steps = [
        (Seek::End, 2, [4, 1, 1, 2]),
        (Seek::End, 0, [4, 1, 1, 2]),
        (Seek::Beginning, 3, [4, 1, 1, 2]),
        (Seek::Time(time), 2, [6, 1, 1, 4]),
        (Seek::End, 1, [7, 1, 1, 5]),
        (Seek::Time(time), 1, [7, 1, 1, 5]),
    ];
    for (to, count, totals) in steps {
        let dry = bench.apply(&in_lane(&main.name), Command::Seek { to, dry_run: true }).await?;
        ensure_eq!((dry.matched, dry.changed), (count, 0), "what a dry run to {to:?} counts");
        let applied = bench.apply(&in_lane(&main.name), Command::Seek { to, dry_run: false }).await?;
        ensure_eq!((applied.matched, applied.changed), (count, count), "what a seek to {to:?} does");
        let stats = bench.stats(&main.name).await?;
        let seen = [stats.accepted, stats.delivered, stats.dead, stats.discarded];
        ensure_eq!(seen, totals, "accepted, delivered, dead and discarded after a seek to {to:?}");
    }
    ensure_eq!(bench.drive(&main).await?.drain().await?, ["unread-2"], "what comes in the end");
    Ok(())
}

/// Removes a lane with parked events: it is not listed, its lease is lost, also when the same relay has made a lane of that
/// name anew, and that one begins at the beginning.
pub async fn a_removed_lane_is_forgotten_and_its_lease_lost(bench: StoreBench) -> LawResult {
    bench.publish(&["a", "b"]).await?;
    let (main, owner) = (lane("main"), Owner::new("relay"));
    let driver = bench.drive_as(&main, &owner).await?;
    let claimed = driver.claim_all().await?;
    driver.settle_as(&claimed[..1], dead()).await?;
    bench.apply(&in_lane(&main.name), Command::Remove { dry_run: false }).await?;
    ensure!(all_lanes(&*bench.store).await?.is_empty(), "a removed lane is listed");
    let outcome = || vec![settled(&claimed[1], Outcome::Delivered)];
    let late = bench.store.settle(&driver.lease, outcome(), Then::Hold).await?;
    ensure_eq!(late, Standing::Lost, "a settle after the removal");
    let anew = bench.drive_as(&main, &owner).await?;
    let late = driver.settle_then(outcome(), Then::Hold).await?;
    ensure_eq!(late, Standing::Lost, "a settle after the lane was made anew");
    ensure_eq!(anew.drain().await?, ["a", "b"], "what a new lane of that name claims");
    ensure_eq!(bench.stats(&main.name).await?.accepted, 2, "what a new lane of that name counts");
    Ok(())
}

/// Asks for a lane that is not there, and for no lane where one is needed: an error that says which.
pub async fn a_command_on_a_missing_lane_says_so(bench: StoreBench) -> LawResult {
    bench.publish(&["a"]).await?;
    let commands = || {
        [
            Command::Redrive { dry_run: false },
            Command::Replay { dry_run: false },
            Command::Discard { reason: "x".to_owned(), dry_run: false },
            Command::Seek { to: Seek::End, dry_run: false },
            Command::Remove { dry_run: false },
        ]
    };
    let actor = Actor::new("law", "test");
    let missing = in_lane(&lane("missing").name);
    for command in commands().into_iter().chain([Command::Pause, Command::Resume]) {
        let name = command.name();
        let kind =
            bench.store.apply(&missing, command, &actor, &Pace::full()).await.map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::NotFound), "{name} on a missing lane");
    }
    let found = bench.store.find(&missing, Page::first(1)).await.map(drop).map_err(|error| error.kind());
    ensure_eq!(found, Err(ErrorKind::NotFound), "looking for events of a missing lane");
    let codes = bench.store.dead_by_code(&missing).await.map(drop).map_err(|error| error.kind());
    ensure_eq!(codes, Err(ErrorKind::NotFound), "counting dead events of a missing lane");
    for command in commands() {
        let name = command.name();
        let kind = bench
            .store
            .apply(&Default::default(), command, &actor, &Pace::full())
            .await
            .map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Rejected), "{name} on no lane");
    }
    Ok(())
}

/// Erases one of two: its payload is gone from records and claims, its attributes and the other event stay.
pub async fn erased_payloads_are_gone_and_the_rest_stays(bench: StoreBench) -> LawResult {
    bench.publish_keyed(&[("secret", "k"), ("public", "k")]).await?;
    let mut filter = Filter::default();
    filter.ids = vec!["secret".to_owned()];
    ensure_eq!(bench.apply(&filter, Command::Erase { dry_run: false }).await?.changed, 1, "erased");
    let found = bench.find(&filter).await?;
    ensure_eq!(found[0].payload_bytes, None, "the erased payload's bytes");
    ensure!(found[0].envelope.payload.is_empty(), "an erased payload is found");
    ensure_eq!(found[0].envelope.key.as_deref(), Some("k"), "the erased event's key");
    let claimed = bench.drive(&lane("main")).await?.claim_all().await?;
    ensure_eq!(ids(&claimed), ["secret", "public"], "what is claimed");
    let empty: Vec<bool> = claimed.iter().map(|claimed| claimed.parcel.envelope.payload.is_empty()).collect();
    ensure_eq!(empty, [true, false], "which payloads are empty");
    Ok(())
}
