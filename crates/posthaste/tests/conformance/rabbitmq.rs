//! RabbitMQ under the laws: a private exchange for every law, on a server that the environment names.

use std::sync::Arc;

use posthaste::broker::amqp::{AmqpBroker, Settings};
use posthaste::{BoxFuture, Result};
use posthaste_core::admin::Admin;
use posthaste_testkit::broker::{BrokerBench, BrokerRigMaker};

const VARIABLE: &str = "POSTHASTE_TEST_RABBITMQ";
/// Short, so that laws about pauses take no time; the shortest is what a law waits for.
const SETTINGS: &str = "tiers=300ms,600ms&message_bytes_max=64KiB";

/// RabbitMQ, with queues of this type.
pub(crate) struct RabbitmqRigs {
    name: &'static str,
    queues: &'static str,
}

pub(crate) const RIGS: [RabbitmqRigs; 2] = [
    RabbitmqRigs { name: "rabbitmq", queues: "quorum" },
    RabbitmqRigs { name: "rabbitmq_classic", queues: "classic" },
];

#[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
fn url() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

impl BrokerRigMaker for RabbitmqRigs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn missing(&self) -> Option<String> {
        url().is_none().then(|| format!("{VARIABLE} is not set"))
    }

    fn rig(&self) -> BoxFuture<'_, Result<BrokerBench>> {
        Box::pin(async move {
            let scope = format!("law-{}", &posthaste::envelope::fresh_id()[24..]);
            let (url, queues) = (url().unwrap_or_default(), self.queues);
            let types = format!("queue_type={queues}&retry_queue_type={queues}");
            open(&scope, format!("{url}?exchange={scope}&{types}&{SETTINGS}"))
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
    let broker = AmqpBroker::new(url.parse::<Settings>()?)?;
    let admin: Arc<dyn Admin> = Arc::new(broker.clone());
    let (scope, url) = (scope.to_owned(), Some(format!("{scope} {url}")));
    Ok(BrokerBench { broker: Arc::new(broker), admin: Some(admin), scope, url })
}
