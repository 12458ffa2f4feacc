//! Waiting for work.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::drive::{StoreBench, lane};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

const LONG: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(5);

/// Waits with a long limit and publishes through the same store, before and during the wait: it returns soon. With a
/// short limit and nothing published it returns at that.
pub async fn wait_returns_soon_after_a_publish_and_at_its_limit(bench: StoreBench) -> LawResult {
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    ensure!(driver.drain().await?.is_empty(), "a fresh store has events");
    // What rang so far is heard now.
    bench.store.wait(&main, Duration::from_millis(1)).await;
    bench.publish(&["before"]).await?;
    let woken = timeout(SOON, bench.store.wait(&main, LONG)).await;
    ensure!(woken.is_ok(), "a publish just before the wait was not heard");
    ensure_eq!(driver.drain().await?, ["before"], "what is claimed");
    let work = async {
        loop {
            bench.store.wait(&main, LONG).await;
            let claimed = driver.drain().await?;
            if !claimed.is_empty() {
                return Ok::<_, Verdict>(claimed);
            }
        }
    };
    let publish = async {
        tokio::task::yield_now().await;
        bench.publish(&["during"]).await
    };
    let both = timeout(SOON, async { tokio::join!(work, publish) }).await;
    let (claimed, published) =
        both.map_err(|_| Verdict::broken("a publish during the wait was not heard"))?;
    published?;
    ensure_eq!(claimed?, ["during"], "what is claimed");
    let start = Instant::now();
    timeout(SOON, bench.store.wait(&main, Duration::from_millis(20)))
        .await
        .map_err(|_| Verdict::broken("a wait went on past its limit"))?;
    ensure!(start.elapsed() < SOON, "a wait went on past its limit");
    Ok(())
}
