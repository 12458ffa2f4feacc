//! `cargo xtask laws`: the conformance suite as a table of law × backend.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::report::say;
use crate::steps::{cargo, run_step};
use crate::table::table;
use crate::trials::Trials;
use crate::whole_check::{is_ci, may_lack};
use posthaste_testservers::{Error, Fleet, Interrupt, Kind, Result, Run, wait};

/// The conformance suite; its trials are called `<backend>::<law>`.
const SUITE: [&str; 5] = ["test", "--package", "posthaste", "--test", "conformance"];
/// Tells the suite which backends to bring.
const ON: &str = "POSTHASTE_LAWS_ON";

/// Runs the laws that contain `filter`, on the named backends or all; the answer tells whether nothing failed.
pub(crate) fn laws(filter: Option<&str>, on: &[String], interrupt: &Interrupt) -> Result<bool> {
    let run = Arc::new(Run::private(interrupt)?);
    build(&run)?;
    let trials = list(&run, filter, on)?;
    let fleet = Fleet::start(&servers_for(&trials), &run, None)?;
    for (kind, error) in &fleet.lacking {
        eprintln!("{}: {error}", kind.name());
    }
    let mut command = suite(filter, on, &[])?;
    command.envs(fleet.environment());
    let ended = run_step(&run, command)?;
    // A server that broke is a failure, and so is one that cannot be had, in CI or where somebody asked for it by name.
    let is_named = !on.is_empty();
    let lacking = fleet.lacking.iter().filter(|(kind, error)| is_named || !may_lack(*kind, error)).count();
    drop((fleet, run));

    let mut trials = Trials::read(&ended.stdout, &ended.stderr);
    if is_ci() {
        trials.demand_servers();
    }
    // A suite that died has printed no result.
    trials.sum.failed += lacking + usize::from(!ended.ok && trials.sum.failed == 0);
    say(&table(&trials));
    if trials.sum.failed > 0 {
        say(&if trials.failures.is_empty() { ended.last_words() } else { trials.failures });
    }
    say(&trials.sum.to_string());
    Ok(trials.sum.failed == 0)
}

/// The suite's command; `flags` go to its harness.
fn suite(filter: Option<&str>, on: &[String], flags: &[&str]) -> Result<Command> {
    let mut command = cargo(&SUITE)?;
    command.arg("--quiet").arg("--").args(flags).args(filter);
    if on.is_empty() {
        // What is in our environment is a developer's choice for one's own runs of the suite.
        command.env_remove(ON);
    } else {
        command.env(ON, on.join(","));
    }
    Ok(command)
}

/// Compiles before anything is started, and lets cargo show how far it is.
fn build(run: &Run) -> Result<()> {
    let mut command = cargo(&SUITE)?;
    command.arg("--no-run").stdout(Stdio::null());
    run.adopt(&mut command);
    let mut child = command.spawn().map_err(Error::failed)?;
    let status = wait(&mut child, run.interrupt())?;
    if status.success() { Ok(()) } else { Err(Error::failed("the laws do not compile")) }
}

/// The names of the trials that will run.
fn list(run: &Run, filter: Option<&str>, on: &[String]) -> Result<Vec<String>> {
    let listed = run_step(run, suite(filter, on, &["--list"])?)?;
    if !listed.ok {
        return Err(Error::failed(listed.last_words()));
    }
    let names = listed.stdout.lines().filter_map(|line| line.strip_suffix(": test"));
    let names: Vec<String> = names.map(str::to_owned).collect();
    let backends: BTreeSet<&str> = names.iter().filter_map(|name| Some(name.split_once("::")?.0)).collect();
    let unknown = on.iter().find(|name| filter.is_none() && !backends.contains(name.as_str()));
    if let Some(unknown) = unknown {
        return Err(Error::failed(format!("no backend is called {unknown:?}")));
    }
    if names.is_empty() { Err(Error::failed("no law matches")) } else { Ok(names) }
}

/// A backend's name contains the name of the server that it needs; MySQL's is MariaDB, and a pooled Postgres has
/// PgBouncer in front. Backends without a server have no such name.
fn servers_for(trials: &[String]) -> Vec<Kind> {
    let backends: BTreeSet<&str> = trials.iter().filter_map(|name| Some(name.split_once("::")?.0)).collect();
    let server_of = |backend: &str| {
        if backend.contains("pooled") || backend.contains("pgbouncer") {
            return Some(Kind::Pgbouncer);
        }
        if backend.contains("mysql") {
            return Some(Kind::Mariadb);
        }
        Kind::ALL.into_iter().find(|kind| backend.contains(kind.name()))
    };
    backends.into_iter().filter_map(server_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_of_the_chosen_backends_are_started() {
        let servers =
            |names: &[&str]| servers_for(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(servers(&["memory::a", "sqlite::a"]), []);
        assert_eq!(servers(&["postgres::a", "postgres::b"]), [Kind::Postgres]);
        assert_eq!(servers(&["sqlx_postgres::a", "sqlx_sqlite::a"]), [Kind::Postgres]);
        assert_eq!(servers(&["postgres_pooled::a"]), [Kind::Pgbouncer]);
        assert_eq!(servers(&["mysql::a", "nats::a"]), [Kind::Mariadb, Kind::Nats]);
    }
}
