//! What a store URL says about encryption: never less than what was asked for, and never plain text to another machine unless
//! somebody said so.
//!
//! | `sslmode` | means |
//! |---|---|
//! | none | on this machine (loopback, socket) plain text, unless a CA is named; to another machine as `require` |
//! | `disable` | plain text |
//! | `require`, `verify-ca`, `verify-full` | TLS; the certificate must be of a trusted CA and for this host name |
//! | `allow`, `prefer` | refused: they fall back to plain text without a word |
//!
//! The names of MariaDB's own clients mean the same: `ssl-mode` with `DISABLED`, `REQUIRED`, `VERIFY_CA`, `VERIFY_IDENTITY` and
//! `PREFERRED`, `ssl-ca`, `ssl-cert` and `ssl-key`.

use std::path::PathBuf;

use posthaste_core::{Error, Result};

use crate::url::decoded;

/// What a store URL says about encryption, apart from the rest, which the driver reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct Wishes {
    pub(in crate::store) mode: Option<String>,
    pub(in crate::store) ca: Option<PathBuf>,
    pub(in crate::store) certificate: Option<PathBuf>,
    pub(in crate::store) key: Option<PathBuf>,
}

impl Wishes {
    /// Takes what is about encryption out of a URL.
    pub(in crate::store) fn split(url: &str) -> (String, Self) {
        let mut wishes = Self::default();
        // A question mark in the password is none of the query.
        let host = url.find('@').unwrap_or(0);
        let Some(query) = url[host..].find('?').map(|at| host + at) else { return (url.to_owned(), wishes) };
        let mut rest = Vec::new();
        for setting in url[query + 1..].split('&').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let value = decoded(value);
            match name {
                "sslmode" | "ssl-mode" => wishes.mode = Some(value),
                "sslrootcert" | "ssl-ca" => wishes.ca = Some(value.into()),
                "sslcert" | "ssl-cert" => wishes.certificate = Some(value.into()),
                "sslkey" | "ssl-key" => wishes.key = Some(value.into()),
                _ => rest.push(setting),
            }
        }
        let base = &url[..query];
        (if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) }, wishes)
    }

    /// Whether connections are encrypted, if the server is on this machine or not.
    ///
    /// # Errors
    /// `Config` for a mode that is not known, or does not do what it says.
    pub(in crate::store) fn is_on(&self, is_local: bool) -> Result<bool> {
        match self.mode.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("disable" | "disabled") => Ok(false),
            Some("require" | "verify-ca" | "verify-full" | "required" | "verify_ca" | "verify_identity") => {
                Ok(true)
            }
            None => Ok(self.ca.is_some() || !is_local),
            Some("allow" | "prefer" | "preferred") => Err(Error::config(
                "sslmode=allow and sslmode=prefer fall back to plain text without a word; write sslmode=require, or \
                 sslmode=disable where the network is private",
            )),
            // Not shown: it may be anything.
            Some(_) => Err(Error::config("the sslmode is not known; write require or disable")),
        }
    }

    /// The files that it names.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn files(self) -> crate::tls::Files {
        crate::tls::Files { ca: self.ca, certificate: self.certificate, key: self.key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_encryption_is_taken_out_of_the_url() {
        let (rest, wishes) = Wishes::split("postgres://u:p?x@h/d?a=1&sslrootcert=%2Fetc%2Fc%20a.pem&b=2");
        assert_eq!(rest, "postgres://u:p?x@h/d?a=1&b=2");
        assert_eq!(wishes, Wishes { ca: Some("/etc/c a.pem".into()), ..Wishes::default() });
        assert_eq!(Wishes::split("postgres://u@h/d?sslmode=disable").0, "postgres://u@h/d");
    }

    #[test]
    fn the_names_of_mariadbs_own_clients_mean_the_same() {
        let (rest, wishes) = Wishes::split("mysql://u@h/d?ssl-mode=VERIFY_IDENTITY&ssl-ca=%2Fca.pem");
        assert_eq!((rest.as_str(), wishes.ca.as_deref()), ("mysql://u@h/d", Some("/ca.pem".as_ref())));
        assert!(wishes.is_on(true).unwrap());
        let is_on = |mode: &str| Wishes::split(&format!("mysql://u@h/d?ssl-mode={mode}")).1.is_on(false);
        assert!(!is_on("DISABLED").unwrap() && is_on("REQUIRED").unwrap());
        assert!(is_on("PREFERRED").unwrap_err().to_string().contains("without a word"));
    }
}
