//! The stores and the memory model, driven by the same random steps, cannot be told apart.

use posthaste_testkit::drive::StoreBench;
use posthaste_testkit::law::LawResult;
use posthaste_testkit::memory::MemoryRigs;
use posthaste_testkit::model::{self, Claims, Step};
use posthaste_testkit::rig::{RigClock, RigMaker};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// A database is made for each case, so there are fewer of them.
const POSTGRES_CASES: u32 = 32;

async fn compare(rigs: &dyn RigMaker, claims: Claims, steps: &[Step]) -> LawResult {
    let memory = StoreBench::new(MemoryRigs.rig(RigClock::Manual).await?).await?;
    let real = StoreBench::new(rigs.rig(RigClock::Manual).await?).await?;
    model::run(memory, real, claims, steps).await
}

/// Failures are not kept in files: what one finds becomes a law.
fn config() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() }
}

fn judge(rigs: &dyn RigMaker, claims: Claims, steps: &[Step]) -> Result<(), TestCaseError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is to be had");
    runtime.block_on(compare(rigs, claims, steps)).map_err(|verdict| TestCaseError::fail(verdict.to_string()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sqlite_behaves_as_the_memory_model(steps in model::steps(40)) {
        judge(&crate::sqlite::SqliteRigs, Claims::Full, &steps)?;
    }
}

#[test]
fn postgres_behaves_as_the_memory_model() {
    let [direct, _] = crate::postgres::RIGS;
    if let Some(why) = direct.missing() {
        let is_ci = posthaste_testkit::harness::Settings::from_env().all_required;
        assert!(!is_ci, "cannot be had here: {why}");
        eprintln!("skipped: postgres_behaves_as_the_memory_model: {why}");
        return;
    }
    let config = config();
    let cases = config.cases.min(POSTGRES_CASES);
    let mut runner = TestRunner::new(ProptestConfig { cases, max_shrink_iters: 200, ..config });
    runner
        .run(&model::steps(40), |steps| judge(&direct, Claims::InParts, &steps))
        .unwrap_or_else(|failed| panic!("{failed}"));
}
