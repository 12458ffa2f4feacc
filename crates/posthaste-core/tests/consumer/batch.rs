//! One transaction for many events.

use std::sync::{Arc, Mutex};

use posthaste_core::admin::{Admin, Filter, Page};
use posthaste_core::consumer::{Consumer, Cx, Failure};
use posthaste_core::local::LocalBroker;
use posthaste_core::memory::{Memory, MemoryTx};
use posthaste_core::publish::Publish;
use posthaste_sql::{BoxFuture, Database, Dialect, Result as SqlResult, Statement, Tx, Value};

use crate::{Placed, Seen, run_on};

/// A store that counts its commits.
#[derive(Clone)]
struct Counted(Memory, Arc<Mutex<u32>>);

thread_local! {
    static COMMITS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl Database for Counted {
    type Tx = MemoryTx;

    fn begin(&self) -> BoxFuture<'_, SqlResult<MemoryTx>> {
        *self.1.lock().unwrap() += 1;
        Database::begin(&self.0)
    }

    fn commit(tx: MemoryTx) -> BoxFuture<'static, SqlResult<()>> {
        COMMITS.set(COMMITS.get() + 1);
        <Memory as Database>::commit(tx)
    }
}

async fn answer(cx: &mut Cx<Counted, Seen>, event: Placed) -> Result<(), Failure> {
    cx.state().note(event.order, cx.attempt());
    cx.publish(Publish::raw("order.answered", event.order.to_string()).id(format!("answer-{}", event.order)))
        .await?;
    if event.order == 5 { Err(Failure::reject("five is right out")) } else { Ok(()) }
}

async fn answers(store: &Memory) -> Vec<String> {
    let found = store.find(&Filter::default(), Page::first(100)).await.unwrap();
    let mut ids: Vec<_> = found.records.into_iter().map(|record| record.envelope.id).collect();
    ids.sort();
    ids
}

fn stock(store: &Memory, seen: &Seen) -> Consumer<Counted, Seen> {
    Consumer::new("stock", Counted(store.clone(), Arc::default()), seen.clone())
        .on(answer)
        .workers(1)
        .batch(8)
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_one_transaction() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    let orders: Vec<_> = (10..18).map(|order| (order, None)).collect();
    run_on(&broker, stock(&store, &seen), &orders).await;
    assert_eq!((COMMITS.get(), answers(&store).await.len()), (1, 8));
}

/// Of eight, the sixth is rejected: it alone is dead, and all others have their effect once.
#[tokio::test(start_paused = true)]
async fn a_failing_event_is_found_by_halving_and_the_others_have_their_effect_once() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    let orders: Vec<_> = (0..8).map(|order| (order, None)).collect();
    run_on(&broker, stock(&store, &seen), &orders).await;
    let expected: Vec<_> =
        (0..8).filter(|order| *order != 5).map(|order| format!("answer-{order}")).collect();
    assert_eq!(answers(&store).await, expected);
    let dead: Vec<_> = broker.dead().iter().map(|letter| letter.envelope.id.clone()).collect();
    assert_eq!(dead, ["order-5"]);
    assert_eq!(COMMITS.get(), 3, "0 to 3, then 4, then 6 and 7");
}

/// What a database was asked, in its order.
type Asked = Arc<Mutex<Vec<String>>>;

/// A store that notes the inbox rows and the effects.
#[derive(Clone)]
struct Noted(Memory, Asked);

struct NotedTx(MemoryTx, Asked);

impl Database for Noted {
    type Tx = NotedTx;

    fn begin(&self) -> BoxFuture<'_, SqlResult<NotedTx>> {
        self.1.lock().unwrap().push("begin".to_owned());
        Box::pin(async { Ok(NotedTx(Database::begin(&self.0).await?, Arc::clone(&self.1))) })
    }

    fn commit(tx: NotedTx) -> BoxFuture<'static, SqlResult<()>> {
        <Memory as Database>::commit(tx.0)
    }
}

impl Tx for NotedTx {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, SqlResult<u64>> {
        let is_inbox = statement.sql.contains("inbox");
        let ids = statement.values.chunks(3).filter_map(|row| match &row[1] {
            Value::Text(Some(id)) if is_inbox => Some(id.clone()),
            _ => None,
        });
        let ids: Vec<String> = ids.collect();
        self.1.lock().unwrap().push(if is_inbox { ids.join(" ") } else { "effect".to_owned() });
        self.0.execute(statement)
    }
}

/// Two batches that share events must ask for the rows in one order, or each could wait for the other: also where some are
/// duplicates, and before any effect, which may hold a lock too.
#[tokio::test(start_paused = true)]
async fn the_rows_of_a_batch_with_duplicates_are_entered_in_one_order_before_any_effect() {
    async fn answer(cx: &mut Cx<Noted>, event: Placed) -> Result<(), Failure> {
        cx.publish(Publish::raw("order.answered", event.order.to_string())).await?;
        Ok(())
    }
    let (store, asked) = (Memory::new(), Asked::default());
    let stock = || {
        Consumer::new("stock", Noted(store.clone(), Arc::clone(&asked)), ()).on(answer).workers(1).batch(8)
    };
    run_on(&LocalBroker::new(), stock(), &[(3, None)]).await;
    asked.lock().unwrap().clear();
    run_on(&LocalBroker::new(), stock(), &[(4, None), (3, None), (2, None), (1, None)]).await;
    let asked = asked.lock().unwrap().clone();
    let again = asked.iter().rposition(|one| one == "begin").unwrap();
    let expected = ["order-1", "order-2", "order-3", "order-4", "effect", "effect", "effect"];
    assert_eq!(asked[again + 1..], expected, "{asked:?}");
}

/// Half of a batch was handled before.
#[tokio::test(start_paused = true)]
async fn duplicates_in_a_batch_are_left_out() {
    let (broker, store, seen) = (LocalBroker::new(), Memory::new(), Seen::default());
    run_on(&broker, stock(&store, &seen), &[(1, None), (3, None)]).await;
    let again = LocalBroker::new();
    run_on(&again, stock(&store, &seen), &[(1, None), (2, None), (3, None), (4, None)]).await;
    assert_eq!(seen.orders(), [1, 3, 2, 4]);
    assert_eq!(answers(&store).await.len(), 4);
    let third = LocalBroker::new();
    run_on(&third, stock(&store, &seen), &[(1, None), (2, None)]).await;
    assert_eq!(seen.orders().len(), 4, "all were duplicates");
}
