//! Many callers on one target, in many tasks.

use std::collections::BTreeSet;

use tokio::task::JoinSet;

use crate::rabbitmq_target::stand::{Stand, event, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_get_their_own_answers() {
    let Some(stand) = Stand::shared("many_callers_get_their_own_answers").await else { return };
    let queue = stand.queue("t", &[]).await;
    let target = stand.open("");
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let target = target.clone();
        callers.spawn(async move {
            for round in 0..20 {
                let events =
                    (0..1 + (caller + round) % 40).map(|n| event(format!("{caller}-{round}-{n}"), "t"));
                assert!(send(&target, events.collect()).await.iter().all(Result::is_ok));
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    let ids = stand.ids(&queue).await;
    let expected: usize =
        (0..16).map(|caller| (0..20).map(|round| 1 + (caller + round) % 40).sum::<usize>()).sum();
    assert_eq!((ids.len(), ids.into_iter().collect::<BTreeSet<_>>().len()), (expected, expected));
    stand.clear(&queue).await;
}
