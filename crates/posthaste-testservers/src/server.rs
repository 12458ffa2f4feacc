//! One private server: started, stopped, killed and started again on the same data and port.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::child::{tail, wait};
use crate::error::{Doing as _, Error, Result};
use crate::interrupt::Interrupt;
use crate::kafka::Kafka;
use crate::mariadb::Mariadb;
use crate::nats::Nats;
use crate::pgbouncer::Pgbouncer;
use crate::postgres::Postgres;
use crate::processes::group_lives;
use crate::rabbitmq::Rabbitmq;
use crate::redis::Redis;
use crate::run::Run;
use crate::{Kind, Recipe, account};

/// RabbitMQ takes 8 s on an idle machine; compilers may be at work beside us.
const READY_WITHIN: Duration = Duration::from_secs(120);
const STOPPED_WITHIN: Duration = Duration::from_secs(60);
/// A Postgres that was killed is refused until its last backend noticed; ask again for that long.
const LAUNCH_AGAIN_WITHIN: Duration = Duration::from_secs(10);
const LAUNCH_PAUSE: Duration = Duration::from_millis(300);

/// A server of this run, on a port and a data folder that stay the same over restarts.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    run: Arc<Run>,
    home: PathBuf,
    recipe: Box<dyn Recipe>,
    prepared: bool,
    child: Option<Child>,
}

impl Server {
    /// Claims a port and a folder; nothing runs yet. `postgres` is the URL that a PgBouncer goes in front of.
    pub fn new(kind: Kind, run: &Arc<Run>, postgres: Option<&str>) -> Result<Self> {
        let home = match kind {
            Kind::Postgres | Kind::Pgbouncer => account::unprivileged_home(run, kind.name())?,
            _ => run.new_folder(kind.name())?,
        };
        let recipe: Box<dyn Recipe> = match kind {
            Kind::Postgres => Box::new(Postgres::new(home.clone())?),
            Kind::Pgbouncer => {
                let postgres = postgres.and_then(port_of);
                let port = postgres.ok_or_else(|| Error::failed("there is no Postgres to go in front of"))?;
                Box::new(Pgbouncer::new(home.clone(), port)?)
            }
            Kind::Mariadb => Box::new(Mariadb::new(home.clone())?),
            Kind::Rabbitmq => Box::new(Rabbitmq::new(home.clone())?),
            Kind::Redis => Box::new(Redis::new(home.clone())?),
            Kind::Nats => Box::new(Nats::new(home.clone())?),
            Kind::Kafka => Box::new(Kafka::new(home.clone())?),
        };
        Ok(Self { kind, run: Arc::clone(run), home, recipe, prepared: false, child: None })
    }

