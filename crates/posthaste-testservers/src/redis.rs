//! Redis that has every acknowledged write on disk, so that laws may kill it.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Error, Result};
use crate::port::Port;
use crate::{Kind, Recipe};

#[derive(Debug)]
pub(crate) struct Redis {
    home: PathBuf,
    port: Port,
}

impl Redis {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()? })
    }
}

impl Recipe for Redis {
    fn prepare(&self) -> Result<Option<Command>> {
        Ok(None)
    }

    fn command(&self) -> Result<Command> {
        let program = Kind::Redis.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = Command::new(program);
        command.args(["--bind", "127.0.0.1", "--port"]).arg(self.port.number().to_string());
        command.arg("--dir").arg(&self.home).args(["--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        // A process title would be written over the environment, by which a run knows its processes.
        command.args(["--set-proc-title", "no"]);
        Ok(command)
    }

    fn answers(&self) -> io::Result<()> {
        let mut stream = self.port.connect()?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        if &answer == b"+PONG" { Ok(()) } else { Err(io::Error::other("is still loading")) }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port.number())
    }
}
