//! A limit between two signs of life, whatever the whole takes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::{Instant, Sleep, sleep};

/// Waits for work; answers `None` when nothing woke it for as long as the limit.
///
/// A poll proves nothing, as whoever waits for several things polls them all: only what the work itself waits for counts.
pub(super) struct Watch<'w, F> {
    work: &'w mut Pin<Box<F>>,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    waking: Arc<Waking>,
    /// The same as a waker.
    waker: Waker,
}

/// Notices that the work was woken, and wakes who waits for it.
struct Waking {
    is_woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.outer.wake();
    }
}

impl<'w, F> Watch<'w, F> {
    pub(super) fn new(work: &'w mut Pin<Box<F>>, limit: Duration) -> Self {
        // It begins as if it had been woken.
        let waking = Arc::new(Waking { is_woken: AtomicBool::new(true), outer: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&waking));
        Self { work, limit, deadline: Box::pin(sleep(limit)), waking, waker }
    }
}

impl<F: Future> Future for Watch<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.waking.outer.register(cx.waker());
        if this.waking.is_woken.swap(false, Ordering::SeqCst) {
            if let Poll::Ready(output) = this.work.as_mut().poll(&mut Context::from_waker(&this.waker)) {
                return Poll::Ready(Some(output));
            }
            this.deadline.as_mut().reset(Instant::now() + this.limit);
        }
        this.deadline.as_mut().poll(cx).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::future::{Either, select};
    use tokio::time::interval;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_limit_is_between_two_signs_of_life() {
        let mut long = Box::pin(async {
            for _ in 0..5 {
                sleep(LIMIT / 2).await;
            }
        });
        assert!(Watch::new(&mut long, LIMIT).await.is_some());
        assert!(Watch::new(&mut Box::pin(ready(1)), LIMIT).await.is_some());
        let mut stuck = Box::pin(async {
            sleep(LIMIT / 2).await;
            pending::<()>().await;
        });
        let begun = Instant::now();
        assert!(Watch::new(&mut stuck, LIMIT).await.is_none());
        assert_eq!(begun.elapsed(), LIMIT / 2 + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn polls_for_the_sake_of_others_are_no_sign_of_life() {
        let (mut never, mut busy) = (Box::pin(pending::<()>()), interval(LIMIT / 10));
        let mut watch = Watch::new(&mut never, LIMIT);
        for _ in 0..20 {
            watch = match select(watch, Box::pin(busy.tick())).await {
                Either::Left((answer, _)) => return assert!(answer.is_none()),
                Either::Right((_, watch)) => watch,
            };
        }
        panic!("it was polled, and that kept it from its limit");
    }
}
