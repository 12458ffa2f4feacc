//! PgBouncer in transaction mode, in front of a private Postgres: what a relay must be able to live with.

use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use crate::account::unprivileged;
use crate::error::{Doing as _, Error, Result};
use crate::port::Port;
use crate::{Kind, Recipe, postgres};

#[derive(Debug)]
pub(crate) struct Pgbouncer {
    home: PathBuf,
    port: Port,
    postgres_port: u16,
}

impl Pgbouncer {
    pub(crate) fn new(home: PathBuf, postgres_port: u16) -> Result<Self> {
        Ok(Self { home, port: Port::claim()?, postgres_port })
    }

    fn settings(&self) -> PathBuf {
        self.home.join("pgbouncer.ini")
    }
}

impl Recipe for Pgbouncer {
    fn prepare(&self) -> Result<Option<Command>> {
        let (port, postgres_port) = (self.port.number(), self.postgres_port);
        let settings = format!(
            "[databases]\n\
             * = host=127.0.0.1 port={postgres_port} user=postgres\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir =\n\
             auth_type = any\n\
             pool_mode = transaction\n\
             max_client_conn = 500\n\
             default_pool_size = 20\n\
             server_login_retry = 0.2\n\
             ignore_startup_parameters = extra_float_digits\n"
        );
        fs::write(self.settings(), settings).doing("write pgbouncer.ini")?;
        Ok(None)
    }

    fn command(&self) -> Result<Command> {
        let program = Kind::Pgbouncer.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = unprivileged(program);
        command.arg(self.settings()).current_dir(&self.home);
        Ok(command)
    }

    fn answers(&self) -> io::Result<()> {
        postgres::answers(&self.port)
    }

    fn url(&self) -> String {
        postgres::url(self.port.number())
    }
}
