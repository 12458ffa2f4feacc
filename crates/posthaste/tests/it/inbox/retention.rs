//! What consumers remember goes when it is old enough, in small steps.

use std::time::Duration;

use posthaste::admin::{Actor, Applied, Command, Filter, Pace};
use posthaste::consumer::Inbox;
use posthaste::envelope::Envelope;
use posthaste::sql::Database;

use crate::inbox::on_every_driver;
use crate::inbox::place::Place;

/// More than one step of any store.
const OLD: usize = 5_120 + 512;
const HOUR: Duration = Duration::from_secs(3_600);

on_every_driver! { old_rows_go_and_young_ones_stay }

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_rows_go_and_young_ones_stay_on_mariadb() {
    let trial = "retention::old_rows_go_and_young_ones_stay_on_mariadb";
    let Some(place) = crate::inbox::place::sqlx_mysql(trial).await else { return };
    place
        .say(
            "INSERT INTO posthaste_dedup (consumer, event_id, source, state, token, at) VALUES
             ('c', 'old', '', 'failed', 't', utc_timestamp(6) - INTERVAL 2 HOUR),
             ('c', 'busy', '', 'in_progress', 't', utc_timestamp(6) - INTERVAL 2 HOUR),
             ('c', 'young', '', 'processed', 't', utc_timestamp(6))",
        )
        .await;
    let prune = Command::PruneInbox { age: HOUR, dry_run: false };
    let pruned = place
        .store
        .apply(&Filter::default(), prune, &Actor::new("test", "test"), &Pace::full())
        .await
        .unwrap();
    assert_eq!(pruned, Applied::new(1, 1), "an idempotency record that has ended, and is old");
    assert_eq!(place.say("UPDATE posthaste_dedup SET token = token").await, 2);
    old_rows_go_and_young_ones_stay(place).await;
}

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
        posthaste::sql::Dialect::Mysql => {
            "UPDATE posthaste_inbox SET handled_at = handled_at - INTERVAL 2 HOUR"
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
        place
            .store
            .apply(&Filter::default(), command, &Actor::new("test", "test"), &Pace::full())
            .await
            .unwrap()
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
