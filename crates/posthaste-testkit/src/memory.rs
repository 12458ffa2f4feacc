//! The memory backend as a rig.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::envelope::Envelope;
use posthaste_core::memory::{Memory, MemoryTx, Savepoint};
use posthaste_core::schema::Backend;
use posthaste_core::time::{Clock, Timestamp};
use posthaste_core::{BoxFuture, Error, Result};

use posthaste_sql::Tx;

use crate::driver::{DriverRig, DriverRigMaker, DriverTx};
use crate::rig::{AnyClock, Rig, RigCan, RigClock, RigMaker, RigTx};

const ENDS: &str = "it ends with its process";

/// The memory backend under the laws.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryRigs;

impl RigMaker for MemoryRigs {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn open_url<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Arc<dyn Backend>>> {
        Box::pin(async { Err(Error::config(ENDS)) })
    }

    fn rig(&self, clock: RigClock) -> BoxFuture<'_, Result<Arc<dyn Rig>>> {
        let clock = AnyClock::new(clock);
        Box::pin(async {
            Ok(Arc::new(MemoryRig { store: Memory::on(clock.clone()), clock }) as Arc<dyn Rig>)
        })
    }
}

struct MemoryRig {
    store: Memory,
    clock: AnyClock,
}

impl Rig for MemoryRig {
    fn can(&self) -> RigCan {
        RigCan { overlap: Ok(()), wake_across: Ok(()) }
    }

    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Backend>>> {
        Box::pin(async { Ok(Arc::new(self.store.clone()) as Arc<dyn Backend>) })
    }

    fn url(&self) -> std::result::Result<String, &'static str> {
        Err(ENDS)
    }

    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn RigTx>>> {
        Box::pin(async {
            let tx = self.store.begin();
            let savepoint = tx.savepoint();
            Ok(Box::new(Begun { tx, savepoint }) as Box<dyn RigTx>)
        })
    }

    fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

struct Begun {
    tx: MemoryTx,
    savepoint: Savepoint,
}

impl RigTx for Begun {
    fn publish(&mut self, event: Envelope) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { self.tx.publish(event) })
    }

    fn savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        self.savepoint = self.tx.savepoint();
        Box::pin(async { Ok(()) })
    }

    fn rollback_to_savepoint(&mut self) -> BoxFuture<'_, Result<()>> {
        self.tx.rollback_to(self.savepoint);
        Box::pin(async { Ok(()) })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { self.tx.commit() })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        self.tx.rollback();
        Box::pin(async { Ok(()) })
    }
}

/// The memory backend's transactions as a driver under the laws.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryDriver;

impl DriverRigMaker for MemoryDriver {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn missing(&self) -> Option<String> {
        None
    }

    fn rig(&self) -> BoxFuture<'_, Result<Arc<dyn DriverRig>>> {
        Box::pin(async { Ok(Arc::new(Memory::new()) as Arc<dyn DriverRig>) })
    }
}

impl DriverRig for Memory {
    fn begin(&self) -> BoxFuture<'_, Result<Box<dyn DriverTx>>> {
        Box::pin(async { Ok(Box::new(Memory::begin(self)) as Box<dyn DriverTx>) })
    }

    fn store(&self) -> Arc<dyn Backend> {
        Arc::new(self.clone())
    }
}

impl DriverTx for MemoryTx {
    fn tx(&mut self) -> &mut dyn Tx {
        self
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { MemoryTx::commit(*self) })
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        MemoryTx::rollback(*self);
        Box::pin(async { Ok(()) })
    }
}
