//! Postgres: as user `postgres` if we are root, since it refuses to run as root.

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

use crate::account::unprivileged;
use crate::error::{Error, Result};
use crate::port::Port;
use crate::{Kind, Recipe};

/// No socket beside the port (its path has a length limit), and what laws need: two-phase commits, many clients.
const SETTINGS: [&str; 5] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=logical",
    "max_connections=300",
    "max_prepared_transactions=64",
];

#[derive(Debug)]
pub(crate) struct Postgres {
    home: PathBuf,
    port: Port,
    /// Follows the server at this port, from a copy of its data.
    primary: Option<u16>,
}

impl Postgres {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()?, primary: None })
    }

    pub(crate) fn standby(home: PathBuf, primary: u16) -> Result<Self> {
        Ok(Self { home, port: Port::claim()?, primary: Some(primary) })
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        let postgres = Kind::Postgres.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        Ok(postgres.with_file_name(name))
    }
}

impl Recipe for Postgres {
    fn prepare(&self) -> Result<Option<Command>> {
        if let Some(primary) = self.primary {
            let mut copy = unprivileged(self.program("pg_basebackup")?);
            copy.arg("-D").arg(self.data()).arg("-d").arg(url(primary));
            copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]).current_dir(&self.home);
            return Ok(Some(copy));
        }
        let mut initdb = unprivileged(self.program("initdb")?);
        initdb.arg("-D").arg(self.data()).args([
            "-U",
            "postgres",
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        ]);
        // Syncing every file matters after a crash of the machine, and then this folder is of no use.
        initdb.arg("--no-sync").current_dir(&self.home);
        Ok(Some(initdb))
    }

    fn command(&self) -> Result<Command> {
        let mut command = unprivileged(self.program("postgres")?);
        command
            .arg("-D")
            .arg(self.data())
            .arg("-p")
            .arg(self.port.number().to_string())
            .current_dir(&self.home);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        Ok(command)
    }

    fn answers(&self) -> io::Result<()> {
        answers(&self.port)
    }

    fn url(&self) -> String {
        url(self.port.number())
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Logs in and hears `ReadyForQuery`, over anything that speaks Postgres' protocol.
pub(crate) fn answers(port: &Port) -> io::Result<()> {
    const LOGIN: &[u8] = b"\x00\x03\x00\x00user\0postgres\0database\0postgres\0\0";
    let mut stream = port.connect()?;
    let length = u32::try_from(LOGIN.len() + 4).expect("a short message");
    stream.write_all(&[&length.to_be_bytes(), LOGIN].concat())?;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let body = u64::from(u32::from_be_bytes(length).saturating_sub(4));
        io::copy(&mut (&mut stream).take(body), &mut io::sink())?;
        match kind {
            // A polite end, or the server logs a lost connection for each look.
            b'Z' => return stream.write_all(b"X\x00\x00\x00\x04"),
            b'E' => return Err(io::Error::other("refuses the login")),
            _ => {}
        }
    }
}
