//! `amqp://` and `amqps://` URLs, taken apart and checked.

use posthaste_core::Result;
use secrecy::ExposeSecret as _;

use crate::broker::address::{Credentials, Dialect, Parts};
use crate::url::decoded;

/// AMQP's short string: names of exchanges, queues and virtual hosts, and routing keys.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// AMQP's URLs, with the ports that it and AMQP over TLS have been given.
pub(super) const URL: Dialect = Dialect {
    broker: "RabbitMQ",
    schemes: &[("amqp", false, 5672), ("amqps", true, 5671)],
    example: "amqp://user:password@host:5672/vhost, with %2F for a slash in a name",
    page: "docs/rabbitmq.md",
};

/// Takes a URL apart: `amqp://user:password@host:port,host/vhost?setting=value`. Answers its parts, who logs in, and the virtual
/// host.
///
/// # Errors
/// `Config`; nothing of the URL is repeated that may be a secret.
pub(super) fn split(url: &str) -> Result<(Parts, Credentials, String)> {
    let parts = URL.split(url)?;
    let credentials = parts.credentials.clone().unwrap_or_else(|| Credentials::new("guest", "guest"));
    if credentials.user.expose_secret().is_empty() {
        return Err(URL.wrong("the user before the @ is empty"));
    }
    let vhost = virtual_host(&parts.path)?;
    Ok((parts, credentials, vhost))
}

fn virtual_host(text: &str) -> Result<String> {
    if text.contains('/') {
        return Err(URL.wrong("the virtual host holds a slash"));
    }
    let name = decoded(text);
    if name.len() > NAME_BYTES_MAX {
        return Err(URL.wrong("the virtual host has more than 255 bytes"));
    }
    // What no path and an empty path mean is not the same in every client; here both are the one that every broker has.
    Ok(if name.is_empty() { "/".to_owned() } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_virtual_host() {
        let (parts, credentials, vhost) = split("amqps://u:p@a,b:1/my%2Fhost").unwrap();
        assert_eq!(
            (parts.hosts, vhost.as_str()),
            (vec![("a".to_owned(), 5671), ("b".to_owned(), 1)], "my/host")
        );
        assert_eq!(credentials.user.expose_secret(), "u");
    }

    #[test]
    fn what_is_left_out_has_the_usual_value() {
        for url in ["amqp://h", "amqp://h/", "amqp://h/%2f", "amqp://h:5672/%2F?"] {
            let (parts, credentials, vhost) = split(url).unwrap();
            assert_eq!((parts.hosts, vhost), (vec![("h".to_owned(), 5672)], "/".to_owned()), "{url}");
            assert_eq!(credentials.user.expose_secret(), "guest");
        }
    }

    #[test]
    fn a_wrong_url_is_explained_and_keeps_its_password() {
        for url in ["http://u:hunter2@h", "amqp://:hunter2@h", "amqp://u:hunter2@h/a/b"] {
            let error = split(url).map(drop).unwrap_err().to_string();
            assert!(error.contains("amqp://user:password@host") && !error.contains("hunter2"), "{error}");
        }
    }
}
