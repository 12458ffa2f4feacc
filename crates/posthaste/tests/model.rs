//! The SQLite store and the memory model, driven by the same random steps, cannot be told apart.

#[path = "conformance/sqlite.rs"]
mod sqlite;

use posthaste_testkit::drive::StoreBench;
use posthaste_testkit::law::LawResult;
use posthaste_testkit::memory::MemoryRigs;
use posthaste_testkit::model::{self, Step};
use posthaste_testkit::rig::{RigClock, RigMaker as _};
use proptest::prelude::*;

async fn compare(steps: &[Step]) -> LawResult {
    let memory = StoreBench::new(MemoryRigs.rig(RigClock::Manual).await?).await?;
    let sqlite = StoreBench::new(sqlite::SqliteRigs.rig(RigClock::Manual).await?).await?;
    model::run(memory, sqlite, steps).await
}

/// Failures are not kept in files: what one finds becomes a law.
fn config() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sqlite_behaves_as_the_memory_model(steps in model::steps(40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let verdict = runtime.block_on(compare(&steps));
        prop_assert!(verdict.is_ok(), "{}", verdict.unwrap_err());
    }
}
