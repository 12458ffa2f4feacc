//! A consumer that writes down what it sees, and fails as it is told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::broker::Broker;
use posthaste::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste::envelope::Envelope;
use posthaste::lane::Order;
use posthaste::target::Target;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::rabbitmq_target::stand::{event, send, until};

/// The topic of all events here.
pub(crate) const TOPIC: &str = "orders";

/// What handlers saw, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    calls: Arc<Mutex<Vec<(String, u32, Instant)>>>,
    pub(crate) fails: Arc<AtomicBool>,
}

impl Seen {
    pub(crate) fn calls(&self) -> Vec<(String, u32, Instant)> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.calls().into_iter().map(|(id, _, _)| id).collect()
    }

    /// Waits until all of these were seen.
    pub(crate) async fn has(&self, ids: &[String]) {
        until("everything was handled", async || {
            let seen = self.ids();
            ids.iter().all(|id| seen.contains(id))
        })
        .await;
    }
}

async fn look(cx: &mut Cx<NoDatabase, Seen>, event: Arc<Envelope>) -> Result<(), Failure> {
    let seen = cx.state().clone();
    seen.calls.lock().unwrap().push((event.id.clone(), cx.attempt(), Instant::now()));
    if seen.fails.load(Ordering::SeqCst) { Err("as it was to be")? } else { Ok(()) }
}

/// A consumer of the topic in this group, without order.
pub(crate) fn consumer(group: &str, seen: &Seen) -> Consumer<NoDatabase, Seen> {
    Consumer::with_state(group, seen.clone()).on_any(look).topics([TOPIC]).order(Order::None)
}

/// A consumer that runs until it is stopped.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinSet<posthaste::Result<()>>,
}

impl Running {
    pub(crate) async fn start<S, B>(consumer: Consumer<NoDatabase, S>, broker: &B) -> Self
    where
        S: Send + Sync + 'static,
        B: Clone + Into<Arc<dyn Broker>>,
    {
        let readiness = consumer.readiness();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut task = JoinSet::new();
        let broker: Arc<dyn Broker> = broker.clone().into();
        task.spawn(async move { consumer.run(broker, async { drop(stopped.await) }).await });
        until("the consumer is ready", async || readiness.is_ready()).await;
        Self { stop: Some(stop), task }
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task.join_next()).await;
        ended.unwrap().unwrap().unwrap().unwrap();
    }
}

/// Publishes events with these ids, again and again until they are taken.
pub(crate) async fn publish(broker: &dyn Target, ids: &[String]) {
    for id in ids {
        until("the event is taken", async || {
            send(broker, vec![event(id.clone(), TOPIC)]).await.iter().all(Result::is_ok)
        })
        .await;
    }
}

pub(crate) fn ids(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}-{number:03}")).collect()
}
