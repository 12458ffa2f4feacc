//! Several servers, started side by side; what cannot be had is named with the reason.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::run::Run;
use crate::{Kind, Server, install};

/// The servers of a run that could be had, and why the others could not.
#[derive(Debug)]
pub struct Fleet {
    /// Those that answer.
    pub servers: Vec<Server>,
    /// Those that do not: `Unavailable` if this machine cannot have them, `Failed` if they broke.
    pub lacking: Vec<(Kind, Error)>,
}

impl Fleet {
    /// Installs what is missing, and starts `kinds` and what they need. `postgres` is the URL of one that already runs.
    ///
    /// # Errors
    /// Only when interrupted; then everything that it started has ended.
    pub fn start(kinds: &[Kind], run: &Arc<Run>, postgres: Option<&str>) -> Result<Self> {
        let kinds = with_needs(kinds, postgres.is_some());
        let mut fleet = Self { servers: Vec::new(), lacking: Vec::new() };
        let installed = install::ensure(&kinds, run);
        let mut postgres = postgres.map(str::to_owned);
        for kind in kinds {
            let server = match &installed {
                Err(reason) if kind.program().is_none() => Err(reason.clone()),
                _ => Server::new(kind, run, postgres.as_deref()),
            };
            match server {
                Ok(server) if kind == Kind::Postgres => {
                    postgres = Some(server.url());
                    fleet.servers.push(server);
                }
                Ok(server) => fleet.servers.push(server),
                Err(error) => fleet.lacking.push((kind, error)),
            }
        }
        fleet.start_all();
        if let Err(interrupted) = run.interrupt().check() {
            fleet.servers.iter_mut().try_for_each(Server::kill)?;
            return Err(interrupted);
        }
        Ok(fleet)
    }

    fn start_all(&mut self) {
        let started: Vec<(Server, Result<()>)> = thread::scope(|scope| {
            let servers = self.servers.drain(..);
            let threads: Vec<_> = servers.map(|server| scope.spawn(|| start_one(server))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("starting a server does not panic"))
                .collect()
        });
        for (server, result) in started {
            match result {
                Ok(()) => self.servers.push(server),
                Err(error) => self.lacking.push((server.kind(), error)),
            }
        }
    }

    /// What tests find in their environment: a variable and a URL for each server.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        self.servers.iter().map(|server| (server.kind().variable(), server.url()))
    }
}

fn start_one(mut server: Server) -> (Server, Result<()>) {
    let begun = Instant::now();
    let result = server.start();
    if result.is_ok() {
        eprintln!("{} answers after {:.1} s", server.kind().name(), begun.elapsed().as_secs_f32());
    }
    (server, result)
}

/// Each once, in an order in which everything comes after what it needs.
fn with_needs(kinds: &[Kind], postgres_runs: bool) -> Vec<Kind> {
    let needed: Vec<_> = kinds.iter().filter_map(|kind| kind.needs()).filter(|_| !postgres_runs).collect();
    Kind::ALL.into_iter().filter(|kind| kinds.contains(kind) || needed.contains(kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_brings_what_it_needs_and_only_if_it_is_not_there() {
        assert_eq!(
            with_needs(&[Kind::Nats, Kind::Pgbouncer], false),
            [Kind::Postgres, Kind::Pgbouncer, Kind::Nats]
        );
        assert_eq!(with_needs(&[Kind::Pgbouncer], true), [Kind::Pgbouncer]);
    }
}
