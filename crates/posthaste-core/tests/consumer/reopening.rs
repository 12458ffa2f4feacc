//! A feed that fails is opened anew, and what came on the old one is let go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posthaste_core::broker::{Broker, Delivery, Feed, FeedSpec};
use posthaste_core::consumer::{Consumer, Cx, Failure, NoDatabase};
use posthaste_core::local::LocalBroker;
use posthaste_core::publish::Publish;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result};
use tokio::time::{Instant, sleep};

use crate::{Placed, Seen};

type C = Cx<NoDatabase, Seen>;

/// A broker whose first feed breaks a while after it handed everything out.
struct Breaking(LocalBroker, AtomicU32);

impl Target for Breaking {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.0.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.0.ping()
    }
}

impl Broker for Breaking {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, Result<Box<dyn Feed>>> {
        Box::pin(async move {
            let feed = self.0.feed(spec).await?;
            match self.1.fetch_add(1, Ordering::SeqCst) {
                0 => Ok(Box::new(BreakingFeed(feed, false)) as Box<dyn Feed>),
                _ => Ok(feed),
            }
        })
    }
}

struct BreakingFeed(Box<dyn Feed>, bool);

impl Feed for BreakingFeed {
    fn next(&mut self, at_most: usize) -> BoxFuture<'_, Result<Vec<Delivery>>> {
        Box::pin(async move {
            if !std::mem::replace(&mut self.1, true) {
                return self.0.next(at_most).await;
            }
            sleep(Duration::from_secs(1)).await;
            Err(Error::unavailable("the connection broke"))
        })
    }
}

async fn takes_long(cx: &mut C, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    sleep(Duration::from_secs(10)).await;
    cx.state().note(event.order + 100, cx.attempt());
    Ok(())
}

/// One of two is at the only worker when the feed breaks: it ends first, and the other one, which nobody had begun, comes on
/// the new feed and not before.
#[tokio::test(start_paused = true)]
async fn whoever_is_at_work_ends_before_a_feed_is_opened_again() {
    let (local, seen, start) = (LocalBroker::new(), Seen::default(), Instant::now());
    let broker = Arc::new(Breaking(local.clone(), AtomicU32::new(0)));
    let consumer = Consumer::with_state("stock", seen.clone()).on(takes_long).workers(1);
    let opened = Arc::clone(&broker);
    local
        .feed(&FeedSpec::new("stock", vec!["#".parse().unwrap()]).order(posthaste_core::lane::Order::PerKey))
        .await
        .unwrap();
    for order in [1, 2] {
        local.publish(Publish::of(&Placed { order })).await.unwrap();
    }
    let watch = async {
        sleep(Duration::from_secs(9)).await;
        assert_eq!(opened.1.load(Ordering::SeqCst), 1, "not opened again while somebody is at work");
        // The broker does not wait for a group that nobody reads.
        sleep(Duration::from_secs(3)).await;
        local.close().await
    };
    let (ran, closed) =
        tokio::join!(consumer.run(broker.clone() as Arc<dyn Broker>, std::future::pending()), watch);
    ran.unwrap();
    assert_eq!(closed.left, 0);
    assert_eq!(opened.1.load(Ordering::SeqCst), 2);
    let times: Vec<_> = seen.all().iter().map(|(what, _, at)| (*what, (*at - start).as_secs())).collect();
    assert_eq!(times, [(1, 0), (101, 10), (2, 10), (102, 20)]);
}
