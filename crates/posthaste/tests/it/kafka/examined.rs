//! What the doctor finds in a cluster.

use posthaste::findings::{Finding, Verdict};
use posthaste::target::Target as _;

use crate::kafka::stand::{Stand, until};

/// What is found beside the acknowledgements.
async fn found(stand: &Stand, settings: &str) -> Vec<Finding> {
    stand.open(settings).examine().await.split_off(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_missing_or_loses_events_is_found() {
    let Some(stand) = Stand::shared("a_topic_that_is_missing_or_loses_events_is_found") else { return };
    let missing = found(&stand, "topic=orders").await;
    assert_eq!((missing.len(), missing[0].verdict), (1, Verdict::Failure), "{missing:?}");
    assert!(missing[0].seen.contains("orders") && missing[0].mend.is_some(), "{missing:?}");
    assert_eq!(found(&stand, "").await[0].verdict, Verdict::Warning, "no topic begins with the prefix");
    assert_eq!(found(&stand, "topic=orders&create_topics=1").await[0].verdict, Verdict::Ok);

    stand.make("orders", &[]).await;
    stand.make("short", &[("retention.ms", "3600000")]).await;
    stand.make("compact", &[("cleanup.policy", "compact")]).await;
    stand.make("orders.billing.dlq", &[("cleanup.policy", "compact")]).await;
    let of = |topic: &str| format!("topic {}{topic}", stand.prefix);
    // A topic is told by a broker a moment after it was made.
    until("all are found", async || found(&stand, "").await.len() == 3).await;
    let all = found(&stand, "").await;
    let table = [("orders", Verdict::Ok), ("short", Verdict::Warning), ("compact", Verdict::Warning)];
    for (topic, verdict) in table {
        let one: Vec<_> = all.iter().filter(|finding| finding.check == of(topic)).collect();
        assert_eq!((one.len(), one[0].verdict), (1, verdict), "{topic}: {all:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_away_is_found() {
    let Some(stand) = Stand::shared("a_cluster_that_is_away_is_found") else { return };
    // Whatever the patience of its lanes: that is longer than a doctor waits, unless it is told.
    for settings in ["topic=orders&ack_timeout=1s", "topic=orders"] {
        let nobody = stand.open_at("kafka://127.0.0.1:1", settings);
        let found = nobody.examine().await.split_off(1);
        assert_eq!((found.len(), found[0].verdict), (1, Verdict::Failure), "{found:?}");
    }
}
