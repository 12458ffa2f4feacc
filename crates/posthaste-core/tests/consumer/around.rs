//! What stands around handlers: limits and hooks; and feeds that fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste_core::broker::{Broker, Delivery, Feed, FeedSpec};
use posthaste_core::consumer::{Consumer, Cx, Failure, Limit};
use posthaste_core::local::LocalBroker;
use posthaste_core::retry::Backoff;
use posthaste_core::store::Parcel;
use posthaste_core::target::{Answer, Capabilities, Target};
use posthaste_core::{BoxFuture, BoxStream, Error, Result as CoreResult};

use crate::{Placed, Seen, run_on};

/// How many are at work now, and how many were at once.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn work(
    cx: &mut Cx<posthaste_core::consumer::NoDatabase, Arc<Busy>>,
    _: Placed,
) -> Result<(), Failure> {
    let now = cx.state().now.fetch_add(1, Ordering::SeqCst) + 1;
    cx.state().most.fetch_max(now, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(10)).await;
    cx.state().now.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

/// Two consumers of four workers each share a limit of three; without it all eight work at once.
#[tokio::test(start_paused = true)]
async fn a_limit_holds_across_consumers_that_share_it() {
    for (limit, most) in [(Some(Limit::to(3)), 3), (None, 8)] {
        let busy = Arc::new(Busy::default());
        let (one, two) = (LocalBroker::new(), LocalBroker::new());
        let consumer = |name: &str| {
            let consumer = Consumer::with_state(name, Arc::clone(&busy)).on(work).workers(4);
            match limit.clone() {
                Some(limit) => consumer.around(limit),
                None => consumer,
            }
        };
        let orders: Vec<_> = (0..20).map(|order| (order, None)).collect();
        tokio::join!(run_on(&one, consumer("one"), &orders), run_on(&two, consumer("two"), &orders));
        assert_eq!(busy.most.load(Ordering::SeqCst), most);
    }
}

/// Order 1 fails twice and passes, order 2 fails until its budget is spent, order 3 is rejected, order 4 is put off once.
async fn stumble(
    cx: &mut Cx<posthaste_core::consumer::NoDatabase, Seen>,
    event: Placed,
) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    let times = cx.state().orders().iter().filter(|order| **order == event.order).count();
    match event.order {
        1 if times < 3 => Err(Failure::retry("not yet").code("stumble")),
        2 => Err(Failure::retry("never again").code("budget")),
        3 => Err(Failure::reject("never").code("never")),
        4 if times < 2 => Err(Failure::later(Duration::from_millis(1))),
        _ => Ok(()),
    }
}

/// What a hook heard: the order, the attempts and the code.
type Heard = Arc<Mutex<Vec<(String, u32, String)>>>;

#[tokio::test(start_paused = true)]
async fn hooks_hear_of_every_failure_and_of_every_death_once() {
    let (failed, dead) = (Heard::default(), Heard::default());
    let hear = |heard: &Heard| {
        let heard = Arc::clone(heard);
        move |letter: &posthaste_core::consumer::Letter| {
            assert_eq!(letter.consumer, "stock");
            let letter = (letter.envelope.id.clone(), letter.attempts, letter.reason.code.clone());
            heard.lock().unwrap().push(letter);
        }
    };
    let consumer = Consumer::with_state("stock", Seen::default())
        .on(stumble)
        .retry(Backoff::fixed(Duration::from_millis(5)).attempts(3))
        .on_failed(hear(&failed))
        .on_dead(hear(&dead));
    run_on(&LocalBroker::new(), consumer, &[(1, None), (2, None), (3, None), (4, None)]).await;
    let sorted = |heard: &Heard| {
        let mut heard = heard.lock().unwrap().clone();
        heard.sort();
        heard
    };
    let letter = |id: &str, attempts, code: &str| (id.to_owned(), attempts, code.to_owned());
    let expected = [
        letter("order-1", 1, "stumble"),
        letter("order-1", 2, "stumble"),
        letter("order-2", 1, "budget"),
        letter("order-2", 2, "budget"),
    ];
    assert_eq!(sorted(&failed), expected, "what is tried again; to be put off is no failure");
    assert_eq!(sorted(&dead), [letter("order-2", 3, "budget"), letter("order-3", 1, "never")]);
}

/// A broker whose feeds break after a few deliveries, and which cannot always be reached.
struct Brittle(LocalBroker, AtomicUsize);

impl Target for Brittle {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.0.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, CoreResult<()>> {
        self.0.ping()
    }
}

impl Broker for Brittle {
    fn feed<'a>(&'a self, spec: &'a FeedSpec) -> BoxFuture<'a, CoreResult<Box<dyn Feed>>> {
        Box::pin(async move {
            let time = self.1.fetch_add(1, Ordering::SeqCst);
            if time % 3 == 1 {
                return Err(Error::unavailable("the script says so"));
            }
            let left = if time > 12 { usize::MAX } else { 2 };
            Ok(Box::new(BrittleFeed(self.0.feed(spec).await?, left)) as Box<dyn Feed>)
        })
    }
}

struct BrittleFeed(Box<dyn Feed>, usize);

impl Feed for BrittleFeed {
    fn next(&mut self, _at_most: usize) -> BoxFuture<'_, CoreResult<Vec<Delivery>>> {
        Box::pin(async move {
            if self.1 == 0 {
                return Err(Error::unavailable("the script says so"));
            }
            self.1 -= 1;
            self.0.next(1).await
        })
    }
}

/// Every event is handled although feeds break again and again; whoever asks is told that it is not ready meanwhile.
#[tokio::test(start_paused = true)]
async fn a_feed_that_fails_is_opened_again() {
    let (broker, seen) = (LocalBroker::new(), Seen::default());
    let consumer = Consumer::with_state("stock", seen.clone()).on(
        async |cx: &mut Cx<posthaste_core::consumer::NoDatabase, Seen>, event: Placed| {
            cx.state().note(event.order, cx.attempt());
            Ok(())
        },
    );
    consumer.declare(&broker).await.unwrap();
    for order in 0..30 {
        let event = posthaste_core::publish::Publish::of(&Placed { order });
        broker.publish(event.id(format!("order-{order}"))).await.unwrap();
    }
    let brittle = Arc::new(Brittle(broker.clone(), AtomicUsize::new(0)));
    let feeds = Arc::clone(&brittle);
    // A broker that is closed waits for nobody whose feed is broken, so everything is handled before.
    let all = async {
        while seen.orders().len() < 30 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        broker.close().await
    };
    let both = async { tokio::join!(consumer.run(brittle as Arc<dyn Broker>, std::future::pending()), all) };
    let (ran, closed) = tokio::time::timeout(Duration::from_secs(600), both).await.unwrap();
    ran.unwrap();
    assert_eq!(closed.left, 0);
    assert!(feeds.1.load(Ordering::SeqCst) > 10, "feeds were opened again and again");
    let mut orders = seen.orders();
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders, (0..30).collect::<Vec<_>>());
}
