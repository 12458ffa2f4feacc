//! The relay at the edges of its settings, and beside stores and targets that misbehave.

mod hanging;
mod heartbeats;
mod leases;
mod tenures;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use posthaste_core::admin::{Admin, LaneState, all_lanes};
use posthaste_core::envelope::Envelope;
use posthaste_core::lane::Order;
use posthaste_core::memory::Memory;
use posthaste_core::publisher::Publisher;
use posthaste_core::relay::{Lane, Relay};
use posthaste_core::retry::Backoff;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, DeliverError, DeliverKind, Target};
use posthaste_core::time::{Clock, ManualClock, Moment, Timestamp};
use posthaste_core::{BoxFuture, BoxStream, Result};
use tokio::time::{Instant, timeout};

use hanging::{Hanging, acquire_hangs, claim_hangs, settle_hangs};

/// Virtual time after which nothing that should happen will happen any more.
const LONG: Duration = Duration::from_secs(120);

/// A target whose every burst is answered by a function.
struct Answering<F> {
    capabilities: Capabilities,
    answer: F,
}

impl<F> Target for Answering<F>
where
    F: Fn(Vec<Parcel>) -> BoxStream<'static, Answer> + Send + Sync,
{
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        (self.answer)(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

fn answering(
    answer: impl Fn(Vec<Parcel>) -> BoxStream<'static, Answer> + Send + Sync + 'static,
) -> Arc<dyn Target> {
    Arc::new(Answering { capabilities: Capabilities::sink(), answer })
}

/// Says yes to everything.
fn yes(burst: Vec<Parcel>) -> BoxStream<'static, Answer> {
    Box::pin(stream::iter((0..burst.len()).map(Answer::delivered)))
}

fn lane(target: Arc<dyn Target>) -> Lane {
    Lane::named("main").expect("a good name").to(target)
}

fn keyed(id: &str) -> Envelope {
    let mut event = Envelope::new("edge", id);
    event.id = id.to_owned();
    event.key = Some("k".to_owned());
    event
}

/// Tokio's clock as a store's.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).after(self.0.elapsed())
    }
}

async fn store_with(ids: &[&str]) -> Memory {
    let store = Memory::on(PausedClock(Instant::now()));
    store.publish(ids.iter().map(|id| keyed(id)).collect()).await.expect("nothing is wrong with them");
    store
}

#[tokio::test(start_paused = true)]
async fn a_window_of_no_bytes_still_takes_one_event_at_a_time() {
    let store = store_with(&["a", "b"]).await;
    let relay = Relay::new(Arc::new(store)).lane(lane(answering(yes)).window_bytes(0));
    let report = timeout(LONG, relay.once()).await.expect("one event always fits").unwrap();
    assert_eq!(report.delivered, 2);
}

#[tokio::test(start_paused = true)]
async fn what_timed_out_is_dropped_before_its_window_is_used_again() {
    let out = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let (counting, seen) = (Arc::clone(&out), Arc::clone(&most));
    let mute = answering(move |_| {
        seen.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let gone = Falling(Arc::clone(&counting));
        Box::pin(stream::once(async move {
            let _gone = gone;
            std::future::pending().await
        }))
    });
    let store = store_with(&["a", "b", "c"]).await;
    let lane = lane(mute).order(Order::None).window(1).retry(Backoff::axcom().attempts(1));
    let report = timeout(LONG, Relay::new(Arc::new(store)).lane(lane).once()).await.unwrap().unwrap();
    assert_eq!((report.dead, most.load(Ordering::SeqCst)), (3, 1));
}

/// Counts down when it is dropped.
struct Falling(Arc<AtomicU32>);

