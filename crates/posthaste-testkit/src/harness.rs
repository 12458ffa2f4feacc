//! Runs laws as trials called `<backend>::<law>`, with the command line of Rust's own tests.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::broker::{BrokerRigMaker, LocalRigs};
use crate::child;
use crate::drive::StoreBench;
use crate::driver::DriverRigMaker;
use crate::law::{LawResult, Verdict};
use crate::laws::consuming::{ConsumeBench, ConsumeChild};
use crate::laws::line::{ChildCommand, LineBench};
use crate::laws::tx::TxBench;
use crate::laws::{
    BROKER_LAWS, CONSUMER_LAWS, ConsumerLaw, LANE_LAWS, LINE_LAWS, ROW_LAWS, STORE_LAWS, TX_LAWS,
};
use crate::rig::{RigClock, RigMaker};

/// No law takes nearly so long; a law that hangs is a law that failed.
const LAW_SECONDS_MAX: u64 = 120;
/// Laws wait for servers and leases far more than they work.
const TRIALS_PER_CORE: usize = 2;

/// What the environment says about a run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Only backends with these names; empty: all.
    pub on: Vec<String>,
    /// A backend that cannot be had here is a failure, not a skip. What was asked for by name is that in any case.
    pub all_required: bool,
}

impl Settings {
    /// From `POSTHASTE_LAWS_ON` (names with commas between) and `CI`.
    #[expect(clippy::disallowed_methods, reason = "a test program has no configuration but its environment")]
    pub fn from_env() -> Self {
        let names = std::env::var("POSTHASTE_LAWS_ON").unwrap_or_default();
        let on = names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { on, all_required: std::env::var("CI").is_ok_and(|ci| ci == "true") }
    }

    /// For a backend without which it must also be possible to go on.
    fn not_requiring(&self, is_optional: bool) -> Self {
        Self { on: self.on.clone(), all_required: self.all_required && !is_optional }
    }

    /// Whether a backend that cannot be had is a failure.
    fn requires(&self) -> bool {
        self.all_required || !self.on.is_empty()
    }

    /// Whether this backend is asked for.
    pub fn wants(&self, backend: &str) -> bool {
        self.on.is_empty() || self.on.iter().any(|name| name == backend)
    }
}

