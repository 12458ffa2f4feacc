//! Kafka under the laws: topics of its own for every law, on a server that the environment names.

use std::sync::Arc;

use posthaste::broker::kafka::KafkaBroker;
use posthaste::{BoxFuture, Result};
use posthaste_core::admin::Admin;
use posthaste_testkit::broker::{BrokerBench, BrokerRigMaker};

pub(crate) const VARIABLE: &str = "POSTHASTE_TEST_KAFKA";
/// Short, so that what a killed consumer had goes on soon; a member that lives is waited for, however slow the machine is.
const SETTINGS: &str =
    "create_topics=4&message_bytes_max=64KiB&session_timeout=3s&rebalance_wait=30s&reconnect_max=500ms";

/// Kafka.
pub(crate) struct KafkaRigs;

#[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
pub(crate) fn url() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

impl BrokerRigMaker for KafkaRigs {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn missing(&self) -> Option<String> {
        url().is_none().then(|| format!("{VARIABLE} is not set"))
    }

    /// It comes by a way of its own, which needs Java and Maven.
    fn is_optional(&self) -> bool {
        true
    }

    fn rig(&self) -> BoxFuture<'_, Result<BrokerBench>> {
        Box::pin(async move {
            let scope = format!("law-{}", &posthaste::envelope::fresh_id()[24..]);
            let url = url().unwrap_or_default();
            open(&scope, format!("{url}?{SETTINGS}"))
        })
    }

    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<BrokerBench>> {
        Box::pin(async move {
            let (scope, url) = url.split_once(' ').unwrap_or_default();
            open(scope, url.to_owned())
        })
    }
}

fn open(scope: &str, url: String) -> Result<BrokerBench> {
    let broker = KafkaBroker::at(&url)?;
    let admin: Arc<dyn Admin> = Arc::new(broker.clone());
    let (scope, url) = (scope.to_owned(), Some(format!("{scope} {url}")));
    Ok(BrokerBench { broker: Arc::new(broker), admin: Some(admin), scope, url })
}
