//! A Postgres server of a test's own, whose settings and files the test may change.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use posthaste_testservers::{Interrupt, Kind, Run, Server};

use crate::postgres_access::scope;

/// A private server; gone with the test.
pub(crate) struct Private(Server);

impl Private {
    /// Starts one; `None`: this machine has no Postgres, and the trial was said to be skipped.
    pub(crate) fn start(trial: &str) -> Option<Self> {
        if !Kind::Postgres.is_installed() {
            scope::skip(trial, "Postgres is not installed");
            return None;
        }
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Postgres, &run, None).unwrap();
        server.start().unwrap();
        Some(Self(server))
    }

    pub(crate) fn port(&self) -> u16 {
        let url = self.0.url();
        url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0.parse().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    /// Puts a file into the data folder that only the server may read; answers where.
    pub(crate) fn put(&self, name: &str, contents: &str) -> PathBuf {
        let data = self.0.folder().join("data");
        let file = data.join(name);
        std::fs::write(&file, contents).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let owner = data.metadata().unwrap();
        std::os::unix::fs::chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        file
    }

    /// Changes its settings, which a restart makes count.
    pub(crate) fn set(&self, lines: &str) {
        let file = self.0.folder().join("data/postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(file).unwrap();
        writeln!(file, "{lines}").unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    pub(crate) fn stop(&mut self) {
        self.0.stop().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.0.start().unwrap();
    }
}
