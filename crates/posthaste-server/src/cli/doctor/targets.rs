//! The targets: whether they would take events, and what would be lost on the way or behind them.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::findings::{Finding, asked};

use crate::config::Config;
use crate::config::target::addresses;

/// How long a target may take to answer: a connection is made first.
const ASK_WITHIN: Duration = Duration::from_secs(12);

/// Everything about every target, and about these groups at each that is a broker.
pub(super) async fn examine(config: &Config, groups: &[String]) -> Vec<Finding> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for (name, url) in addresses(config) {
        if !seen.insert(url.clone()) {
            continue;
        }
        let looked = look(&url, groups).await;
        found.extend(looked.into_iter().map(|mut finding| {
            finding.check = format!("{name}: {}", finding.check);
            finding
        }));
    }
    found
}

async fn look(url: &str, groups: &[String]) -> Vec<Finding> {
    let target = match posthaste::target::open(url) {
        Ok(target) => target,
        Err(error) => return vec![Finding::error("address", &error)],
    };
    let pinged = async { target.ping().await.map(|()| vec![Finding::ok("reachable", "would take events")]) };
    let mut found = asked("reachable", ASK_WITHIN, pinged).await;
    found.extend(asked("settings", ASK_WITHIN, async { Ok(target.examine().await) }).await);
    found.extend(of_groups(url, groups).await);
    found
}

#[cfg(feature = "amqp")]
async fn of_groups(url: &str, groups: &[String]) -> Vec<Finding> {
    let Ok(broker) = posthaste::broker::amqp::AmqpBroker::at(url) else { return Vec::new() };
    let mut found = Vec::new();
    for group in groups {
        let check = format!("group {group}");
        found.extend(asked(&check, ASK_WITHIN, broker.examine_group(group)).await);
    }
    found
}

#[cfg(not(feature = "amqp"))]
async fn of_groups(_: &str, _: &[String]) -> Vec<Finding> {
    Vec::new()
}
