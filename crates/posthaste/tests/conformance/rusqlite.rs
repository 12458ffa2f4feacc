//! rusqlite's transactions under the laws of publishing.
//!
//! They block and are not `Send`, so each lives on a thread of its own, to which statements are sent.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use posthaste::schema::Backend;
use posthaste::sql::{BlockingTx as _, Dialect, SqlError, Statement, Tx};
use posthaste::{BoxFuture, Error, Result};
use posthaste_testkit::driver::{DriverRig, DriverRigMaker, DriverTx};
use posthaste_testkit::rig::{AnyClock, Rig as _, RigClock};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::sqlite::{SqliteRig, away};

pub(crate) struct RusqliteDriver;

impl DriverRigMaker for RusqliteDriver {
    fn name(&self) -> &'static str {
        "rusqlite"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async {
            let file = SqliteRig::new(AnyClock::new(RigClock::Host)).await?;
            let store = file.open().await?;
            Ok(Arc::new(FileRig { file, store }) as Arc<dyn DriverRig>)
        })
    }
}

struct FileRig {
    file: SqliteRig,
    store: Arc<dyn Backend>,
}

impl DriverRig for FileRig {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn DriverTx>>> {
        let path = self.file.file();
        Box::pin(async move {
            let connection = Connection::open(path).map_err(away)?;
            let (orders, work) = channel();
            std::thread::spawn(move || drive(connection, &work));
            Ok(Box::new(OnAThread(orders)) as Box<dyn DriverTx>)
        })
    }

    fn store(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.store)
    }
}

/// What the thread is told; each with where its answer goes.
enum Order {
    Run(Statement, oneshot::Sender<posthaste::sql::Result<u64>>),
    Commit(oneshot::Sender<Result<()>>),
    Rollback(oneshot::Sender<Result<()>>),
}

/// Runs one transaction until it is told to end it, or until nobody can tell it any more: then it is dropped.
fn drive(mut connection: Connection, work: &Receiver<Order>) {
    let Ok(mut tx) = connection.transaction_with_behavior(TransactionBehavior::Immediate) else { return };
    // Answers are not sent where the law has ended early; there is nobody to tell then.
    while let Ok(order) = work.recv() {
        match order {
            Order::Run(statement, answer) => drop(answer.send(tx.execute(statement))),
            Order::Commit(answer) => return drop(answer.send(tx.commit().map_err(away))),
            Order::Rollback(answer) => return drop(answer.send(tx.rollback().map_err(away))),
        }
    }
}

struct OnAThread(Sender<Order>);

impl OnAThread {
    /// Sends an order and waits for its answer; `None` when the thread is gone.
    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.0.send(order(answer)).ok()?;
        answered.await.ok()
    }
}

impl Tx for OnAThread {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: Statement) -> BoxFuture<'_, posthaste::sql::Result<u64>> {
        Box::pin(async move {
            let answer = self.ask(|answer| Order::Run(statement, answer)).await;
            answer.unwrap_or_else(|| Err(SqlError::message("the transaction did not begin")))
        })
    }
}

impl DriverTx for OnAThread {
    fn tx(&mut self) -> &mut dyn Tx {
        self
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.ask(Order::Commit).await.unwrap_or_else(gone) })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.ask(Order::Rollback).await.unwrap_or_else(gone) })
    }
}

fn gone() -> Result<()> {
    Err(Error::unavailable("the transaction did not begin"))
}
