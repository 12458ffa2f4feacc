//! A lane with an event whose topic is not there, whatever the broker is.

use std::sync::Arc;

use posthaste::admin::{Actor, Admin as _, Command, EventState, Filter, LaneView, Pace, Page, all_lanes};
use posthaste::envelope::Envelope;
use posthaste::memory::Memory;
use posthaste::publisher::Publisher as _;
use posthaste::relay::{Lane, Relay};
use posthaste::target::Target;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::sending::{event, until};

/// Two events of a key, the first with a mistyped topic, and one without: the lane waits for that topic at first and names it. Then only
/// the key does, the others go on, and whoever gives up an event with a mistyped topic can do so. The topic comes: so do the events.
pub(crate) async fn holds_only_its_own_key(
    target: Arc<dyn Target>,
    ids: impl AsyncFn(&str) -> Vec<String>,
    make: impl AsyncFn(&str),
) {
    let ids = async |topic: &str| {
        let mut ids = ids(topic).await;
        ids.sort_unstable();
        ids
    };
    let store = Arc::new(Memory::new());
    let lane = Lane::named("main").unwrap().to(Arc::clone(&target));
    let relay = Relay::new(Arc::clone(&store) as _).lane(lane);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = JoinSet::new();
    running.spawn(async move { relay.run(async { drop(stopped.await) }).await.map(drop) });

    store.publish(vec![keyed("1", "late"), keyed("2", "there"), event("never", "mistyped")]).await.unwrap();
    until("the lane waits", async || target.ping().await.is_err()).await;
    store.publish(vec![event("3", "there")]).await.unwrap();
    until("what has a topic is there", async || ids("there").await == ["3"]).await;
    for (id, topic) in [("1", "late"), ("never", "mistyped")] {
        until("it waits without its lane", async || view(&store, id).await.state == EventState::Retrying)
            .await;
        let waits = view(&store, id).await;
        assert_eq!(waits.attempts, 0, "{waits:?}");
        assert!(waits.code.is_some_and(|code| code.starts_with("missing ")));
        assert!(waits.last_error.is_some_and(|said| said.contains(topic)));
    }
    target.ping().await.unwrap();
    store.publish(vec![event("4", "there")]).await.unwrap();
    until("it waits for nothing", async || ids("there").await == ["3", "4"]).await;
    assert_eq!(view(&store, "2").await.state, EventState::Behind);

    // What has a key behind it is not given up: the key would go on.
    let reason = || "mistyped".to_owned();
    for (command, state) in [
        (Command::Bury { reason: reason(), dry_run: false }, EventState::Dead),
        (Command::Discard { reason: reason(), dry_run: false }, EventState::Discarded),
    ] {
        // It may be on its way at that moment.
        until("it is given up", async || {
            store
                .apply(&only("never"), command.clone(), &Actor::new("test", "test"), &Pace::full())
                .await
                .unwrap();
            view(&store, "never").await.state == state
        })
        .await;
    }

    make("late").await;
    until("the topic came", async || ids("late").await == ["1"]).await;
    until("its key goes on", async || ids("there").await == ["2", "3", "4"]).await;
    until("all is settled", async || {
        let lanes = all_lanes(&*store).await.unwrap();
        (lanes[0].delivered, lanes[0].waiting, lanes[0].discarded) == (4, 0, 1)
    })
    .await;
    let _ = stop.send(());
    running.join_next().await.unwrap().unwrap().unwrap();
}

fn keyed(id: &str, topic: &str) -> Envelope {
    let mut event = event(id, topic);
    event.key = Some("k".to_owned());
    event
}

fn only(id: &str) -> Filter {
    let mut filter = Filter::default();
    filter.lane = Some("main".parse().unwrap());
    filter.ids = vec![id.to_owned()];
    filter
}

async fn view(store: &Memory, id: &str) -> LaneView {
    let found = store.find(&only(id), Page::first(1)).await.unwrap();
    found.records.into_iter().next().unwrap().lanes.pop().unwrap()
}
