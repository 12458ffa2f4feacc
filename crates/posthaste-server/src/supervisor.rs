//! Telling systemd how the process is: that it is ready, that it stops, and, as long as it does its work, that it lives.
//!
//! The protocol is a datagram of text to the socket that `NOTIFY_SOCKET` names (sd_notify(3)). Without one nothing is told.

use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use posthaste::heartbeat::Heartbeat;

use crate::config::Environment;

/// Beats per interval of the watchdog: one may be late.
const BEATS_PER_INTERVAL: u32 = 2;

/// Whoever started the process and wants to hear of it; nobody, mostly.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    ear: Option<Arc<Ear>>,
    /// How often it wants to hear that the process lives.
    watchdog: Option<Duration>,
}

/// Where it listens.
#[derive(Debug)]
struct Ear {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Supervisor {
    /// The supervisor that the environment names. One that cannot be reached is told of in the log and does without.
    pub fn of(environment: &Environment) -> Self {
        let Some(name) = environment.get("NOTIFY_SOCKET") else { return Self::default() };
        let ear = match Ear::at(name) {
            Ok(ear) => Some(Arc::new(ear)),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used; whoever started this process hears nothing of it");
                None
            }
        };
        // A variable that was handed on is about another process.
        let is_ours = environment.get("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let micros = environment.get("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|micros| is_ours && *micros > 0).map(Duration::from_micros);
        Self { ear, watchdog }
    }

    /// The process does its work from now on.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// The process was asked to end, and finishes what is in flight.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Says that the process lives, for ever, as often as the watchdog wants it: from a task among those that do the work, and only
    /// while all of these loops turn, so that it falls silent when they cannot go on.
    pub async fn beat(self, loops: Vec<Heartbeat>) {
        let Some(interval) = self.watchdog.filter(|_| self.ear.is_some()) else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(interval / BEATS_PER_INTERVAL);
        loop {
            ticks.tick().await;
            match loops.iter().find(|heartbeat| heartbeat.is_late()) {
                None => self.say("WATCHDOG=1"),
                Some(stuck) => {
                    tracing::error!(name = stuck.name(), age = ?stuck.age(), "a loop does not turn")
                }
            }
        }
    }

    fn say(&self, what: &str) {
        let Some(ear) = &self.ear else { return };
        if let Err(error) = ear.socket.send_to_addr(what.as_bytes(), &ear.address) {
            tracing::warn!(%error, what, "whoever started this process could not be told");
        }
    }
}

impl Ear {
    fn at(name: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // Whoever does not listen must not hold up the work.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address: address(name)? })
    }
}

/// A path, or after an `@` a name that is not in the file system.
fn address(name: &str) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = name.strip_prefix('@') {
        use std::os::linux::net::SocketAddrExt as _;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(socket: &str, micros: &str, pid: u32) -> Environment {
        let pid = pid.to_string();
        Environment::of(&[("NOTIFY_SOCKET", socket), ("WATCHDOG_USEC", micros), ("WATCHDOG_PID", &pid)])
    }

    fn heard(ear: &UnixDatagram) -> String {
        let mut text = [0; 64];
        ear.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = ear.recv(&mut text).expect("something is said");
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_supervisor_hears_that_the_process_is_ready_lives_and_stops() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let ear = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::of(&environment(path.to_str().unwrap(), "20000", std::process::id()));
        supervisor.ready();
        assert_eq!(heard(&ear), "READY=1");
        for _ in 0..2 {
            let beat = tokio::time::timeout(Duration::from_millis(1), supervisor.clone().beat(Vec::new()));
            beat.await.expect_err("it beats for ever");
            assert_eq!(heard(&ear), "WATCHDOG=1");
        }
        supervisor.stopping();
        assert_eq!(heard(&ear), "STOPPING=1");
    }

    /// Of two loops one is stuck: nothing is said until it turns again.
    #[tokio::test]
    async fn a_loop_that_does_not_turn_silences_the_watchdog() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let ear = UnixDatagram::bind(&path).unwrap();
        let supervisor = Supervisor::of(&environment(path.to_str().unwrap(), "2000", std::process::id()));
        let ended = Heartbeat::new("retention", Duration::ZERO);
        ended.end();
        let stuck = Heartbeat::new("lane main", Duration::ZERO);
        while !stuck.is_late() {
            tokio::task::yield_now().await;
        }
        let beats = supervisor.beat(vec![ended, stuck.clone()]);
        tokio::time::timeout(Duration::from_millis(20), beats).await.expect_err("it goes on for ever");
        ear.set_nonblocking(true).unwrap();
        assert!(ear.recv(&mut [0; 64]).is_err(), "nothing is said");
        ear.set_nonblocking(false).unwrap();
        stuck.end();
        let supervisor = Supervisor::of(&environment(path.to_str().unwrap(), "2000", std::process::id()));
        let beats = supervisor.beat(vec![stuck]);
        tokio::time::timeout(Duration::from_millis(20), beats).await.expect_err("it goes on for ever");
        assert_eq!(heard(&ear), "WATCHDOG=1");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_outside_of_the_file_system_will_do() {
        use std::os::linux::net::SocketAddrExt as _;
        let name = format!("posthaste-notify-{}", std::process::id());
        let ear = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        Supervisor::of(&environment(&format!("@{name}"), "", 0)).ready();
        assert_eq!(heard(&ear), "READY=1");
    }

    #[test]
    fn a_watchdog_of_another_process_and_a_socket_that_is_not_there_are_nothing() {
        let other = Supervisor::of(&environment("/nowhere/notify", "20000", 1));
        assert_eq!(other.watchdog, None);
        other.ready();
        let nobody = Supervisor::of(&Environment::of(&[]));
        assert!(nobody.ear.is_none());
        nobody.ready();
    }
}
