//! Whether and how connections are encrypted: never less than what was asked for, and never plain text to another machine
//! unless somebody said so.
//!
//! | `sslmode` | means |
//! |---|---|
//! | none | on this machine (loopback, socket) plain text, unless a CA is named; to another machine as `require` |
//! | `disable` | plain text |
//! | `require`, `verify-ca`, `verify-full` | TLS; the certificate must be of a trusted CA and for this host name |
//! | `allow`, `prefer` | refused: they fall back to plain text without a word |

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use posthaste_core::{Error, Result};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls::Files;
use crate::url::decoded;

/// What a store URL says about encryption, apart from the rest, which the driver reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    mode: Option<String>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// Takes what is about encryption out of a URL.
pub(super) fn split(url: &str) -> (String, Wishes) {
    let mut wishes = Wishes::default();
    // A question mark in the password is none of the query.
    let host = url.find('@').unwrap_or(0);
    let Some(query) = url[host..].find('?').map(|at| host + at) else { return (url.to_owned(), wishes) };
    let mut rest = Vec::new();
    for setting in url[query + 1..].split('&').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let value = decoded(value);
        match name {
            "sslmode" => wishes.mode = Some(value),
            "sslrootcert" => wishes.ca = Some(value.into()),
            "sslcert" => wishes.certificate = Some(value.into()),
            "sslkey" => wishes.key = Some(value.into()),
            _ => rest.push(setting),
        }
    }
    let base = &url[..query];
    (if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) }, wishes)
}

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
    let is_on = match wishes.mode.as_deref() {
        Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        None => wishes.ca.is_some() || !is_local(config),
        Some("allow" | "prefer") => {
            return Err(Error::config(
                "sslmode=allow and sslmode=prefer fall back to plain text without a word; write sslmode=require, or \
                 sslmode=disable where the network is private",
            ));
        }
        // Not shown: it may be anything.
        Some(_) => return Err(Error::config("the sslmode is not known; write require or disable")),
    };
    if !is_on {
        return Ok(None);
    }
    if config.get_hosts().iter().any(|host| !matches!(host, Host::Tcp(_))) {
        return Err(Error::config(
            "TLS over a socket of this machine is not possible; write sslmode=disable",
        ));
    }
    let files = Files { ca: wishes.ca, certificate: wishes.certificate, key: wishes.key };
    let hint = "name a PEM file with sslrootcert=FILE in the store URL or store.tls_ca";
    files.client(hint).map(|settings| Some(MakeRustlsConnect::new(settings)))
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
        let (rest, wishes) = split(url);
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

    #[test]
    fn only_what_is_about_encryption_is_taken_out_of_the_url() {
        let (rest, wishes) = split("postgres://u:p?x@h/d?a=1&sslrootcert=%2Fetc%2Fc%20a.pem&b=2");
        assert_eq!(rest, "postgres://u:p?x@h/d?a=1&b=2");
        assert_eq!(wishes, Wishes { ca: Some("/etc/c a.pem".into()), ..Wishes::default() });
        assert_eq!(split("postgres://u@h/d?sslmode=disable").0, "postgres://u@h/d");
    }
}
