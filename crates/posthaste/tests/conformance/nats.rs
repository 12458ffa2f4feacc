//! NATS under the laws: a private stream for every law, on a server that the environment names.

use std::sync::Arc;

use posthaste::broker::nats::{NatsBroker, Settings};
use posthaste::{BoxFuture, Result};
use posthaste_core::admin::Admin;
use posthaste_testkit::broker::{BrokerBench, BrokerRigMaker};

const VARIABLE: &str = "POSTHASTE_TEST_NATS";
/// Short, so that laws about consumers that die need not wait for long.
const SETTINGS: &str = "create_stream=true&ack_wait=3s&message_bytes_max=64KiB";

/// NATS.
pub(crate) struct NatsRigs;

#[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
fn url() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

impl BrokerRigMaker for NatsRigs {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn missing(&self) -> Option<String> {
        url().is_none().then(|| format!("{VARIABLE} is not set"))
    }

    fn rig(&self) -> BoxFuture<'_, Result<BrokerBench>> {
        Box::pin(async move {
            let scope = format!("law-{}", &posthaste::envelope::fresh_id()[24..]);
            let url = url().unwrap_or_default();
            open(&scope, format!("{url}?stream={scope}&prefix={scope}&{SETTINGS}"))
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
    let broker = NatsBroker::new(url.parse::<Settings>()?)?;
    let admin: Arc<dyn Admin> = Arc::new(broker.clone());
    let (scope, url) = (scope.to_owned(), Some(format!("{scope} {url}")));
    Ok(BrokerBench { broker: Arc::new(broker), admin: Some(admin), scope, url })
}