impl Drop for Falling {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Rejected, but not yet recorded as dead when the relay crashes: it is sent again then, and may pass. Its follower must not
/// have passed before it.
#[tokio::test(start_paused = true)]
async fn nobody_overtakes_a_dead_event_before_its_death_is_recorded() {
    let store = Arc::new(Hanging::on(store_with(&["a", "b"]).await));
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let target = answering(move |burst| {
        let mut sent = seen.lock().unwrap();
        sent.extend(burst.iter().map(|parcel| parcel.envelope.id.clone()));
        let error = DeliverError::new(DeliverKind::Rejected, "no", "no");
        let first = sent.len() == 1;
        let answer =
            move |index| if first { Answer::failed(index, error.clone()) } else { Answer::delivered(index) };
        Box::pin(stream::iter((0..burst.len()).map(answer)))
    });
    store.settle_hangs.store(true, Ordering::SeqCst);
    let relay = Relay::new(store.clone()).lane(lane(target));
    assert!(timeout(Duration::from_secs(1), relay.once()).await.is_err(), "its settle hangs, and it crashes");
    store.settle_hangs.store(false, Ordering::SeqCst);
    timeout(LONG, relay.once()).await.unwrap().unwrap();
    assert_eq!(*sent.lock().unwrap(), ["a", "a", "b"]);
}

/// Starts a relay on a store, lets it run for a while, and stops it.
async fn stopped_after(span: Duration, relay: Relay) -> Duration {
    let since = Instant::now();
    let relaying = relay.run(tokio::time::sleep(span));
    timeout(LONG, relaying).await.expect("a stop ends, whatever the store does").expect("and is no error");
    since.elapsed() - span
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_beside_a_store_that_never_answers() {
    for verb in [acquire_hangs as fn(&Hanging) -> &AtomicBool, claim_hangs, settle_hangs] {
        let store = Hanging::on(store_with(&["a"]).await);
        verb(&store).store(true, Ordering::SeqCst);
        let lane = lane(answering(yes)).lease(Duration::from_secs(4));
        let relay = Relay::new(Arc::new(store)).lane(lane).grace(Duration::from_secs(2));
        let took = stopped_after(Duration::from_secs(1), relay).await;
        assert!(took <= Duration::from_secs(6), "{took:?}: a grace period and a lease at most");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_or_an_acquisition_that_never_answers_is_tried_again() {
    for verb in [acquire_hangs as fn(&Hanging) -> &AtomicBool, claim_hangs] {
        let store = Arc::new(Hanging::on(store_with(&["a"]).await));
        verb(&store).store(true, Ordering::SeqCst);
        let (delivered, arrived) = tokio::sync::oneshot::channel();
        let delivered = Mutex::new(Some(delivered));
        let target = answering(move |burst| {
            delivered.lock().unwrap().take().map(|delivered| delivered.send(()));
            yes(burst)
        });
        let relay = Relay::new(store.clone()).lane(lane(target));
        let heal = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            verb(&store).store(false, Ordering::SeqCst);
            arrived.await.unwrap();
        };
        timeout(LONG, relay.run(heal)).await.expect("the first call hangs, the next does not").unwrap();
    }
}

/// The relay that found the target away is gone when it comes back: the next one must say so.
#[tokio::test(start_paused = true)]
async fn the_next_owner_says_that_the_target_is_back() {
    let store = store_with(&["a"]).await;
    let away = answering(|burst| {
        let error = DeliverError::new(DeliverKind::Unavailable, "away", "away");
        Box::pin(stream::iter((0..burst.len()).map(move |index| Answer::failed(index, error.clone()))))
    });
    Relay::new(Arc::new(store.clone())).lane(lane(away)).once().await.unwrap();
    assert_eq!(all_lanes(&store).await.unwrap()[0].state, LaneState::Unavailable);
    Relay::new(Arc::new(store.clone())).lane(lane(answering(yes))).once().await.unwrap();
    let lane = &all_lanes(&store).await.unwrap()[0];
    assert_eq!((lane.state, lane.delivered), (LaneState::Active, 1));
}

/// A store whose lane says that its target is away, with this event to deliver.
async fn store_with_target_away(event: Envelope) -> Memory {
    let store = Memory::on(PausedClock(Instant::now()));
    store.publish(vec![event]).await.expect("nothing is wrong with it");
    Relay::new(Arc::new(store.clone()))
        .lane(lane(saying(&[DeliverKind::Unavailable])))
        .once()
        .await
        .expect("memory takes every event");
    assert_eq!(
        all_lanes(&store).await.expect("memory has a lane after a pass")[0].state,
        LaneState::Unavailable
    );
    store
}

/// A target that answers a burst with failures of these kinds, in turn.
fn saying(kinds: &'static [DeliverKind]) -> Arc<dyn Target> {
    answering(move |burst| {
        let error = |index: usize| DeliverError::new(kinds[index % kinds.len()], "code", "words").after(LONG);
        let answers = (0..burst.len()).map(move |index| Answer::failed(index, error(index)));
        Box::pin(stream::iter(answers))
    })
}

/// A target that finds something wrong with an event is available: the lane says so without an
/// acknowledgement.
#[tokio::test(start_paused = true)]
async fn any_answer_about_an_event_says_that_the_target_is_back() {
    for kinds in
        [&[DeliverKind::Failed], &[DeliverKind::Rejected], &[DeliverKind::TooLarge], &[DeliverKind::Later]]
    {
        let store = store_with_target_away(keyed("a")).await;
        Relay::new(Arc::new(store.clone())).lane(lane(saying(kinds))).once().await.unwrap();
        let lane = &all_lanes(&store).await.unwrap()[0];
        assert_eq!((lane.state, &lane.reason), (LaneState::Active, &None), "{kinds:?}");
    }
}

/// What the relay decides by itself, a timeout or a payload that is too large, is nothing that the target
/// said.
#[tokio::test(start_paused = true)]
async fn a_target_that_said_nothing_is_not_back() {
    let mute = answering(|_| Box::pin(stream::pending()));
    let small = Arc::new(Answering { capabilities: Capabilities::sink().payload_bytes_max(0), answer: yes });
    let targets: [Arc<dyn Target>; 2] = [mute, small];
    for target in targets {
        let store = store_with_target_away(keyed("a")).await;
        Relay::new(Arc::new(store.clone())).lane(lane(target)).once().await.unwrap();
        assert_eq!(all_lanes(&store).await.unwrap()[0].state, LaneState::Unavailable);
    }
}

/// A missing exchange and an exchange without a queue, in one burst: the lane waits, and says so.
#[tokio::test(start_paused = true)]
async fn a_target_that_takes_nothing_beside_a_failure_is_not_back() {
    for kinds in
        [&[DeliverKind::Failed, DeliverKind::Unavailable], &[DeliverKind::Unavailable, DeliverKind::Rejected]]
    {
        let store = store_with_target_away(Envelope::new("edge", "a")).await;
        store.publish(vec![Envelope::new("edge", "b")]).await.unwrap();
        Relay::new(Arc::new(store.clone())).lane(lane(saying(kinds))).once().await.unwrap();
        assert_eq!(all_lanes(&store).await.unwrap()[0].state, LaneState::Unavailable, "{kinds:?}");
    }
}

/// With paused time a relay that spins never lets the clock go on: the test would not end.
#[tokio::test(start_paused = true)]
async fn settings_at_their_ends_neither_spin_nor_overflow() {
    let late = || {
        answering(|burst| {
            Box::pin(stream::once(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(burst.len(), 1);
                Answer::delivered(0)
            }))
        })
    };
    let mut capabilities = Capabilities::sink();
    capabilities.burst_max = 0;
    let no_burst: Arc<dyn Target> = Arc::new(Answering { capabilities, answer: yes });
    let least = lane(late()).slow_after(Duration::ZERO).window(1).lease(Duration::ZERO);
    let most = lane(late()).slow_after(Duration::MAX).lease(Duration::MAX).timeout(Duration::MAX);
    for lane in [least, most, lane(no_burst)] {
        let store = store_with(&["a"]).await;
        let relay =
            Relay::new(Arc::new(store.clone())).lane(lane).grace(Duration::MAX).poll_max(Duration::MAX);
        stopped_after(Duration::from_millis(500), relay).await;
        assert_eq!(all_lanes(&store).await.unwrap()[0].delivered, 1);
    }
}

/// A claim finds an event behind its key's parked head, and is answered only after that head was settled.
#[tokio::test(start_paused = true)]
async fn one_pass_does_not_end_before_what_a_late_claim_put_behind() {
    let memory = store_with(&["a"]).await;
    let sent = Arc::new(AtomicU32::new(0));
    let (publisher, seen) = (memory.clone(), Arc::clone(&sent));
    let target = answering(move |burst| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let error = DeliverError::new(DeliverKind::Failed, "no", "no");
            Box::pin(stream::iter([Answer::failed(0, error)]))
        }
        1 => {
            let follower = publisher.publish(vec![keyed("b")]).now_or_never();
            follower.expect("memory is never waited for").unwrap();
            yes(burst)
        }
        _ => yes(burst),
    });
    let lane = lane(target).retry(Backoff::fixed(Duration::ZERO));
    let store = Arc::new(Hanging::on(memory));
    store.claim_is_late.store(true, Ordering::SeqCst);
    let report = timeout(LONG, Relay::new(store).lane(lane).once()).await.unwrap().unwrap();
    assert_eq!((report.retried, report.delivered), (1, 2));
}

