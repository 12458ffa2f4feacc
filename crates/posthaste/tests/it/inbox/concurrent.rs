//! The same event at two places at once.

use std::time::Duration;

use posthaste::consumer::{Consumer, Inbox};
use posthaste::envelope::Envelope;
use posthaste::local::LocalBroker;
use posthaste::sql::Database;
use tokio::time::timeout;

use crate::inbox::place::Place;
use crate::inbox::{Runs, drain, on_every_driver, placed, reserve};

const ORDERS: u32 = 60;
/// Long enough for a database to answer what does not have to wait.
const A_WHILE: Duration = Duration::from_millis(200);

on_every_driver! {
    two_processes_never_handle_an_event_twice,
    a_second_entry_waits_for_the_first_and_finds_it,
    a_second_entry_takes_the_place_of_a_first_that_was_undone,
}

/// Two consumers of one name, each with a broker of its own that has every event: as two processes after a network split.
async fn two_processes_never_handle_an_event_twice<D: Database>(place: Place<D>) {
    let runs = Runs::default();
    let brokers = [LocalBroker::new(), LocalBroker::new()];
    let mut consumers = Vec::new();
    for broker in &brokers {
        let consumer =
            Consumer::new("stock", place.database.clone(), runs.clone()).on(reserve::<D>).workers(3);
        consumer.declare(broker).await.unwrap();
        for order in 0..ORDERS {
            broker.publish(placed(order)).await.unwrap();
        }
        consumers.push(consumer);
    }
    let (second, first) = (consumers.pop().unwrap(), consumers.pop().unwrap());
    tokio::join!(drain(&brokers[0], first), drain(&brokers[1], second));
    assert_eq!(runs.of_each().len(), ORDERS as usize);
    assert!(runs.of_each().values().all(|runs| *runs == 1), "{:?}", runs.of_each());
    assert_eq!((place.effects().await, place.twice().await), (u64::from(ORDERS), 0));
}

/// Enters an event in a transaction of its own and commits; answers whether it was new.
async fn enter<D: Database>(place: &Place<D>, event: &Envelope) -> bool {
    let mut tx = place.database.begin().await.unwrap();
    let entered = Inbox::of("stock").enter(&mut tx, &[event]).await.unwrap();
    D::commit(tx).await.unwrap();
    entered == 1
}

async fn a_second_entry_waits_for_the_first_and_finds_it<D: Database>(place: Place<D>) {
    let event = Envelope::new("order.placed", "{}");
    let mut first = place.database.begin().await.unwrap();
    assert_eq!(Inbox::of("stock").enter(&mut first, &[&event]).await.unwrap(), 1);
    let mut second = std::pin::pin!(enter(&place, &event));
    assert!(timeout(A_WHILE, &mut second).await.is_err(), "the second did not wait");
    D::commit(first).await.unwrap();
    assert!(!second.await, "both were new");
}

async fn a_second_entry_takes_the_place_of_a_first_that_was_undone<D: Database>(place: Place<D>) {
    let event = Envelope::new("order.placed", "{}");
    let mut first = place.database.begin().await.unwrap();
    assert_eq!(Inbox::of("stock").enter(&mut first, &[&event]).await.unwrap(), 1);
    let mut second = std::pin::pin!(enter(&place, &event));
    assert!(timeout(A_WHILE, &mut second).await.is_err(), "the second did not wait");
    drop(first);
    assert!(second.await, "nobody has it");
}
