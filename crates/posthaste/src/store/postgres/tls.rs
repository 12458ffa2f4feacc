//! Whether and how connections are encrypted: never less than what was asked for, and never plain text to another machine
//! unless somebody said so.

use std::net::IpAddr;
use std::path::Path;

use posthaste_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::wishes::Wishes;

/// How to encrypt connections to these hosts; `None`: not at all. `ca`: the CA of the configuration, over which the URL has
/// the last word.
///
/// # Errors
/// `Config` for wishes that cannot be met, and for files that cannot be read.
pub(super) fn connector(
    mut wishes: Wishes,
    ca: Option<&Path>,
    config: &Config,
) -> Result<Option<MakeRustlsConnect>> {
    if wishes.ca.is_none() {
        wishes.ca = ca.map(Path::to_owned);
    }
    if !wishes.is_on(is_local(config))? {
        return Ok(None);
    }
    if config.get_hosts().iter().any(|host| !matches!(host, Host::Tcp(_))) {
        return Err(Error::config(
            "TLS over a socket of this machine is not possible; write sslmode=disable",
        ));
    }
    let hint = "name a PEM file with sslrootcert=FILE in the store URL or store.tls_ca";
    wishes.files().client(hint).map(|settings| Some(MakeRustlsConnect::new(settings)))
}

/// Whether everything that is sent stays on this machine.
fn is_local(config: &Config) -> bool {
    config.get_hostaddrs().iter().all(IpAddr::is_loopback)
        && config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            _ => true,
        })
}

#[cfg(test)]
mod tests {
    use posthaste_core::ErrorKind;

    use super::*;

    fn is_encrypted(url: &str) -> Result<bool> {
        let (rest, wishes) = Wishes::split(url);
        connector(wishes, None, &rest.parse().unwrap()).map(|tls| tls.is_some())
    }

    #[test]
    fn plain_text_leaves_this_machine_only_where_somebody_said_so() {
        for (url, expected) in [
            ("postgres://u@localhost/d", false),
            ("postgres://u@127.0.0.1,[::1]/d", false),
            ("postgres://u@%2Fvar%2Frun/d", false),
            ("postgres://u@db.example/d?sslmode=disable", false),
        ] {
            assert_eq!(is_encrypted(url).unwrap(), expected, "{url}");
        }
        // Whether the system has CAs is the machine's matter: with none the answer is an error, never plain text.
        for url in [
            "postgres://u@db.example/d",
            "postgres://u@localhost,db.example/d",
            "postgres://u@localhost/d?hostaddr=10.0.0.1",
            "postgres://u@localhost/d?sslmode=require",
            "postgres://u@localhost/d?sslmode=verify-full&connect_timeout=3",
        ] {
            assert!(is_encrypted(url).is_ok_and(|is| is) || is_encrypted(url).is_err(), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_met_is_refused_by_name() {
        for (query, says) in [
            ("sslmode=prefer", "sslmode=require"),
            ("sslmode=allow", "without a word"),
            ("sslmode=secret", "not known"),
            ("sslrootcert=/no/such/ca.pem", "/no/such/ca.pem cannot be read"),
            ("sslmode=require&sslcert=a.pem", "sslkey"),
        ] {
            let error = is_encrypted(&format!("postgres://u:secret@h/d?{query}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        }
    }
}
