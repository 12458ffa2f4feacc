//! `amqp://` and `amqps://` URLs, taken apart and checked.

use posthaste_core::{Error, Result};
use secrecy::SecretString;

use crate::url::decoded;

/// The ports that AMQP and AMQP over TLS have been given.
const PORT: u16 = 5672;
const PORT_TLS: u16 = 5671;
/// AMQP's short string: names of exchanges, queues and virtual hosts, and routing keys.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// A user and a password. Neither is ever printed.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    pub(super) user: SecretString,
    pub(super) password: SecretString,
}

impl Credentials {
    pub(super) fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: SecretString::from(user.into()), password: SecretString::from(password.into()) }
    }
}

/// A URL in its parts.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) is_tls: bool,
    /// At least one: the nodes of a cluster, tried in turn.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) vhost: String,
    pub(super) credentials: Credentials,
    /// The settings after the question mark, decoded.
    pub(super) query: Vec<(String, String)>,
}

/// Takes a URL apart: `amqp://user:password@host:port,host/vhost?setting=value`.
///
/// # Errors
/// `Config`; nothing of the URL is repeated that may be a secret.
pub(super) fn split(url: &str) -> Result<Parts> {
    let (is_tls, rest) = match url.split_once("://") {
        Some(("amqp", rest)) => (false, rest),
        Some(("amqps", rest)) => (true, rest),
        _ => return Err(wrong("it must begin with amqp:// or amqps://")),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A slash or an at sign in a password must be written as %2F and %40; the last at sign is the one that counts.
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (Some(credentials), rest),
        None => (None, rest),
    };
    let (hosts, vhost) = rest.split_once('/').unwrap_or((rest, ""));
    let port = if is_tls { PORT_TLS } else { PORT };
    Ok(Parts {
        is_tls,
        hosts: hosts.split(',').map(|host| address(host, port)).collect::<Result<_>>()?,
        vhost: virtual_host(vhost)?,
        credentials: user_and_password(credentials)?,
        query: query.split('&').filter(|setting| !setting.is_empty()).map(setting).collect(),
    })
}

fn wrong(what: &str) -> Error {
    Error::config(format!(
        "the URL of the RabbitMQ broker cannot be used: {what}; write amqp://user:password@host:5672/vhost, with %2F for a \
         slash in a name"
    ))
}

fn user_and_password(text: Option<&str>) -> Result<Credentials> {
    let Some(text) = text else { return Ok(Credentials::new("guest", "guest")) };
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    if user.is_empty() {
        return Err(wrong("the user before the @ is empty"));
    }
    Ok(Credentials::new(decoded(user), decoded(password)))
}

fn address(text: &str, port: u16) -> Result<(String, u16)> {
    let (host, number) = match text.strip_prefix('[') {
        // An IPv6 address has colons of its own.
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("a [ is not closed"))?;
            (host, rest.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(wrong("a host is missing"));
    }
    let number = match number {
        Some(number) => number.parse().map_err(|_| wrong("a port is no number from 1 to 65535"))?,
        None => port,
    };
    Ok((decoded(host), number))
}

fn virtual_host(text: &str) -> Result<String> {
    if text.contains('/') {
        return Err(wrong("the virtual host holds a slash"));
    }
    let name = decoded(text);
    if name.len() > NAME_BYTES_MAX {
        return Err(wrong("the virtual host has more than 255 bytes"));
    }
    // What no path and an empty path mean is not the same in every client; here both are the one that every broker has.
    Ok(if name.is_empty() { "/".to_owned() } else { name })
}

fn setting(text: &str) -> (String, String) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), decoded(value))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let parts = split("amqps://us%40er:p%2Fw:x@a,b:1,[::1]:2/my%2Fhost?x=1&y=a%20b").unwrap();
        assert!(parts.is_tls);
        assert_eq!(parts.hosts, [("a".to_owned(), 5671), ("b".to_owned(), 1), ("::1".to_owned(), 2)]);
        assert_eq!(parts.vhost, "my/host");
        assert_eq!(parts.credentials.user.expose_secret(), "us@er");
        assert_eq!(parts.credentials.password.expose_secret(), "p/w:x");
        assert_eq!(parts.query, [("x".to_owned(), "1".to_owned()), ("y".to_owned(), "a b".to_owned())]);
    }

    #[test]
    fn what_is_left_out_has_the_usual_value() {
        for url in ["amqp://h", "amqp://h/", "amqp://h/%2f", "amqp://h:5672/%2F?"] {
            let parts = split(url).unwrap();
            assert_eq!((parts.hosts, parts.vhost), (vec![("h".to_owned(), 5672)], "/".to_owned()), "{url}");
            assert_eq!(parts.credentials.user.expose_secret(), "guest");
        }
    }

    #[test]
    fn a_wrong_url_is_explained_and_keeps_its_password() {
        for url in [
            "http://u:hunter2@h",
            "amqp:",
            "amqp://u:hunter2@",
            "amqp://u:hunter2@h:port",
            "amqp://u:hunter2@h:99999",
            "amqp://:hunter2@h",
            "amqp://u:hunter2@[::1",
            "amqp://u:hunter2@h/a/b",
            "amqp://u:hunter2@a,,b",
        ] {
            let error = split(url).unwrap_err().to_string();
            assert!(error.contains("amqp://user:password@host") && !error.contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", split("amqp://me:hunter2@h").unwrap());
        assert!(!shown.contains("hunter2") && !shown.contains("me"), "{shown}");
    }
}
