//! What consumers remember goes when it is old enough, in small steps.

use std::time::Duration;

use posthaste::admin::{Actor, Applied, Command, Filter};
use posthaste::consumer::Inbox;
use posthaste::envelope::Envelope;
use posthaste::sql::Database;

use crate::on_every_driver;
use crate::place::Place;

/// More than one step of any store.
const OLD: usize = 5_120 + 512;
const HOUR: Duration = Duration::from_secs(3_600);

on_every_driver! { old_rows_go_and_young_ones_stay }

async fn enter<D: Database>(place: &Place<D>, count: usize) -> Vec<Envelope> {
    let events: Vec<_> = (0..count).map(|_| Envelope::new("order.placed", "{}")).collect();
    let all: Vec<_> = events.iter().collect();
    let mut tx = place.database.begin().await.unwrap();
    assert_eq!(Inbox::of("stock").enter(&mut tx, &all).await.unwrap(), count as u64);
    D::commit(tx).await.unwrap();
    events
}

/// Every row becomes two hours old.
async fn age<D: Database>(place: &Place<D>) {
    let tx = place.database.begin().await.unwrap();
    let sql = match posthaste::sql::Tx::dialect(&tx) {
        posthaste::sql::Dialect::Postgres => {
            "UPDATE posthaste_inbox SET handled_at = handled_at - interval '2 hours'"
        }
        _ => "UPDATE posthaste_inbox SET handled_at = handled_at - 7200000000",
    };
    drop(tx);
    place.say(sql).await;
}

async fn old_rows_go_and_young_ones_stay<D: Database>(place: Place<D>) {
    enter(&place, OLD).await;
    age(&place).await;
    let young = enter(&place, 3).await;
    let prune = async |dry_run| {
        let command = Command::PruneInbox { age: HOUR, dry_run };
        place.store.apply(&Filter::default(), command, &Actor::new("test", "test")).await.unwrap()
    };
    let old = OLD as u64;
    assert_eq!(prune(true).await, Applied::new(old, 0));
    assert_eq!(prune(false).await, Applied::new(old, old));
    assert_eq!(prune(false).await, Applied::new(0, 0));
    assert_eq!(place.inbox_rows().await, 3);
    let mut tx = place.database.begin().await.unwrap();
    let again: Vec<_> = young.iter().collect();
    assert_eq!(Inbox::of("stock").enter(&mut tx, &again).await.unwrap(), 0, "the young are remembered");
}
