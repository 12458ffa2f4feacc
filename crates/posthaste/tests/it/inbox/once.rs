//! Every delivery of an event but one has no effect.

use posthaste::consumer::Consumer;
use posthaste::lane::Order;
use posthaste::local::LocalBroker;
use posthaste::sql::Database;

use crate::inbox::place::Place;
use crate::inbox::{Runs, drain, on_every_driver, placed, reserve};

const ORDERS: u32 = 30;
const DELIVERIES: u32 = 4;

on_every_driver! { an_event_that_comes_again_has_its_effect_once, consumers_of_other_names_have_effects_of_their_own }

/// All deliveries of an event are handed to several workers at once.
async fn an_event_that_comes_again_has_its_effect_once<D: Database>(place: Place<D>) {
    let (broker, runs) = (LocalBroker::new(), Runs::default());
    let consumer = Consumer::new("stock", place.database.clone(), runs.clone());
    let consumer = consumer.on(reserve::<D>).order(Order::None).workers(4);
    consumer.declare(&broker).await.unwrap();
    for order in 0..ORDERS {
        for _ in 0..DELIVERIES {
            broker.publish(placed(order)).await.unwrap();
        }
    }
    drain(&broker, consumer).await;
    assert_eq!(runs.of_each().len(), ORDERS as usize);
    assert!(runs.of_each().values().all(|runs| *runs == 1), "{:?}", runs.of_each());
    assert_eq!((place.effects().await, place.twice().await), (u64::from(ORDERS), 0));
    assert_eq!((place.inbox_rows().await, place.outgoing().await), (u64::from(ORDERS), ORDERS as usize));
    assert!(broker.dead().is_empty());
}

async fn consumers_of_other_names_have_effects_of_their_own<D: Database>(place: Place<D>) {
    let broker = LocalBroker::new();
    let consumer = |name: &str| Consumer::new(name, place.database.clone(), Runs::default()).on(reserve::<D>);
    let (stock, mail) = (consumer("stock"), consumer("mail"));
    stock.declare(&broker).await.unwrap();
    mail.declare(&broker).await.unwrap();
    broker.publish(placed(1)).await.unwrap();
    tokio::join!(drain(&broker, stock), drain(&broker, mail));
    assert_eq!((place.effects().await, place.inbox_rows().await), (2, 2));
}
