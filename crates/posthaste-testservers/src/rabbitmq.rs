//! RabbitMQ, with an epmd of its own so that nodes side by side share nothing.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Doing as _, Error, Result};
use crate::port::Port;
use crate::{Kind, Recipe};

#[derive(Debug)]
pub(crate) struct Rabbitmq {
    home: PathBuf,
    port: Port,
    distribution: Port,
    /// The node starts the daemon itself; it outlives the node and ends with the run.
    epmd: Port,
}

impl Rabbitmq {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()?, distribution: Port::claim()?, epmd: Port::claim()? })
    }

    /// One of its programs, in the environment of this node.
    fn of(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        // The cookie is made in HOME.
        command.env("HOME", &self.home).current_dir(&self.home);
        command.env("RABBITMQ_NODENAME", "posthaste@localhost").env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODE_PORT", self.port.number().to_string());
        command.env("RABBITMQ_DIST_PORT", self.distribution.number().to_string());
        command.env("ERL_EPMD_PORT", self.epmd.number().to_string()).env("ERL_EPMD_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        // The machine's own settings are not for us.
        command.env("RABBITMQ_CONF_ENV_FILE", "/dev/null");
        for (variable, file) in [
            ("RABBITMQ_MNESIA_BASE", "mnesia"),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_PID_FILE", "pid"),
            // Further settings of a test's own: files that end with `.conf`.
            ("RABBITMQ_CONFIG_FILES", "conf.d"),
        ] {
            command.env(variable, self.home.join(file));
        }
        command
    }
}

fn program() -> Result<PathBuf> {
    Kind::Rabbitmq.program().ok_or_else(|| Error::Unavailable("not installed".into()))
}

impl Recipe for Rabbitmq {
    fn prepare(&self) -> Result<Option<Command>> {
        fs::create_dir_all(self.home.join("conf.d")).doing("make conf.d")?;
        fs::write(self.home.join("enabled_plugins"), "[].\n").doing("write enabled_plugins")?;
        let settings = "loopback_users = none\nlog.console = true\nlog.file = false\n";
        fs::write(self.home.join("rabbitmq.conf"), settings).doing("write rabbitmq.conf")?;
        Ok(None)
    }

    fn command(&self) -> Result<Command> {
        Ok(self.of(program()?))
    }

    fn control(&self) -> Result<Command> {
        Ok(self.of(program()?.with_file_name("rabbitmqctl")))
    }

    /// Offers AMQP 0-9-1 and hears a method frame on channel 0: `connection.start`.
    fn answers(&self) -> io::Result<()> {
        let mut stream = self.port.connect()?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut frame = [0; 11];
        stream.read_exact(&mut frame)?;
        let is_start = frame[0] == 1 && frame[7..] == [0, 10, 0, 10];
        if is_start { Ok(()) } else { Err(io::Error::other("does not start a connection")) }
    }

    fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port.number())
    }
}
