//! What every [`Database`] must do.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use posthaste_sql::{Database, Tx};

use crate::script::{SCRIPTS, Table, play};

/// Plays every script on an empty table, undone by dropping the transaction.
pub(crate) async fn every_script_holds<D: Database>(database: &D, table: &Table) {
    for script in SCRIPTS {
        let mut tx = database.begin().await.unwrap();
        assert_eq!(tx.dialect(), table.dialect);
        play(&mut tx, script(table)).await;
        drop(tx);
        rows(database, table, 0).await;
    }
}

pub(crate) async fn a_commit_keeps_and_a_drop_undoes<D: Database>(database: &D, table: &Table) {
    let mut dropped = database.begin().await.unwrap();
    dropped.execute(table.insert(1, None, None)).await.unwrap();
    drop(dropped);
    rows(database, table, 0).await;

    let mut committed = database.begin().await.unwrap();
    committed.execute(table.insert(1, None, None)).await.unwrap();
    D::commit(committed).await.unwrap();
    rows(database, table, 1).await;
}

/// Postgres undoes a transaction in which a statement failed, and calls the `COMMIT` of it a success.
pub(crate) async fn a_swallowed_error_is_never_committed_silently<D: Database>(database: &D, table: &Table) {
    let mut tx = database.begin().await.unwrap();
    tx.execute(table.insert(1, None, None)).await.unwrap();
    tx.execute(table.insert(1, None, None)).await.unwrap_err();
    D::commit(tx).await.expect_err("the failed transaction was committed, says the driver");
    rows(database, table, 0).await;
}

/// Drops `begin` after its first poll, its second, and so on until it answers, and again from the start until enough were
/// dropped while they waited: a fast server answers some at their first poll. After each, what `plain` writes on the pool's only connection outside of any transaction must be seen by
/// `others`.
pub(crate) async fn a_dropped_begin_leaves_no_open_transaction<D: Database>(
    pool_of_one: &D,
    others: &D,
    table: &Table,
    plain: impl AsyncFn(&D, String),
) {
    const DROPPED: u32 = 10;
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut written = 0;
    let mut dropped_while_waiting = 0;
    while dropped_while_waiting < DROPPED {
        assert!(Instant::now() < deadline, "only {dropped_while_waiting} of {DROPPED} had to wait");
        for polls in 0.. {
            let answer = PollAtMost { future: pool_of_one.begin(), polls }.await;
            let answered = answer.is_some();
            drop(answer.map(Result::unwrap));
            written += 1;
            plain(pool_of_one, format!("INSERT INTO {} (id) VALUES ({written})", table.name)).await;
            let mut tx = others.begin().await.unwrap();
            let seen = tx.execute(table.count()).await.unwrap();
            assert_eq!(
                seen, written,
                "a begin that was dropped after {polls} polls left its transaction open"
            );
            if answered {
                break;
            }
            dropped_while_waiting += u32::from(polls > 0);
        }
    }
}

async fn rows<D: Database>(database: &D, table: &Table, expected: u64) {
    play(&mut database.begin().await.unwrap(), table.holds(expected)).await;
}

/// Answers `None` right after the last poll that it may do.
struct PollAtMost<F> {
    future: F,
    polls: u32,
}

impl<F: Future + Unpin> Future for PollAtMost<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match Pin::new(&mut self.future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
