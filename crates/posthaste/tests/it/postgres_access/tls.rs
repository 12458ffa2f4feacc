//! Encrypted connections: with the right CA and the right name, or not at all.

use posthaste::store::{StoreOptions, open_with};
use posthaste::{ErrorKind, Result};
use tempfile::TempDir;

use crate::certificates::Ca;
use crate::postgres_access::private::Private;

const PASSWORD: &str = "quite-secret";

/// A server that shows a certificate, and what its clients have.
struct Stand {
    server: Private,
    files: TempDir,
}

impl Stand {
    fn file(&self, name: &str, contents: &str) -> String {
        let file = self.files.path().join(name);
        std::fs::write(&file, contents).unwrap();
        file.display().to_string()
    }

    /// The server shows this certificate from here on.
    fn show(&mut self, (certificate, key): (String, String)) {
        self.server.put("server.crt", &certificate);
        self.server.put("server.key", &key);
        self.server.restart();
    }

    /// Asks the database over TLS, by this host name.
    async fn ask(&self, host: &str, settings: &str) -> Result<()> {
        let (port, settings) = (self.server.port(), settings.trim_start_matches('&'));
        // The name need not be known to this machine: the address says where, the name what the certificate must be for.
        let url =
            format!("postgres://postgres:{PASSWORD}@{host}:{port}/postgres?hostaddr=127.0.0.1&{settings}");
        open_with(&url, StoreOptions::default()).await?.status().await.map(drop)
    }

    /// Must be refused, with these words and without a secret.
    async fn refused(&self, host: &str, settings: &str, says: &[&str]) {
        let error = self.ask(host, settings).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        assert!(says.iter().all(|says| error.to_string().contains(says)), "{error}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test]
async fn a_connection_is_encrypted_and_verified_or_not_made() {
    let Some(server) = Private::start("tls::a_connection_is_encrypted_and_verified_or_not_made") else {
        return;
    };
    let mut stand = Stand { server, files: TempDir::new().unwrap() };
    let (ours, other) = (Ca::new("ours"), Ca::new("other"));
    let ca = stand.file("ca.pem", &ours.pem);
    let trusts_us = format!("sslrootcert={}", ca.replace('/', "%2F"));
    let trusts_other = format!("sslrootcert={}", stand.file("other.pem", &other.pem));

    // Without TLS on the server nothing goes over the wire, also where no mode was chosen.
    stand.refused("db.example", &trusts_us, &["offers no TLS", "sslmode=disable"]).await;
    stand.refused("127.0.0.1", &format!("sslmode=require&{trusts_us}"), &["offers no TLS"]).await;
    stand.ask("db.example", "sslmode=disable").await.unwrap();

    stand.server.set("ssl = on");
    stand.show(ours.sign("db.example", 2100));

    for mode in ["", "&sslmode=require", "&sslmode=verify-ca", "&sslmode=verify-full"] {
        stand.ask("db.example", &format!("{trusts_us}{mode}")).await.unwrap();
    }
    // Whom it has met is remembered, for whoever wants to know how long their certificates are valid.
    assert!(posthaste::certificates::met().iter().any(|(name, der)| name == "db.example" && !der.is_empty()));
    stand
        .refused("db.example", &trusts_other, &["not trusted here", "sslrootcert=FILE", "store.tls_ca"])
        .await;
    // Also `require` verifies; the system's CAs do not know ours.
    stand.refused("db.example", "sslmode=require", &["not trusted here"]).await;
    stand.refused("db.other", &trusts_us, &["another host name", "db.example"]).await;
    stand.refused("127.0.0.1", &trusts_us, &["another host name"]).await;

    stand.show(ours.sign("127.0.0.1", 2100));
    stand.ask("127.0.0.1", &trusts_us).await.unwrap();

    stand.show(ours.sign("db.example", 2024));
    stand.refused("db.example", &trusts_us, &["has expired", "renew it"]).await;
}

#[tokio::test]
async fn it_is_really_encrypted_and_a_client_certificate_is_shown() {
    let trial = "tls::it_is_really_encrypted_and_a_client_certificate_is_shown";
    let Some(server) = Private::start(trial) else { return };
    let mut stand = Stand { server, files: TempDir::new().unwrap() };
    let ours = Ca::new("ours");
    stand.server.put("client-ca.crt", &ours.pem);
    // Postgres itself refuses whoever comes in plain text, and whoever has no certificate for its name.
    stand.server.put(
        "pg_hba.conf",
        "hostssl all carrier all cert\nhostssl all guest all trust\nhost all postgres all trust\n",
    );
    stand.server.set("ssl = on\nssl_ca_file = 'client-ca.crt'");
    let admin = crate::postgres_access::scope::connect(&stand.server.url()).await;
    admin.batch_execute("CREATE ROLE carrier LOGIN; CREATE ROLE guest LOGIN").await.unwrap();
    drop(admin);
    stand.show(ours.sign("127.0.0.1", 2100));

    let ca = stand.file("ca.pem", &ours.pem);
    let (certificate, key) = ours.sign("carrier", 2100);
    let (certificate, key) = (stand.file("client.crt", &certificate), stand.file("client.key", &key));
    let port = stand.server.port();
    let ask = async |user: &str, settings: String| {
        let url = format!("postgres://{user}@127.0.0.1:{port}/postgres?{settings}");
        let mut options = StoreOptions::default();
        // As the configuration says it, not the URL.
        options.tls_ca = (!settings.contains("disable")).then(|| ca.clone().into());
        open_with(&url, options).await?.status().await
    };
    ask("guest", String::new()).await.unwrap();
    let plain = ask("guest", "sslmode=disable".to_owned()).await.unwrap_err();
    assert!(plain.to_string().contains("sslmode=require"), "{plain}");
    ask("carrier", format!("sslcert={certificate}&sslkey={key}")).await.unwrap();
    let bare = ask("carrier", String::new()).await.unwrap_err();
    assert_eq!(bare.kind(), ErrorKind::Config, "{bare}");
    assert!(bare.to_string().contains("client certificate"), "{bare}");
}
