//! MariaDB.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::Command;

use crate::account::is_root;
use crate::error::{Doing as _, Error, Result};
use crate::kind::find;
use crate::port::Port;
use crate::{Kind, Recipe};

/// Run at every start: laws make databases of their own, so the account may do everything.
const ACCOUNT: &str = "CREATE DATABASE IF NOT EXISTS posthaste;\n\
    CREATE USER IF NOT EXISTS 'posthaste'@'%';\n\
    GRANT ALL PRIVILEGES ON *.* TO 'posthaste'@'%' WITH GRANT OPTION;\n";

#[derive(Debug)]
pub(crate) struct Mariadb {
    home: PathBuf,
    port: Port,
}

impl Mariadb {
    pub(crate) fn new(home: PathBuf) -> Result<Self> {
        Ok(Self { home, port: Port::claim()? })
    }

    /// Settings of a test's own, which a restart makes count; nobody else's.
    fn settings(&self) -> PathBuf {
        self.home.join("server.cnf")
    }

    /// What both programs must be told: our settings and our folder, and as root that we mean it.
    fn common(&self, command: &mut Command) {
        command.arg(format!("--defaults-file={}", self.settings().display()));
        command.arg(format!("--datadir={}", self.home.join("data").display()));
        if is_root() {
            command.arg("--user=root");
        }
    }
}

impl Recipe for Mariadb {
    fn prepare(&self) -> Result<Option<Command>> {
        fs::write(self.home.join("account.sql"), ACCOUNT).doing("write account.sql")?;
        fs::write(self.settings(), "[mariadbd]\n").doing("write server.cnf")?;
        let program =
            find("mariadb-install-db").ok_or_else(|| Error::Unavailable("no mariadb-install-db".into()))?;
        let mut install = Command::new(program);
        self.common(&mut install);
        install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        Ok(Some(install))
    }

    fn command(&self) -> Result<Command> {
        let program = Kind::Mariadb.program().ok_or_else(|| Error::Unavailable("not installed".into()))?;
        let mut command = Command::new(program);
        self.common(&mut command);
        command.arg(format!("--port={}", self.port.number())).arg("--bind-address=127.0.0.1");
        // Relative to the data folder: a socket's path has a length limit.
        command.args(["--socket=mariadb.sock", "--pid-file=mariadb.pid", "--skip-log-bin"]);
        command.arg(format!("--init-file={}", self.home.join("account.sql").display()));
        command.args(["--skip-name-resolve", "--max-connections=300", "--innodb-flush-log-at-trx-commit=1"]);
        Ok(command)
    }

    /// The server speaks first: three bytes of length, a number, then its protocol's version.
    fn answers(&self) -> io::Result<()> {
        let mut greeting = [0; 5];
        self.port.connect()?.read_exact(&mut greeting)?;
        if greeting[4] == 10 { Ok(()) } else { Err(io::Error::other("refuses the connection")) }
    }

    fn url(&self) -> String {
        format!("mysql://posthaste@127.0.0.1:{}/posthaste", self.port.number())
    }
}
