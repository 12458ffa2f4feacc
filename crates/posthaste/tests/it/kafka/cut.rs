//! Connections that are cut, and connections that nobody answers on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste::admin::all_lanes;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher as _;
use posthaste::relay::{Lane, Relay};
use posthaste::retry::Backoff;
use posthaste::target::{DeliverKind, Target as _};
use posthaste_testkit::proxy::Weather;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::kafka::behind::behind;
use crate::kafka::stand::{event, send, until};

/// Cut again and again while a relay delivers, then mute for a while: everything arrives, and no attempt is counted, for an event that
/// fails once is dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_loses_nothing_and_costs_no_attempt() {
    let Some((stand, proxy)) = behind("a_connection_that_is_cut_loses_nothing_and_costs_no_attempt") else {
        return;
    };
    stand.make("t", &[]).await;
    let target = stand.open("ack_timeout=2s&connect_timeout=2s");
    until("a young broker takes it", async || send(&target, vec![event("first", "t")]).await[0].is_ok())
        .await;
    for weather in [Weather::Refuse, Weather::Stall] {
        proxy.set(weather);
        let error = send(&target, vec![event("unheard", "t")]).await.remove(0).unwrap_err();
        assert_eq!(error.kind, DeliverKind::Unavailable, "{weather:?}: {error}");
        proxy.set(Weather::Fair);
        proxy.cut();
        until("the target is back", async || target.ping().await.is_ok()).await;
    }
    let store = Arc::new(Memory::new());
    let lane = Lane::named("main").unwrap().to(Arc::new(target)).retry(Backoff::default().attempts(1));
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(async move { relay.run(async { drop(stopped.await) }).await.map(drop) });
    let delivered = async || all_lanes(&*store).await.unwrap().first().map_or(0, |lane| lane.delivered);
    let mut sent = 0;
    for _ in 0..3 {
        store.publish((sent..sent + 300).map(|n| event(n.to_string(), "t")).collect()).await.unwrap();
        sent += 300;
        until("something is delivered", async || delivered().await > sent - 300).await;
        proxy.cut();
    }
    until("everything is delivered", async || delivered().await == sent).await;
    let _ = stop.send(());
    running.join_next().await.unwrap().unwrap().unwrap();
    let ids = stand.ids("t");
    assert!((0..sent).all(|id| ids.contains(&id.to_string())));
}

/// Brokers that take long to answer are not asked about one topic after another for ever: an answer that comes later than it was promised
/// would count as a failure of the events.
#[tokio::test(flavor = "multi_thread")]
async fn topics_that_are_not_found_in_time_wait_and_cost_no_attempt() {
    let Some((stand, proxy)) = behind("topics_that_are_not_found_in_time_wait_and_cost_no_attempt") else {
        return;
    };
    let topics: Vec<String> = (0..60).map(|number| format!("t{number:02}")).collect();
    for topic in &topics {
        stand.make(topic, &[]).await;
    }
    let target = stand.open("ack_timeout=4s");
    assert!(send(&target, vec![event("first", "t00")]).await[0].is_ok());
    // There and back, for each topic.
    proxy.set(Weather::Delay(Duration::from_millis(300)));
    let begun = Instant::now();
    let answers = send(&target, topics.iter().map(|topic| event("slow", topic)).collect()).await;
    assert!(begun.elapsed() < target.capabilities().answers_within, "{:?}", begun.elapsed());
    let mut unasked = 0;
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_ne!(error.kind, DeliverKind::Failed, "{error}");
        unasked += usize::from(error.message.contains("not looked for yet"));
    }
    assert!(unasked > 0, "{answers:?}");
    proxy.set(Weather::Fair);
    until("the rest is taken", async || {
        send(&target, topics.iter().map(|topic| event("slow", topic)).collect())
            .await
            .iter()
            .all(Result::is_ok)
    })
    .await;
}
