//! A target that notes when each event arrived, and passes it on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream, Result};
use tokio::time::Instant;

pub(super) struct Noting {
    inner: Arc<dyn Target>,
    arrivals: Mutex<HashMap<String, Instant>>,
}

impl Noting {
    pub(super) fn new(inner: Arc<dyn Target>) -> Self {
        Self { inner, arrivals: Mutex::default() }
    }

    pub(super) fn arrived(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn take(&self) -> HashMap<String, Instant> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.arrivals.lock().expect("nobody panics while holding it")
    }
}

impl Target for Noting {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        let now = Instant::now();
        self.lock().extend(burst.iter().map(|parcel| (parcel.envelope.id.clone(), now)));
        self.inner.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        self.inner.ping()
    }
}
