//! The relay under random faults: a seed decides what is published, what the target and the store do wrong, and when
//! relays crash; time is tokio's paused clock. When everything is well again, the guarantees are checked.
//!
//! `SEED=17 cargo test -p posthaste-core --test relay_simulation` runs one seed, `SEEDS=5000` the first so many.

#![expect(clippy::unwrap_used, reason = "a simulation that cannot go on says where")]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts relays as tasks and takes its seed from the environment"
)]

mod check;
mod store;
mod target;
mod world;

use std::sync::mpsc;
use std::time::Duration;

/// Seeds of one run.
const SEEDS: u64 = 300;
/// Real time for one seed: a relay that spins without letting time pass never ends by itself.
const SEED_MAX: Duration = Duration::from_secs(30);

#[test]
fn whatever_goes_wrong_nothing_is_lost_and_keys_keep_their_order() {
    quiet_planned_panics();
    let number = |name| Some(std::env::var(name).ok()?.parse::<u64>().expect("SEED and SEEDS are numbers"));
    let seeds = number("SEED").map_or(0..number("SEEDS").unwrap_or(SEEDS), |seed| seed..seed + 1);
    let wrong: Vec<String> =
        seeds.filter_map(|seed| Some(format!("SEED={seed}: {}", watched(seed).err()?))).collect();
    assert!(wrong.is_empty(), "{} seeds went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs a seed on a thread of its own, so that one that never ends is told from one that takes long.
fn watched(seed: u64) -> Result<(), String> {
    let (ended, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let run = std::panic::catch_unwind(|| run(seed));
        // Nobody listens any more when it took too long.
        let _ = ended.send(run.unwrap_or_else(|_| Err("the simulation panicked".to_owned())));
    });
    outcome.recv_timeout(SEED_MAX).unwrap_or_else(|_| Err("no end: something spins".to_owned()))
}

fn run(seed: u64) -> Result<(), String> {
    // The relay's own jitter comes from here too.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async { world::World::new(seed).live().await })
}

/// Panics that the simulated target was told to have are no news.
fn quiet_planned_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&target::PLANNED) {
            loud(info);
        }
    }));
}