/// Without order nothing is parked behind, so no claim can miss it.
#[tokio::test(start_paused = true)]
async fn without_order_a_failure_is_recorded_beside_a_claim() {
    let store = Arc::new(Hanging::on(store_with(&["a"]).await));
    let hangs = Arc::clone(&store);
    let target = answering(move |_| {
        hangs.claim_hangs.store(true, Ordering::SeqCst);
        let error = DeliverError::new(DeliverKind::Failed, "no", "no");
        Box::pin(stream::iter([Answer::failed(0, error)]))
    });
    let (told, recorded) = tokio::sync::oneshot::channel();
    let told = Mutex::new(Some(told));
    let relay = Relay::new(store).lane(lane(target).order(Order::None)).on_failed(move |_| {
        told.lock().unwrap().take().map(|told| told.send(()));
    });
    let recorded = async { recorded.await.unwrap() };
    timeout(Duration::from_secs(1), relay.run(recorded)).await.expect("long before the lease ends").unwrap();
}

/// Owners crash again and again while all that the lane has is not due: whatever comes next is not to blame.
#[tokio::test(start_paused = true)]
async fn an_event_that_comes_after_the_crashes_is_not_blamed_for_them() {
    let clock = ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000));
    let store = Memory::on(clock.clone());
    let mut next_year = keyed("later");
    next_year.available = Some(Moment::In(Duration::from_secs(365 * 86_400)));
    store.publish(vec![next_year]).await.unwrap();
    let relay = || {
        let lane = lane(answering(yes)).window(1).retry(Backoff::axcom().attempts(1));
        Relay::new(Arc::new(store.clone())).lane(lane)
    };
    for _ in 0..9 {
        let crash = timeout(Duration::from_secs(1), relay().run(std::future::pending()));
        assert!(crash.await.is_err());
        clock.advance(Duration::from_secs(60));
    }
    let new = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.publish(vec![keyed("new")]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    relay().run(new).await.unwrap();
    let lane = &all_lanes(&store).await.unwrap()[0];
    assert_eq!((lane.dead, lane.delivered), (0, 1));
}

