//! What a store URL says about encryption: never less than what was asked for, and never plain text to another machine unless
//! somebody said so.
//!
//! | `sslmode` | means |
//! |---|---|
//! | none | on this machine (loopback, socket) plain text, unless a CA is named; to another machine as `require` |
//! | `disable` | plain text |
//! | `require`, `verify-ca`, `verify-full` | TLS; the certificate must be of a trusted CA and for this host name |
//! | `allow`, `prefer` | refused: they fall back to plain text without a word |

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

    /// Whether connections are encrypted, if the server is on this machine or not.
    ///
    /// # Errors
    /// `Config` for a mode that is not known, or does not do what it says.
    pub(in crate::store) fn is_on(&self, is_local: bool) -> Result<bool> {
        match self.mode.as_deref() {
            Some("disable") => Ok(false),
            Some("require" | "verify-ca" | "verify-full") => Ok(true),
            None => Ok(self.ca.is_some() || !is_local),
            Some("allow" | "prefer") => Err(Error::config(
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
}
