//! Finds and ends everything that a run started, also what daemonised itself or was left by a killed run.
//!
//! Every process that a run starts carries the run's name in its environment and hands it down. Names are random and
//! never used again, so unlike recorded process ids they cannot come to mean a stranger.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Result;
use crate::interrupt::Interrupt;

/// Names the runs that a process belongs to, outermost first, separated by colons.
pub(crate) const MARK: &str = "POSTHASTE_XTASK_RUN";

/// So long a process may take to end after it was asked.
const END_WITHIN: Duration = Duration::from_secs(5);

/// What a process started by run `name` carries: the runs around it, then `name`.
pub(crate) fn mark(name: &str) -> String {
    match std::env::var_os(MARK) {
        Some(outer) => format!("{}:{name}", outer.to_string_lossy()),
        None => name.to_owned(),
    }
}

/// Every living process that carries `name` in its mark. Zombies have no environment and are not among them.
pub(crate) fn marked(name: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| carries(*pid, name)).filter_map(Pid::from_raw).collect()
}

/// True while a process of this group lives. Zombies do not: nobody may ever reap them, if our init does not.
pub(crate) fn group_lives(leader: Pid) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.flatten().any(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        lives_in_group(&stat, leader.as_raw_nonzero().get())
    })
}

/// Reads `/proc/PID/stat`: `pid (name) state parent group …`, where the name may contain anything.
fn lives_in_group(stat: &str, wanted: i32) -> bool {
    /// Counted from the state.
    const THREADS: usize = 17;
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<&str> = fields.split(' ').collect();
    let [state, _parent, group, ..] = fields[..] else { return false };
    // A process whose first thread is a zombie keeps its sockets until its other threads are gone.
    let threads_left = fields.get(THREADS).and_then(|count| count.parse().ok()).unwrap_or(0) > 1;
    group.parse() == Ok(wanted) && (!["Z", "X"].contains(&state) || threads_left)
}

fn carries(pid: i32, name: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let mut variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables.any(|variable| {
        variable
            .strip_prefix(MARK)
            .and_then(|rest| rest.strip_prefix('='))
            .is_some_and(|runs| runs.split(':').any(|run| run == name))
    })
}

/// Ends every process of run `name` and returns when none is left. What they hold on disk is thrown away afterwards.
pub(crate) fn end_marked(name: &str) -> Result<()> {
    // Not the caller's interrupt: the sweep is what an interrupt is for.
    let unhurried = Interrupt::default();
    for signal_for in [gentlest_quick_signal, |_: Pid| Signal::KILL] {
        let mut asked = Vec::new();
        let gone = unhurried.wait_for(END_WITHIN, || {
            let left = marked(name);
            for pid in left.iter().filter(|pid| !asked.contains(*pid)) {
                // Gone meanwhile is what we want.
                let _ = kill_process(*pid, signal_for(*pid));
            }
            let gone = left.is_empty().then_some(());
            asked = left;
            Ok(gone)
        })?;
        if gone.is_some() {
            break;
        }
    }
    Ok(())
}

/// SIGQUIT lets Postgres give back its shared memory, which outlives a killed one; all others are simply killed.
fn gentlest_quick_signal(pid: Pid) -> Signal {
    match fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())) {
        Ok(name) if name.trim() == "postgres" => Signal::QUIT,
        _ => Signal::KILL,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_zombie_lives_only_while_it_has_threads_left() {
        let stat = |state: &str, threads: u32| {
            format!("7 (odd) name) {state} 1 42 42 0 -1 4228364 0 0 0 0 1 2 0 0 20 0 {threads} 0 99 0 0")
        };
        assert!(lives_in_group(&stat("S", 1), 42));
        assert!(lives_in_group(&stat("Z", 3), 42));
        assert!(!lives_in_group(&stat("Z", 1), 42));
        assert!(!lives_in_group(&stat("S", 1), 1));
    }

    /// A shell that starts a detached grandchild: both carry the mark, both end, a stranger does not.
    #[test]
    fn ending_a_run_ends_its_detached_grandchildren_and_nobody_else() {
        let sleeper = |name: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", "setsid sleep 60 & wait"]).env(MARK, format!("outer:{name}"));
            command.spawn().expect("a shell starts")
        };
        // Random, as a run's name is: this test may run twice at once on one machine.
        let ours = format!("test-{:016x}", fastrand::u64(..));
        let strangers = format!("{ours}0");
        let (mut our_shell, mut strange_shell) = (sleeper(&ours), sleeper(&strangers));
        let both = |name: &str| {
            let two = || Ok((marked(name).len() == 2).then_some(()));
            Interrupt::default().wait_for(END_WITHIN, two).unwrap().is_some()
        };
        assert!(both(&ours) && both(&strangers));

        end_marked(&ours).unwrap();
        our_shell.wait().unwrap();
        assert!(marked(&ours).is_empty());
        assert_eq!(marked(&strangers).len(), 2);

        end_marked(&strangers).unwrap();
        strange_shell.wait().unwrap();
    }
}
