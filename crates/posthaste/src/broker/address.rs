//! The URLs of brokers, taken apart: which all of them have alike, and how a setting in one is read.

use std::fmt;
use std::time::Duration;

use posthaste_core::{Error, Result};
use secrecy::SecretString;

use crate::url::{decoded, duration};

/// What is a broker's own about its URLs.
pub(crate) struct Dialect {
    /// The broker, as errors call it.
    pub(crate) broker: &'static str,
    /// The schemes, whether each is with TLS, and its usual port.
    pub(crate) schemes: &'static [(&'static str, bool, u16)],
    /// How to write one, for whoever got it wrong.
    pub(crate) example: &'static str,
    /// Where its settings are described.
    pub(crate) page: &'static str,
}

/// A user and a password. Neither is ever printed.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) user: SecretString,
    pub(crate) password: SecretString,
}

impl Credentials {
    pub(crate) fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: SecretString::from(user.into()), password: SecretString::from(password.into()) }
    }
}

/// A URL in its parts.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) is_tls: bool,
    /// At least one: the nodes of a cluster, tried in turn.
    pub(crate) hosts: Vec<(String, u16)>,
    /// What stands between the hosts and the question mark, as it was written; empty if there is nothing.
    pub(crate) path: String,
    pub(crate) credentials: Option<Credentials>,
    /// The settings after the question mark, decoded.
    pub(crate) query: Vec<(String, String)>,
}

impl Dialect {
    /// Whether a URL is one of these, by its scheme.
    pub(crate) fn is_meant(&self, url: &str) -> bool {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        self.schemes.iter().any(|(known, ..)| Some(*known) == scheme)
    }

    /// Takes a URL apart: `scheme://user:password@host:port,host/path?setting=value`.
    ///
    /// # Errors
    /// `Config`; nothing of the URL is repeated that may be a secret.
    pub(crate) fn split(&self, url: &str) -> Result<Parts> {
        let known = url.split_once("://").and_then(|(scheme, rest)| {
            let known = self.schemes.iter().find(|(known, ..)| *known == scheme)?;
            Some((known, rest))
        });
        let Some((&(_, is_tls, port), rest)) = known else {
            let schemes: Vec<_> = self.schemes.iter().map(|(scheme, ..)| format!("{scheme}://")).collect();
            return Err(self.wrong(format!("it must begin with {}", schemes.join(" or "))));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // A slash or an at sign in a password must be written as %2F and %40; the last at sign is the one that counts.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Parts {
            is_tls,
            hosts: hosts.split(',').map(|host| self.address(host, port)).collect::<Result<_>>()?,
            path: path.to_owned(),
            credentials: credentials.map(user_and_password),
            query: query.split('&').filter(|setting| !setting.is_empty()).map(setting).collect(),
        })
    }

    /// The URL cannot be used, because of this.
    pub(crate) fn wrong(&self, what: impl fmt::Display) -> Error {
        Error::config(format!(
            "the URL of the {} broker cannot be used: {what}; write {}",
            self.broker, self.example
        ))
    }

    /// A setting that nobody knows. The name is cut and the value not shown: a password with a question mark in it may stand
    /// here.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let name: String = name.chars().take(20).filter(char::is_ascii_graphic).collect();
        Error::config(format!(
            "the URL of the {} broker has a setting {name:?} that is not known; {} lists them",
            self.broker, self.page
        ))
    }

    /// A setting that is one of these words.
    pub(crate) fn one_of<T: Clone>(&self, name: &str, value: &str, choices: &[(&str, T)]) -> Result<T> {
        let found = choices.iter().find(|(choice, _)| *choice == value).map(|(_, meaning)| meaning.clone());
        let names: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        self.read(name, value, format!("one of {}", names.join(", ")), found)
    }

    /// A setting that is a span of time, and not none.
    pub(crate) fn span(&self, name: &str, value: &str) -> Result<Duration> {
        let span = duration(value).filter(|span| !span.is_zero());
        self.read(name, value, "a duration such as 500ms, 5s or 2m", span)
    }

    /// A setting that was understood, or must be something else.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        value: &str,
        expected: impl fmt::Display,
        found: Option<T>,
    ) -> Result<T> {
        let shown: String = value.chars().take(40).collect();
        let broker = self.broker;
        found.ok_or_else(|| {
            Error::config(format!("{name}={shown} in the URL of the {broker} broker must be {expected}"))
        })
    }

    fn address(&self, text: &str, port: u16) -> Result<(String, u16)> {
        let (host, number) = match text.strip_prefix('[') {
            // An IPv6 address has colons of its own.
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| self.wrong("a [ is not closed"))?;
                (host, rest.strip_prefix(':'))
            }
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        if host.is_empty() {
            return Err(self.wrong("a host is missing"));
        }
        let number = match number {
            Some(number) => {
                let number = number.parse::<u16>().ok().filter(|number| *number > 0);
                number.ok_or_else(|| self.wrong("a port must be a number from 1 to 65535"))?
            }
            None => port,
        };
        Ok((decoded(host), number))
    }
}

/// What a setting can be that is on or off.
pub(crate) const YES_NO: [(&str, bool); 2] = [("true", true), ("false", false)];

fn user_and_password(text: &str) -> Credentials {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Credentials::new(decoded(user), decoded(password))
}

fn setting(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    const SOME: Dialect = Dialect {
        broker: "Some",
        schemes: &[("some", false, 1), ("somes", true, 2)],
        example: "some://user:password@host:1",
        page: "docs/some.md",
    };

    #[test]
    fn a_url_is_taken_apart() {
        let parts = SOME.split("somes://us%40er:p%2Fw:x@a,b:10,[::1]:20/my%2Fpath?x=1&y=a%20b").unwrap();
        assert!(parts.is_tls);
        assert_eq!(parts.hosts, [("a".to_owned(), 2), ("b".to_owned(), 10), ("::1".to_owned(), 20)]);
        assert_eq!(parts.path, "my%2Fpath");
        let credentials = parts.credentials.unwrap();
        assert_eq!(credentials.user.expose_secret(), "us@er");
        assert_eq!(credentials.password.expose_secret(), "p/w:x");
        assert_eq!(parts.query, [("x".to_owned(), "1".to_owned()), ("y".to_owned(), "a b".to_owned())]);
        let bare = SOME.split("some://h").unwrap();
        assert_eq!((bare.hosts, bare.path.as_str()), (vec![("h".to_owned(), 1)], ""));
        assert!(bare.credentials.is_none() && bare.query.is_empty() && !bare.is_tls);
    }

    #[test]
    fn a_wrong_url_is_explained_and_keeps_its_password() {
        for url in [
            "http://u:hunter2@h",
            "some:",
            "some://u:hunter2@",
            "some://u:hunter2@h:port",
            "some://u:hunter2@h:0",
            "some://u:hunter2@h:65536",
            "some://u:hunter2@h:99999",
            "some://u:hunter2@[::1",
            "some://u:hunter2@a,,b",
        ] {
            let error = SOME.split(url).unwrap_err().to_string();
            assert!(error.contains(SOME.example) && !error.contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", SOME.split("some://hunter1:hunter2@h").unwrap());
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn a_scheme_is_meant_as_a_whole() {
        assert!(SOME.is_meant("some://h") && SOME.is_meant("somes:") && !SOME.is_meant("something://h"));
        assert!(!SOME.is_meant("some") && !SOME.is_meant(""));
    }
}
