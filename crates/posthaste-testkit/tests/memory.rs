//! The memory model obeys the laws.
use std::sync::Arc;
use posthaste_testkit::{harness::*, memory::MemoryRigs, rig::RigMaker};
fn main() -> std::process::ExitCode {
    let maker: Arc<dyn RigMaker> = Arc::new(MemoryRigs);
    run(store_trials(&maker, &Settings::from_env()))
}