/// The store fails now and then and works between: every failure is waited out as the first one is.
#[tokio::test(start_paused = true)]
async fn pauses_begin_anew_when_the_store_has_worked_meanwhile() {
    let store = Arc::new(Hanging::on(store_with(&[]).await));
    let relay = Relay::new(store.clone()).lane(lane(answering(yes)));
    let outages = async {
        for round in 1..=12 {
            store.next_claim_fails.store(true, Ordering::SeqCst);
            store.inner.publish(vec![keyed(&round.to_string())]).await.unwrap();
            let delivered = async {
                while all_lanes(&store.inner).await.unwrap().first().is_none_or(|lane| lane.delivered < round)
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(Duration::from_secs(1), delivered).await.expect("a short pause");
        }
    };
    relay.run(outages).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_forget_that_the_address_is_gone() {
    let store = store_with(&["a", "b"]).await;
    let target = answering(|_| {
        let gone = DeliverError::new(DeliverKind::Gone, "gone", "gone");
        let late = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Answer::delivered(1)
        };
        Box::pin(stream::iter([Answer::failed(0, gone)]).chain(stream::once(late)))
    });
    let relay = Relay::new(Arc::new(store.clone())).lane(lane(target).order(Order::None));
    stopped_after(Duration::from_millis(500), relay).await;
    let lane = &all_lanes(&store).await.unwrap()[0];
    assert_eq!((lane.state, lane.reason.as_deref()), (LaneState::Retired, Some("gone: gone")));
}
