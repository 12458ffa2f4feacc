//! A process of ours: started again and again under one name, frozen, killed.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_testservers::Run;
use rustix::process::{Pid, Signal, kill_process};

use crate::Result;

/// One relay or producer.
pub(crate) struct Worker {
    run: Arc<Run>,
    name: String,
    arguments: Vec<String>,
    log: PathBuf,
    /// How often it was started; the processes are told apart by it.
    starts: u32,
    child: Option<Child>,
    /// Nobody is to start it again when it is found to have ended.
    pub(crate) is_down: bool,
}

impl Worker {
    /// Not started yet. What it says goes to `log`.
    pub(crate) fn new(run: &Arc<Run>, name: String, arguments: Vec<String>, log: PathBuf) -> Self {
        Self { run: Arc::clone(run), name, arguments, log, starts: 0, child: None, is_down: false }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Starts a process, with these arguments more.
    pub(crate) fn start(&mut self, more: &[&str]) -> Result<()> {
        self.starts += 1;
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(std::env::current_exe()?);
        self.run.adopt(&mut command);
        command.args(&self.arguments).arg("--name").arg(format!("{}.{}", self.name, self.starts)).args(more);
        command.stdout(log.try_clone()?).stderr(log);
        self.child = Some(command.spawn()?);
        self.is_down = false;
        Ok(())
    }

    /// Sends a signal to its process, if there is one.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // It may have ended by itself in this moment.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// SIGKILL, and sees it end.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.is_down = true;
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Whether it listens for SIGTERM by now, or need not any more.
    fn listens_or_ended(&mut self) -> Result<bool> {
        let Some(child) = &mut self.child else { return Ok(true) };
        // It answers the same when it is asked again.
        Ok(child.try_wait()?.is_some() || catches_term(child.id()))
    }

    /// Whether there is no process, and how it ended if that was seen just now.
    fn has_ended(&mut self) -> Result<Option<Option<ExitStatus>>> {
        let ended = self.ended()?;
        Ok(self.child.is_none().then_some(ended))
    }

    /// How it ended, if it did since it was last asked.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let ended = child.try_wait()?;
        if ended.is_some() {
            self.child = None;
        }
        Ok(ended)
    }
}

/// Sends SIGTERM and waits for a clean end; answers how long that took.
pub(crate) async fn stop(worker: &std::sync::Mutex<Worker>, within: Duration) -> Result<Duration> {
    let begun = Instant::now();
    // One that has just started would end by the signal itself, as it does not listen for it yet.
    while begun.elapsed() < within && !lock(worker).listens_or_ended()? {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let name = {
        let mut worker = lock(worker);
        worker.is_down = true;
        worker.signal(Signal::TERM);
        worker.name().to_owned()
    };
    while begun.elapsed() < within {
        match lock(worker).has_ended()? {
            Some(status) if status.is_none_or(|status| status.success()) => return Ok(begun.elapsed()),
            Some(status) => return Err(format!("{name} was told to stop and ended with {status:?}").into()),
            None => {}
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{name} did not stop within {within:?}").into())
}

/// Whether this process has a handler for SIGTERM, as the kernel tells.
fn catches_term(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    caught.is_none_or(|caught| caught & (1 << (Signal::TERM.as_raw() - 1)) != 0)
}

/// Nobody panics while holding one.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}
