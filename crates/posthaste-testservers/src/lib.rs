//! Private servers for tests: own data folder, own port on loopback, gone with the run that started them.
//!
//! A [`Run`] owns everything that a test or a task starts, and ends it, also after a kill. [`Fleet`] starts several
//! servers at once, [`up`] and [`down`] keep servers between two commands.
//!
//! One file per server, each a `Recipe`: how to prepare its folder, which command runs it, how to see that it
//! answers, and its URL. [`Server`] makes the same `start`, `stop`, `kill` and `url` of all of them.

mod account;
mod child;
mod error;
mod fleet;
mod install;
mod interrupt;
mod kafka;
mod kind;
mod mariadb;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod processes;
mod rabbitmq;
mod redis;
mod run;
mod server;
mod standing;

use std::io;
use std::process::Command;

pub use child::{tail, wait};
pub use error::{Doing, Error, Result};
pub use fleet::Fleet;
pub use interrupt::Interrupt;
pub use kind::Kind;
pub use port::Port;
pub use run::{Run, workspace};
pub use server::Server;
pub use standing::{Standing, down, up};

/// What differs between servers.
trait Recipe: std::fmt::Debug + Send {
    /// Writes settings, and answers the command that makes the data folder; asked once, before the first start.
    fn prepare(&self) -> Result<Option<Command>>;
    /// The server in the foreground, on the data that `prepare` made.
    fn command(&self) -> Result<Command>;
    /// The program by which an operator tells it what to do, without arguments.
    fn control(&self) -> Result<Command> {
        Err(Error::failed("this server has no program to control it"))
    }
    /// Connects and hears the server's own greeting.
    fn answers(&self) -> io::Result<()>;
    /// Where clients find it.
    fn url(&self) -> String;
}
