//! What a driver provides to be held to the laws of publishing in its transactions.

use std::sync::Arc;

use posthaste_core::outbox::Outbox;
use posthaste_core::schema::Backend;
use posthaste_core::{BoxFuture, Error, Result};
use posthaste_sql::Tx;

/// A producer's transaction of some driver. Dropping it rolls it back.
pub trait DriverTx: Send {
    /// What an outbox publishes in.
    fn tx(&mut self) -> &mut dyn Tx;
    /// Commits.
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
    /// Rolls back.
    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// A database of its own, reached by a driver.
pub trait DriverRig: Send + Sync {
    /// Begins a transaction.
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn DriverTx>>>;
    /// The store on the same data.
    fn store(&self) -> Arc<dyn Backend>;
    /// The outbox that publishes into that store.
    fn outbox(&self) -> Outbox {
        Outbox::new("/law")
    }
    /// Where another process finds the same data, for [`DriverRigMaker::open_url`]; or why none can.
    ///
    /// # Errors
    /// Why none can.
    fn url(&self) -> std::result::Result<String, &'static str> {
        Err("it ends with its process")
    }
}

/// Opens a fresh [`DriverRig`] for every law.
pub trait DriverRigMaker: Send + Sync {
    /// What the driver is called in the names of trials.
    fn name(&self) -> &'static str;
    /// Why it cannot be had here, if so.
    fn missing(&self) -> Option<String>;
    /// Why a law is not about this driver's store, if so. The trial is skipped with that.
    fn exempt(&self, law: &str) -> Option<&'static str> {
        let _ = law;
        None
    }
    /// A fresh database.
    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>>;
    /// Opens the data at what [`DriverRig::url`] said.
    fn open_url<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn DriverRig>>> {
        Box::pin(async move { Err(Error::config(format!("{} cannot open {url} again", self.name()))) })
    }
}
