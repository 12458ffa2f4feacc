//! What can be done to a running line.

use std::time::Duration;

/// A connection between processes and the server, through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// That of one relay.
    Relay(usize),
    /// That of all producers.
    Producers,
    /// That of everybody to the broker.
    Broker,
    /// All of them.
    All,
}

/// One thing that goes wrong, for a while.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// SIGKILL, and a new one after a while.
    KillRelay {
        relay: usize,
        down: Duration,
    },
    /// SIGTERM, and a new one after a while: no failure, and so nothing may come twice by it.
    StopRelay {
        relay: usize,
        down: Duration,
    },
    /// A new one in its place that ends itself at a named point, and one more.
    CrashRelay {
        relay: usize,
        point: &'static str,
        nth: u32,
    },
    /// SIGSTOP, and SIGCONT after a while.
    FreezeRelay {
        relay: usize,
        span: Duration,
    },
    KillProducer {
        producer: usize,
        down: Duration,
    },
    FreezeProducer {
        producer: usize,
        span: Duration,
    },
    /// SIGKILL of the server: of Postgres the postmaster.
    KillServer {
        down: Duration,
    },
    /// SIGKILL of one process that serves a client: the postmaster restarts all the others. On MariaDB, which has threads, `KILL`
    /// of one connection.
    KillBackend,
    /// `pg_ctl stop -m fast`.
    StopServer {
        down: Duration,
    },
    /// `pg_ctl stop -m immediate`; MariaDB stops as it always does.
    QuitServer {
        down: Duration,
    },
    /// SIGKILL of the broker.
    KillBroker {
        down: Duration,
    },
    /// SIGTERM of the broker.
    StopBroker {
        down: Duration,
    },
    /// `pg_terminate_backend` or `KILL` of everybody.
    Terminate,
    Cut {
        link: Link,
    },
    /// Open and mute, both ways.
    Stall {
        link: Link,
        span: Duration,
    },
    /// What is asked arrives, and no answer comes back.
    Deafen {
        link: Link,
        span: Duration,
    },
    /// The server's side is gone, and the client's side stays open for good.
    HalfOpen {
        link: Link,
        span: Duration,
    },
    Delay {
        link: Link,
        by: Duration,
        span: Duration,
    },
    Refuse {
        link: Link,
        span: Duration,
    },
}

impl Fault {
    /// How long it lasts.
    pub(crate) fn span(&self) -> Duration {
        match *self {
            Self::KillRelay { down, .. }
            | Self::StopRelay { down, .. }
            | Self::KillProducer { down, .. }
            | Self::KillServer { down }
            | Self::StopServer { down }
            | Self::QuitServer { down }
            | Self::KillBroker { down }
            | Self::StopBroker { down } => down,
            Self::FreezeRelay { span, .. }
            | Self::FreezeProducer { span, .. }
            | Self::Stall { span, .. }
            | Self::Deafen { span, .. }
            | Self::HalfOpen { span, .. }
            | Self::Delay { span, .. }
            | Self::Refuse { span, .. } => span,
            Self::CrashRelay { .. } | Self::KillBackend | Self::Terminate | Self::Cut { .. } => {
                Duration::ZERO
            }
        }
    }

    /// How often a lane may be taken from its owner by it, with what was in hand delivered again: once; twice by a freeze,
    /// whose victim still has in its hands what somebody else has delivered meanwhile; never by what harms no relay.
    pub(crate) fn repeats(&self) -> usize {
        match self {
            Self::FreezeRelay { .. } => 2,
            Self::StopRelay { .. }
            | Self::KillProducer { .. }
            | Self::FreezeProducer { .. }
            | Self::Cut { link: Link::Producers }
            | Self::Stall { link: Link::Producers, .. }
            | Self::Deafen { link: Link::Producers, .. }
            | Self::HalfOpen { link: Link::Producers, .. }
            | Self::Delay { link: Link::Producers, .. }
            | Self::Refuse { link: Link::Producers, .. } => 0,
            // The relay that makes room for it, and its own end.
            Self::CrashRelay { .. } => 2,
            _ => 1,
        }
    }
}
