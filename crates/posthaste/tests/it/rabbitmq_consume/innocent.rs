//! Events that come again because something else broke: nobody says that they failed.

use std::collections::HashMap;
use std::sync::Arc;

use posthaste::broker::amqp::AmqpBroker;
use posthaste::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste::envelope::Envelope;
use posthaste::lane::Order;
use posthaste_testkit::proxy::Proxy;
use tokio::sync::watch;

use crate::rabbitmq_consume::seen::{Running, TOPIC, ids, publish};
use crate::rabbitmq_target::stand::{Stand, address, until};

const CUTS: u32 = 8;

/// Writes down what it gets, and is done with it after the next cut of the connection, or at once when there were enough.
#[derive(Clone)]
struct Waiting {
    /// How many cuts were begun. What comes again while one is made must wait for the next: it may be on a new connection already.
    begun: watch::Receiver<u32>,
    /// How many cuts were made.
    made: watch::Receiver<u32>,
    /// Each with its attempt, and how many cuts there were before.
    calls: Arc<std::sync::Mutex<Vec<(String, u32, u32)>>>,
}

async fn wait(cx: &mut Cx<NoDatabase, Waiting>, event: Arc<Envelope>) -> Result<(), Failure> {
    let mut waiting = cx.state().clone();
    let before = *waiting.begun.borrow();
    waiting.calls.lock().unwrap().push((event.id.clone(), cx.attempt(), before));
    waiting.made.wait_for(|made| *made > before || before >= CUTS).await?;
    Ok(())
}

/// The connection is cut again and again while events are at work, on queues of both types: they come again each time, after a
/// while alone and on record, and every time it is their first attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_again_and_again_spends_no_attempt() {
    let Some(stand) = Stand::shared("a_connection_that_is_cut_again_and_again").await else { return };
    let proxy = Proxy::in_front_of(address(&stand.url)).await.unwrap();
    let url = stand.url.replace(&address(&stand.url).to_string(), &proxy.address().to_string());
    for queues in ["quorum", "classic"] {
        let ((begin, begun), (make, made)) = (watch::channel(0), watch::channel(0));
        let settings = format!("exchange={}&monitor=500ms&reconnect_max=1s&queue_type={queues}", stand.name);
        let broker = AmqpBroker::at(&format!("{url}?{settings}")).unwrap();
        let group = format!("{}-{queues}", stand.name);
        let waiting = Waiting { begun, made, calls: Arc::default() };
        let calls = || waiting.calls.lock().unwrap().clone();
        let consumer = Consumer::with_state(group, waiting.clone()).on_any(wait).topics([TOPIC]);
        let running = Running::start(consumer.order(Order::None), &broker).await;
        let all = ids(queues, 5);
        publish(&stand.open(""), &all).await;
        for cut in 1..=CUTS {
            // What began after the last cut is at work until the next.
            until("something is at work", async || calls().iter().any(|(_, _, before)| *before == cut - 1))
                .await;
            begin.send_replace(cut);
            // Through a connection that is still open they would be acknowledged.
            proxy.cut_through().await;
            make.send_replace(cut);
        }
        until("all are done", async || {
            let calls = calls();
            all.iter().all(|id| calls.iter().any(|(seen, ..)| seen == id))
        })
        .await;
        running.stop().await;
        let mut times: HashMap<String, u32> = HashMap::new();
        for (id, attempt, _) in calls() {
            assert_eq!(attempt, 1, "{id} on {queues}: {:?}", calls());
            *times.entry(id).or_default() += 1;
        }
        // What comes for the third time is on trial, and then it is alone: which of them the later cuts hit is chance.
        assert!(
            times.values().any(|times| *times > 2),
            "nothing came often enough to be on trial: {times:?}"
        );
    }
}
