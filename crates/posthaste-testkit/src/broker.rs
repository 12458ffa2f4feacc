//! What a broker provides to be held to the broker laws, and the local broker under them.

use std::sync::Arc;

use posthaste_core::admin::Admin;
use posthaste_core::broker::Broker;
use posthaste_core::local::LocalBroker;
use posthaste_core::{BoxFuture, Error, Result};

/// Opens a fresh scope of a broker for every law.
pub trait BrokerRigMaker: Send + Sync {
    /// What the broker is called in the names of trials.
    fn name(&self) -> &'static str;
    /// Why it cannot be had here, if so: the variable that would name its server is not set.
    fn missing(&self) -> Option<String>;
    /// Whether to be without it is no failure, also where every other backend is required.
    fn is_optional(&self) -> bool {
        false
    }
    /// A broker whose topics and groups nobody else uses.
    fn rig(&self) -> BoxFuture<'_, Result<BrokerBench>>;
    /// Opens the scope at what [`BrokerBench::url`] said, in another process.
    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<BrokerBench>> {
        Box::pin(async move { Err(Error::config(format!("{} cannot open {url} again", self.name()))) })
    }
}

/// A broker under the laws.
pub struct BrokerBench {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// Where its dead letters are found, listed by group as lanes.
    pub admin: Option<Arc<dyn Admin>>,
    /// Stands before every topic and group of the law, so that laws do not meet.
    pub scope: String,
    /// Where another process finds the same topics and groups, for [`BrokerRigMaker::open_url`]; `None` if the broker ends with
    /// its process.
    pub url: Option<String>,
}

/// The local broker under the laws.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalRigs;

impl BrokerRigMaker for LocalRigs {
    fn name(&self) -> &'static str {
        "local"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn rig(&self) -> BoxFuture<'_, Result<BrokerBench>> {
        Box::pin(async {
            let broker = LocalBroker::builder().payload_bytes_max(64 * 1024).build();
            let admin: Arc<dyn Admin> = Arc::new(broker.clone());
            let scope = "law".to_owned();
            Ok(BrokerBench { broker: Arc::new(broker), admin: Some(admin), scope, url: None })
        })
    }
}
