//! Consumers with a database: an event has its effect once, through every driver that has a pool.

pub(crate) mod batch;
pub(crate) mod concurrent;
pub(crate) mod dedup;
pub(crate) mod once;
pub(crate) mod place;
pub(crate) mod retention;
pub(crate) mod together;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use posthaste::consumer::{Consumer, Cx, Failure};
use posthaste::local::LocalBroker;
use posthaste::publish::Publish;
use posthaste::sql::{Database, Statement, Tx, Value};
use serde::{Deserialize, Serialize};

/// What comes in.
#[derive(Clone, Debug, Serialize, Deserialize, posthaste::Event)]
#[event(type = "order.placed")]
pub(crate) struct Placed {
    pub(crate) order: u32,
}

/// What goes out.
#[derive(Clone, Debug, Serialize, Deserialize, posthaste::Event)]
#[event(type = "stock.reserved")]
pub(crate) struct Reserved {
    pub(crate) order: u32,
}

/// How often each order's handler was run to its end.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<HashMap<u32, u32>>>);

impl Runs {
    pub(crate) fn note(&self, order: u32) {
        *self.0.lock().unwrap().entry(order).or_default() += 1;
    }

    pub(crate) fn of_each(&self) -> HashMap<u32, u32> {
        self.0.lock().unwrap().clone()
    }
}

/// The effect: a row in a table that would take it twice.
pub(crate) async fn effect<D: Database, S>(cx: &mut Cx<D, S>, order: u32) -> Result<(), Failure> {
    let text = match cx.tx().dialect() {
        posthaste::sql::Dialect::Postgres => "INSERT INTO effects (order_id) VALUES ($1)",
        _ => "INSERT INTO effects (order_id) VALUES (?1)",
    };
    cx.tx().execute(Statement::new(text, vec![Value::Int(Some(i64::from(order)))])).await?;
    Ok(())
}

/// Writes the effect, publishes, and notes that it was run.
pub(crate) async fn reserve<D: Database>(cx: &mut Cx<D, Runs>, event: Placed) -> Result<(), Failure> {
    effect(cx, event.order).await?;
    cx.publish(&Reserved { order: event.order }).await?;
    cx.state().note(event.order);
    Ok(())
}

/// A delivery of this order: the same event each time.
pub(crate) fn placed(order: u32) -> Publish {
    Publish::of(&Placed { order }).id(format!("order-{order}"))
}

/// Runs the consumer until all that was published is settled.
pub(crate) async fn drain<D: Database, S: Send + Sync + 'static>(
    broker: &LocalBroker,
    consumer: Consumer<D, S>,
) {
    let (ran, closed) = tokio::join!(consumer.run(broker.clone(), std::future::pending()), broker.close());
    ran.unwrap();
    assert_eq!(closed.left, 0);
}

/// Makes a test of each function for each driver.
macro_rules! on_every_driver {
    ($($test:ident),* $(,)?) => {
        mod sqlx_sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::inbox::place::sqlx_sqlite().await).await;
            })*
        }
        mod sqlx_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                for server in crate::inbox::place::servers(concat!("sqlx_postgres::", stringify!($test))) {
                    super::$test(crate::inbox::place::sqlx_postgres(server).await).await;
                }
            })*
        }
        mod deadpool_postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                for server in crate::inbox::place::servers(concat!("deadpool_postgres::", stringify!($test))) {
                    super::$test(crate::inbox::place::deadpool_postgres(server).await).await;
                }
            })*
        }
    };
}
pub(crate) use on_every_driver;
