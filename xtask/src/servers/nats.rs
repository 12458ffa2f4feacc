//! NATS with JetStream.

use std::io::{self, BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Command;

use super::port::Port;
use super::{Kind, Recipe};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Nats {
    home: PathBuf,
    port: Port,
}

impl Nats {
    pub(super) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()? })
    }
}

impl Recipe for Nats {
    fn prepare(&self) -> Result<Option<Command>> {
        Ok(None)
    }

    fn command(&self) -> Result<Command> {
        let program = Kind::Nats.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p"]).arg(self.port.number().to_string());
        command.arg("-js").arg("-sd").arg(&self.home);
        Ok(command)
    }

    /// The server speaks first, one line that tells what it can do.
    fn answers(&self) -> io::Result<()> {
        let mut greeting = String::new();
        BufReader::new(self.port.connect()?).read_line(&mut greeting)?;
        let with_streams = greeting.starts_with("INFO ") && greeting.contains("\"jetstream\":true");
        if with_streams { Ok(()) } else { Err(io::Error::other("has no JetStream yet")) }
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port.number())
    }
}