    /// A Postgres that follows `primary` asynchronously, from a copy of its data that the first `start` makes. It takes
    /// changes only after `SELECT pg_promote()`.
    pub fn standby_of(primary: &Self, run: &Arc<Run>) -> Result<Self> {
        let port =
            Some(primary.url()).filter(|_| primary.kind == Kind::Postgres).as_deref().and_then(port_of);
        let port = port.ok_or_else(|| Error::failed("only a Postgres can be followed"))?;
        let home = account::unprivileged_home(run, "standby")?;
        let recipe = Box::new(Postgres::standby(home.clone(), port)?);
        Ok(Self { kind: Kind::Postgres, run: Arc::clone(run), home, recipe, prepared: false, child: None })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its own folder, which holds its data; for tests that change its settings between two starts.
    pub fn folder(&self) -> &Path {
        &self.home
    }

    /// Where clients find it; the same before, during and after a restart.
    pub fn url(&self) -> String {
        self.recipe.url()
    }

    /// Makes its data folder and its settings, which a test may then change before the first `start`.
    pub fn prepare(&mut self) -> Result<()> {
        if !self.prepared {
            if let Some(command) = self.recipe.prepare()? {
                let status = wait(&mut self.launch(command)?, self.run.interrupt())?;
                self.expect_success(status)?;
            }
            self.prepared = true;
        }
        Ok(())
    }

    /// Starts it, again after `stop` or `kill`, and returns when it answers.
    pub fn start(&mut self) -> Result<()> {
        self.prepare()?;
        let begun = Instant::now();
        loop {
            let mut child = self.launch(self.recipe.command()?)?;
            let ready = self.run.interrupt().wait_for(READY_WITHIN, || {
                if let Some(status) = child.try_wait().doing("look after a server")? {
                    return Ok(Some(Err(status)));
                }
                Ok(self.recipe.answers().is_ok().then_some(Ok(())))
            });
            match ready {
                Ok(Some(Err(_))) if begun.elapsed() < LAUNCH_AGAIN_WITHIN => {
                    self.run.interrupt().wait_for(LAUNCH_PAUSE, || Ok(None::<()>))?;
                }
                Ok(Some(Err(status))) => {
                    return self.expect_success(status).and(Err(self.broken("ended at once")));
                }
                Ok(Some(Ok(()))) => {
                    self.child = Some(child);
                    return Ok(());
                }
                failed => {
                    self.child = Some(child);
                    self.kill()?;
                    failed?;
                    return Err(self.broken(&format!("does not answer within {READY_WITHIN:?}")));
                }
            }
        }
    }

    /// Tells it what to do as an operator would, by `rabbitmqctl` for instance, and answers what that program said.
    ///
    /// # Errors
    /// If there is no such program, or it did not succeed.
    pub fn control(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.recipe.control()?;
        let output = command.args(arguments).output().doing(format!("control {}", self.kind.name()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(self.broken(&format!("refused {arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr))))
    }

    /// Ends it cleanly; data and port stay for the next `start`.
    pub fn stop(&mut self) -> Result<()> {
        self.end(|leader, kind| kill_process(leader, kind.stop_signal()))
    }

    /// Ends it at once and without a checkpoint, as Postgres does when it is stopped in mode `immediate`.
    pub fn quit(&mut self) -> Result<()> {
        self.end(|leader, _| kill_process(leader, Signal::QUIT))
    }

    /// The process that was started, while it runs: of Postgres the postmaster.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// What it says goes here.
    pub fn log(&self) -> PathBuf {
        self.home.join("server.log")
    }

    /// Ends it as a crash does, by SIGKILL; data and port stay for the next `start`.
    pub fn kill(&mut self) -> Result<()> {
        self.end(|leader, _| kill_process_group(leader, Signal::KILL))
    }

    fn end(&mut self, send: impl FnOnce(Pid, Kind) -> rustix::io::Result<()>) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let leader = Pid::from_child(&child);
        // Gone already is what we want.
        let _ = send(leader, self.kind);
        let unhurried = Interrupt::default();
        let ended = unhurried.wait_for(STOPPED_WITHIN, || {
            let reaped = child.try_wait().doing("look after a server")?.is_some();
            // The wrapper that we started may end before the server that it started.
            Ok((reaped && !group_lives(leader)).then_some(()))
        })?;
        if ended.is_none() {
            let _ = kill_process_group(leader, Signal::KILL);
            return Err(self.broken(&format!("did not end within {STOPPED_WITHIN:?}")));
        }
        Ok(())
    }

    fn launch(&self, mut command: Command) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log());
        let log = log.doing(format!("open {}", self.log().display()))?;
        self.run.adopt(&mut command);
        command.stderr(log.try_clone().doing("share a log file")?).stdout(log);
        command.spawn().doing(format!("start {}", self.kind.name()))
    }

    fn expect_success(&self, status: ExitStatus) -> Result<()> {
        if status.success() { Ok(()) } else { Err(self.broken(&format!("ended with {status}"))) }
    }

    fn broken(&self, how: &str) -> Error {
        let said = fs::read(self.log()).unwrap_or_default();
        Error::failed(format!("{} {how}\n{}", self.kind.name(), tail(&String::from_utf8_lossy(&said), 15)))
    }
}

/// Ends with the run, and leaves no zombie to the process that runs the tests.
impl Drop for Server {
    fn drop(&mut self) {
        if self.run.is_private() {
            // What does not end here is ended by the run's sweep.
            let _ = self.end(|leader, kind| match kind {
                // Gives back its shared memory.
                Kind::Postgres => kill_process(leader, Signal::QUIT),
                _ => kill_process_group(leader, Signal::KILL),
            });
        }
    }
}

/// The port in a URL of ours, all of which name one.
pub(crate) fn port_of(url: &str) -> Option<u16> {
    let (_, rest) = url.rsplit_once(':')?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_in_every_url_of_ours() {
        for url in [
            "postgres://postgres@127.0.0.1:15001/postgres",
            "amqp://guest:guest@127.0.0.1:15001/%2f",
            "nats://127.0.0.1:15001",
            "kafka://127.0.0.1:15001",
        ] {
            assert_eq!(port_of(url), Some(15001), "{url}");
        }
        assert_eq!(port_of("null:"), None);
    }
}