/// The whole of a conformance program: every law on every one of these backends and drivers that is asked for.
///
/// `databases` are the drivers on which consumers are held to their laws, with a local broker; they can have several
/// transactions at once. `inbox` is the one of them on which they are held to them with every broker.
pub fn run(
    stores: &[Arc<dyn RigMaker>],
    drivers: &[Arc<dyn DriverRigMaker>],
    databases: &[Arc<dyn DriverRigMaker>],
    brokers: &[Arc<dyn BrokerRigMaker>],
    inbox: &Arc<dyn DriverRigMaker>,
) -> ExitCode {
    if let Some(code) = child::run_if_child(stores, databases, brokers) {
        return code;
    }
    let settings = Settings::from_env();
    let mut trials = Vec::new();
    for maker in stores.iter().filter(|maker| settings.wants(maker.name())) {
        trials.extend(store_trials(maker, &settings));
        trials.extend(line_trials(maker, &settings));
    }
    for maker in drivers.iter().filter(|maker| settings.wants(maker.name())) {
        trials.extend(tx_trials(maker, &settings));
    }
    for maker in databases.iter().filter(|maker| settings.wants(maker.name())) {
        let local: Arc<dyn BrokerRigMaker> = Arc::new(LocalRigs);
        for laws in [CONSUMER_LAWS, LANE_LAWS] {
            trials.extend(consumer_trials(maker.name(), laws, maker, &local, &settings));
        }
    }
    for maker in brokers.iter().filter(|maker| settings.wants(maker.name())) {
        trials.extend(broker_trials(maker, &settings));
        trials.extend(consumer_trials(maker.name(), CONSUMER_LAWS, inbox, maker, &settings));
    }
    let mut arguments = Arguments::from_args();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    arguments.test_threads.get_or_insert(cores * TRIALS_PER_CORE);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Every store law on a fresh scope of this backend.
pub fn store_trials(maker: &Arc<dyn RigMaker>, settings: &Settings) -> Vec<Trial> {
    let row_laws = if maker.leases_rows() { ROW_LAWS } else { &[] };
    let trials = STORE_LAWS.iter().chain(row_laws).map(|law| {
        let (maker, run) = (Arc::clone(maker), law.run);
        let exempt = maker.exempt(law.name);
        trial(maker.name(), law.name, maker.missing(), settings, async move || {
            exempt.map_or(Ok(()), |why| Err(Verdict::skipped(why)))?;
            run(StoreBench::new(maker.rig(RigClock::Manual).await?).await?).await
        })
    });
    trials.collect()
}

/// Every law of the whole line on a fresh scope of this backend.
pub fn line_trials(maker: &Arc<dyn RigMaker>, settings: &Settings) -> Vec<Trial> {
    let trials = LINE_LAWS.iter().map(|law| {
        let (maker, run) = (Arc::clone(maker), law.run);
        let exempt = maker.exempt(law.name);
        trial(maker.name(), law.name, maker.missing(), settings, async move || {
            exempt.map_or(Ok(()), |why| Err(Verdict::skipped(why)))?;
            let rig = maker.rig(RigClock::Host).await?;
            let child = child_command(maker.name(), rig.url());
            run(LineBench { bench: StoreBench::new(rig).await?, child }).await
        })
    });
    trials.collect()
}

/// How this program is started again as a child on the same data.
fn child_command(backend: &str, url: Result<String, &'static str>) -> Result<ChildCommand, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(ChildCommand { program, backend: backend.to_owned(), url: url? })
}

/// Every law of publishing on a fresh database of this driver.
pub fn tx_trials(maker: &Arc<dyn DriverRigMaker>, settings: &Settings) -> Vec<Trial> {
    let trials = TX_LAWS.iter().map(|law| {
        let (maker, run) = (Arc::clone(maker), law.run);
        let exempt = maker.exempt(law.name);
        trial(maker.name(), law.name, maker.missing(), settings, async move || {
            exempt.map_or(Ok(()), |why| Err(Verdict::skipped(why)))?;
            run(TxBench::new(maker.rig().await?)).await
        })
    });
    trials.collect()
}

/// These laws of consumers on a fresh database of this driver, and a fresh scope of this broker; called after one of them.
pub fn consumer_trials(
    name: &str,
    laws: &[ConsumerLaw],
    database: &Arc<dyn DriverRigMaker>,
    broker: &Arc<dyn BrokerRigMaker>,
    settings: &Settings,
) -> Vec<Trial> {
    let trials = laws.iter().map(|law| {
        let (database, broker, run) = (Arc::clone(database), Arc::clone(broker), law.run);
        let exempt = database.exempt(law.name);
        let settings = settings.not_requiring(database.missing().is_none() && broker.is_optional());
        let missing = database.missing().or_else(|| broker.missing());
        trial(name, law.name, missing, &settings, async move || {
            exempt.map_or(Ok(()), |why| Err(Verdict::skipped(why)))?;
            let (rig, scope) = (database.rig().await?, broker.rig().await?);
            let child = child_command(database.name(), rig.url())
                .map(|command| ConsumeChild { command, broker: broker.name().to_owned() });
            run(ConsumeBench::new(rig, scope, child)).await
        })
    });
    trials.collect()
}

/// Every broker law on a fresh scope of this broker.
pub fn broker_trials(maker: &Arc<dyn BrokerRigMaker>, settings: &Settings) -> Vec<Trial> {
    let trials = BROKER_LAWS.iter().map(|law| {
        let (maker, run) = (Arc::clone(maker), law.run);
        let (missing, settings) = (maker.missing(), settings.not_requiring(maker.is_optional()));
        trial(maker.name(), law.name, missing, &settings, async move || run(maker.rig().await?).await)
    });
    trials.collect()
}

/// One trial: skipped by name where its backend cannot be had, unless that is required.
pub fn trial(
    backend: &str,
    law: &str,
    missing: Option<String>,
    settings: &Settings,
    run: impl AsyncFnOnce() -> LawResult + Send + 'static,
) -> Trial {
    let name = format!("{backend}::{law}");
    let (shown, required) = (name.clone(), settings.requires());
    Trial::ignorable_test(name, move || {
        let verdict = match missing {
            Some(why) if required => Err(Verdict::broken(format_args!("cannot be had here: {why}"))),
            Some(why) => Err(Verdict::skipped(why)),
            None => hold_to(run),
        };
        match verdict {
            Ok(()) => Ok(Completion::Completed),
            Err(Verdict::Skipped(why)) => {
                eprintln!("skipped: {shown}: {why}");
                Ok(Completion::ignored_with(why))
            }
            Err(Verdict::Broken(seen)) => Err(Failed::from(seen)),
        }
    })
}

/// Runs a law on a runtime of its own, within a time that it never needs.
fn hold_to(run: impl AsyncFnOnce() -> LawResult) -> LawResult {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Verdict::broken(format_args!("no runtime: {error}")))?;
    let limit = Duration::from_secs(LAW_SECONDS_MAX);
    let verdict = runtime.block_on(async { tokio::time::timeout(limit, run()).await });
    // What a broken law left running must not keep the others waiting.
    runtime.shutdown_timeout(Duration::from_secs(1));
    verdict.unwrap_or_else(|_| Err(Verdict::broken(format_args!("not done within {limit:?}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_was_asked_for_by_name_must_be_there() {
        let by_name = Settings { on: vec!["kafka".to_owned()], all_required: false };
        assert!(by_name.not_requiring(true).requires());
        let in_ci = Settings { on: Vec::new(), all_required: true };
        assert!(in_ci.requires() && !in_ci.not_requiring(true).requires());
        assert!(!Settings::default().requires());
    }
}
