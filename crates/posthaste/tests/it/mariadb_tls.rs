//! The way to a MariaDB database: encrypted, with the right CA and the right name, or not at all.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use posthaste::store::{StoreOptions, TableOptions, open_table};
use posthaste::table::{Profile, mysql_table_ddl};
use posthaste::{ErrorKind, Result};
use posthaste_testservers::{Interrupt, Kind, Run, Server};
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection};

use crate::certificates::Ca;

const PASSWORD: &str = "quite-secret";

/// A server of the test's own, with the reference table and a user who may come encrypted only.
struct Stand(Server);

impl Stand {
    async fn new(trial: &str) -> Option<Self> {
        if !Kind::Mariadb.is_installed() {
            skip(trial, "MariaDB is not installed");
            return None;
        }
        let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
        let mut server = Server::new(Kind::Mariadb, &run, None).unwrap();
        server.start().unwrap();
        let mut connection = MySqlConnection::connect(&server.url()).await.unwrap();
        let make = format!(
            "{} CREATE USER sure IDENTIFIED BY '{PASSWORD}' REQUIRE SSL; GRANT ALL ON posthaste.* TO sure",
            mysql_table_ddl(&Profile::open_outbox())
        );
        sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut connection).await.unwrap();
        Some(Self(server))
    }

    fn file(&self, name: &str, contents: &str) -> String {
        let file: PathBuf = self.0.folder().join(name);
        std::fs::write(&file, contents).unwrap();
        file.display().to_string()
    }

    /// The server shows this certificate from here on.
    fn show(&mut self, (certificate, key): (String, String)) {
        let (certificate, key) = (self.file("server.pem", &certificate), self.file("server.key", &key));
        self.file("server.cnf", &format!("[mariadbd]\nssl_cert = {certificate}\nssl_key = {key}\n"));
        self.0.stop().unwrap();
        self.0.start().unwrap();
    }

    /// Looks at the table as this user, by this host name.
    async fn ask(&self, user: &str, host: &str, settings: &str) -> Result<()> {
        let port = self.0.url().rsplit_once(':').unwrap().1.split_once('/').unwrap().0.to_owned();
        let url = format!("mysql://{user}:{PASSWORD}@{host}:{port}/posthaste?{settings}");
        let table = TableOptions::new(Profile::open_outbox());
        open_table(&url, table, StoreOptions::default()).await?.status().await.map(drop)
    }

    /// Must be refused, with these words and without a secret.
    async fn refused(&self, user: &str, host: &str, settings: &str, says: &str) {
        let error = self.ask(user, host, settings).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(error.to_string().contains(says) && !text.contains(PASSWORD), "{text}");
    }
}

/// Says that a test is skipped; a failure where everything must run.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment what must run")]
fn skip(trial: &str, why: &str) {
    assert!(std::env::var("CI").map_or(true, |ci| ci != "true"), "{trial}: {why}");
    std::io::stderr().write_all(format!("skipped: {trial}: {why}\n").as_bytes()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_encrypted_and_verified_or_not_made() {
    let Some(mut stand) = Stand::new("a_connection_is_encrypted_and_verified_or_not_made").await else {
        return;
    };
    let (ours, other) = (Ca::new("ours"), Ca::new("other"));
    let trusts_us = format!("ssl-ca={}", stand.file("ca.pem", &ours.pem).replace('/', "%2F"));
    let trusts_other = format!("ssl-ca={}", stand.file("other.pem", &other.pem));

    // Without TLS on the server nothing goes over the wire.
    stand.refused("sure", "127.0.0.1", "ssl-mode=REQUIRED", "offers no TLS").await;
    stand.refused("sure", "127.0.0.1", &trusts_us, "offers no TLS").await;

    stand.show(ours.sign("127.0.0.1", 2100));
    for mode in ["", "&ssl-mode=REQUIRED", "&ssl-mode=VERIFY_IDENTITY", "&sslmode=verify-full"] {
        stand.ask("sure", "127.0.0.1", &format!("{trusts_us}{mode}")).await.unwrap();
    }
    // The server itself lets this user in only if it is encrypted.
    let plain = stand.ask("sure", "127.0.0.1", "ssl-mode=DISABLED").await.unwrap_err();
    assert_eq!(plain.kind(), ErrorKind::Config, "{plain}");
    stand.refused("sure", "127.0.0.1", &trusts_other, "is not accepted").await;
    // Also `REQUIRED` verifies; the public CAs do not know ours.
    stand.refused("sure", "127.0.0.1", "ssl-mode=REQUIRED", "is not accepted").await;
    stand.refused("sure", "localhost", &trusts_us, "is not accepted").await;

    stand.show(ours.sign("localhost", 2100));
    stand.ask("sure", "localhost", &trusts_us).await.unwrap();
    stand.refused("sure", "127.0.0.1", &trusts_us, "is not accepted").await;

    stand.show(ours.sign("localhost", 2024));
    stand.refused("sure", "localhost", &trusts_us, "is not accepted").await;
}
