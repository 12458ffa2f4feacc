//! What relaying costs the server: how much it writes ahead, and how much processor time it takes.

use std::path::Path;
use std::time::Duration;

use posthaste_terminal::exit::Failure;
use tokio_postgres::Client;

use super::tables::{connect, failed};

/// Reads both figures at a moment.
pub(super) struct Meter {
    client: Client,
    postmaster: Result<u32, String>,
    /// The server's version, as it says it.
    pub(super) version: String,
}

/// A moment.
pub(super) struct Reading {
    wal: i64,
    cpu: Option<Duration>,
}

/// The difference between two moments.
pub(super) struct Cost {
    pub(super) wal: i64,
    pub(super) cpu: Option<Duration>,
}

impl Reading {
    pub(super) fn since(&self, before: &Self) -> Cost {
        let cpu = self.cpu.zip(before.cpu).map(|(now, then)| now.saturating_sub(then));
        Cost { wal: self.wal - before.wal, cpu }
    }
}

impl Meter {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = connect(url).await?;
        let row = client
            .query_one("SELECT pg_backend_pid(), current_setting('server_version')", &[])
            .await
            .map_err(failed("ask the server who it is"))?;
        let pid = u32::try_from(row.get::<_, i32>(0)).unwrap_or_default();
        Ok(Self { client, postmaster: postmaster_of(pid), version: row.get(1) })
    }

    /// Why the processor time is not known.
    pub(super) fn cpu_unknown(&self) -> Option<&str> {
        self.postmaster.as_ref().err().map(String::as_str)
    }

    pub(super) async fn read(&self) -> Result<Reading, Failure> {
        let asked = self.client.query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint", &[]).await;
        let wal = asked.map_err(failed("ask how much was written ahead"))?.get(0);
        let cpu = self.postmaster.as_ref().ok().and_then(|&postmaster| cpu_of_tree(postmaster));
        Ok(Reading { wal, cpu })
    }
}

/// The first process of the server that this backend belongs to.
fn postmaster_of(backend: u32) -> Result<u32, String> {
    let elsewhere = || "the server's processes are not on this machine".to_owned();
    let stat = Stat::read(backend).filter(|stat| stat.name == "postgres").ok_or_else(elsewhere)?;
    let parent = Stat::read(stat.parent).filter(|stat| stat.name == "postgres").ok_or_else(elsewhere)?;
    cpu_of_tree(parent.pid).map(|_| parent.pid).ok_or_else(|| "/proc does not say it".to_owned())
}

/// Processor time of the server's first process, of those that it started, and of those that have ended.
fn cpu_of_tree(postmaster: u32) -> Option<Duration> {
    let mut sum = Stat::read(postmaster)?.ended + running(postmaster)?;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let child = pid.and_then(Stat::read).filter(|stat| stat.parent == postmaster);
        sum += child.and_then(|child| running(child.pid)).unwrap_or_default();
    }
    Some(sum)
}

/// Processor time of a process with one thread, exactly.
fn running(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// What `/proc` says about a process.
struct Stat {
    pid: u32,
    name: String,
    parent: u32,
    /// Processor time of its children that have ended.
    ended: Duration,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
        Self::parse(&text)
    }

    /// The name stands in parentheses and may itself hold some; what follows it is numbers.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(") ")?;
        let (pid, name) = before.split_once(" (")?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = number(13)? + number(14)?;
        Some(Self {
            pid: pid.parse().ok()?,
            name: name.to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            ended: Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second().max(1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = Stat::parse("12 (a (b) c) S 7 1 1 0 -1 4 1 2 3 4 5 6 100 50 20 0 1 0 99").unwrap();
        assert_eq!((stat.pid, stat.name.as_str(), stat.parent), (12, "a (b) c", 7));
        assert_eq!(stat.ended.as_millis() * u128::from(rustix::param::clock_ticks_per_second()), 150_000);
        assert!(Stat::parse("12 (a").is_none());
    }

    #[test]
    fn only_a_server_here_has_a_known_cost() {
        assert!(postmaster_of(std::process::id()).is_err(), "this process is no server");
    }
}
