//! Many events in one transaction.

use std::time::Duration;

use posthaste::consumer::{Consumer, Cx, Failure};
use posthaste::lane::Order;
use posthaste::local::LocalBroker;
use posthaste::retry::Backoff;
use posthaste::sql::Database;

use crate::inbox::place::Place;
use crate::inbox::{Placed, Reserved, Runs, drain, effect, on_every_driver, placed};

const ORDERS: u32 = 200;
const POISON: u32 = 77;

on_every_driver! { a_batch_has_every_effect_once_and_finds_the_one_that_fails }

async fn reserve_but_one<D: Database>(cx: &mut Cx<D, Runs>, event: Placed) -> Result<(), Failure> {
    effect(cx, event.order).await?;
    cx.publish(&Reserved { order: event.order }).await?;
    if event.order == POISON { Err(Failure::reject("poison")) } else { Ok(()) }
}

/// Every third event comes twice, one always fails, and two workers do batches at once.
async fn a_batch_has_every_effect_once_and_finds_the_one_that_fails<D: Database>(place: Place<D>) {
    let broker = LocalBroker::new();
    let quickly = Backoff::exponential(Duration::from_millis(1)).attempts(3);
    let consumer = Consumer::new("stock", place.database.clone(), Runs::default());
    let consumer = consumer.on(reserve_but_one::<D>).order(Order::None).workers(2).batch(32).retry(quickly);
    consumer.declare(&broker).await.unwrap();
    for order in 0..ORDERS {
        broker.publish(placed(order)).await.unwrap();
        if order % 3 == 0 {
            broker.publish(placed(order)).await.unwrap();
        }
    }
    drain(&broker, consumer).await;
    let dead: Vec<_> = broker.dead().into_iter().map(|letter| letter.envelope.id.clone()).collect();
    assert_eq!(dead, [format!("order-{POISON}")]);
    let handled = u64::from(ORDERS - 1);
    assert_eq!((place.effects().await, place.twice().await), (handled, 0));
    assert_eq!((place.inbox_rows().await, place.outgoing().await as u64), (handled, handled));
}
