//! The server is killed while events are delivered.

use posthaste::admin::all_lanes;

use crate::redis_target::broken::Relaying;
use crate::redis_target::stand::{Stand, blocking, event, until};

/// SIGKILL under load, twice: what was answered is there afterwards, what was not is sent again, and no attempt is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_restarted_loses_nothing() {
    let name = "a_server_that_is_killed_and_restarted_loses_nothing";
    let Some(mut stand) = Stand::private(name).await else { return };
    let relaying = Relaying::start(stand.open("")).await;
    let mut sent = 0;
    for _ in 0..2 {
        let before = relaying.delivered().await;
        relaying.publish((sent..sent + 3_000).map(|n| event(n.to_string(), "t"))).await;
        sent += 3_000;
        until("some are delivered", async || relaying.delivered().await > before + 500).await;
        blocking(|| {
            stand.server().kill().unwrap();
            stand.server().start().unwrap();
        });
    }
    until("everything is delivered", async || relaying.delivered().await == sent).await;
    let lanes = all_lanes(&*relaying.store).await.unwrap();
    assert_eq!(lanes[0].dead, 0, "with one attempt each, nothing has failed");
    relaying.stop().await;
    stand.reconnect().await;
    let mut ids: Vec<u64> = stand.ids("t").await.iter().map(|id| id.parse().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len() as u64, sent, "every event that was answered is in the stream");
}
