//! The order of a key: a failing event holds it, for a time, and no other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::admin::{Admin, Filter, Page};
use posthaste::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste::envelope::Envelope;
use posthaste::retry::Backoff;

use crate::rabbitmq_consume::seen::{Running, TOPIC};
use crate::rabbitmq_target::stand::{Stand, event, send, until};

/// What was handled, in order.
type Handled = Arc<Mutex<Vec<String>>>;

async fn all_but_the_first(cx: &mut Cx<NoDatabase, Handled>, event: Arc<Envelope>) -> Result<(), Failure> {
    if event.id == "a-1" {
        return Err(Failure::retry("it never works").code("never"));
    }
    cx.state().lock().unwrap().push(event.id.clone());
    Ok(())
}

/// The first event of a key fails for ever, with a budget without end. Its key waits for the time that the URL says, then it is
/// dead and the key goes on. Another key has not waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_event_holds_its_key_for_so_long_and_no_other() {
    let Some(stand) = Stand::shared("a_failing_event_holds_its_key").await else { return };
    let broker = stand.open("hold_max=1500ms");
    let handled = Handled::default();
    let policy = Backoff::fixed(Duration::from_millis(50)).attempts(u32::MAX);
    let consumer = Consumer::with_state(&stand.name, Arc::clone(&handled)).on_any(all_but_the_first);
    let running = Running::start(consumer.topics([TOPIC]).retry(policy), &broker).await;
    let began = tokio::time::Instant::now();
    let events = ["a-1", "a-2", "b-1", "b-2"].map(|id| {
        let mut event = event(id, TOPIC);
        event.key = id.split('-').next().map(str::to_owned);
        event
    });
    assert!(send(&broker, events.to_vec()).await.iter().all(Result::is_ok));
    until("the other key is done", async || handled.lock().unwrap().len() >= 2).await;
    assert_eq!(*handled.lock().unwrap(), ["b-1", "b-2"], "the first key waits, the other does not");
    until("the key goes on", async || handled.lock().unwrap().len() >= 3).await;
    let waited = began.elapsed();
    assert_eq!(*handled.lock().unwrap(), ["b-1", "b-2", "a-2"]);
    assert!(waited >= Duration::from_millis(1_500) && waited < Duration::from_secs(30), "after {waited:?}");
    let mut filter = Filter::default();
    filter.lane = Some(stand.name.parse().unwrap());
    let dead = broker.find(&filter, Page::first(10)).await.unwrap().records;
    assert_eq!((dead.len(), dead[0].envelope.id.as_str()), (1, "a-1"));
    let view = &dead[0].lanes[0];
    assert!(view.attempts > 5, "it was tried again and again: {view:?}");
    assert!(view.last_error.as_deref().unwrap().contains("its key has waited for 1.5s"), "{view:?}");
    running.stop().await;
}
