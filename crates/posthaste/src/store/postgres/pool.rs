//! The connections.

use std::path::Path;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use posthaste_core::{Error, Result};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

use super::tls;

/// Claims, settles and publishes of a process share these.
const CONNECTIONS_MAX: usize = 16;
/// How long to wait for a connection: a new one, or one of ours that is in use.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// After so long without an answer to what was sent, a connection counts as cut.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Connections to the database at this URL, made when they are needed; `tls_ca`: whom to trust, unless the URL says that.
pub(super) fn open(url: &str, tls_ca: Option<&Path>) -> Result<Pool> {
    let (url, wishes) = tls::split(url);
    let mut config: Config = url.parse().map_err(|_| {
        // What is wrong with it may be the password, so the text is not shown.
        Error::config("the store URL is not understood; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    })?;
    let encryption = tls::connector(wishes, tls_ca, &config)?;
    config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(SILENCE_MAX);
    if config.get_application_name().is_none() {
        config.application_name("posthaste");
    }
    // A connection whose user was dropped half-way goes back with a ROLLBACK on its way, which comes before whatever the
    // next user sends: to ask it first would cost every use a round trip.
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = match encryption {
        // The driver's own "prefer" falls back to plain text; here it is one or the other.
        Some(encryption) => {
            Manager::from_config(config.ssl_mode(SslMode::Require).clone(), encryption, recycling)
        }
        None => Manager::from_config(config.ssl_mode(SslMode::Disable).clone(), NoTls, recycling),
    };
    Pool::builder(manager)
        .max_size(CONNECTIONS_MAX)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_WITHIN))
        .create_timeout(Some(CONNECT_WITHIN))
        .recycle_timeout(Some(CONNECT_WITHIN))
        .build()
        .map_err(|error| Error::config("no connections can be made").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_showing_it() {
        for (url, says) in [
            ("postgres://u:secret@h:port/d", "not understood"),
            ("postgres://u:secret@h/d?sslmode=prefer", "sslmode=require"),
            ("postgres://u:secret@h/d?sslmode=disable&no_such=secret", "not understood"),
        ] {
            let error = open(url, None).unwrap_err();
            assert_eq!(error.kind(), posthaste_core::ErrorKind::Config);
            assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        }
        assert!(open("postgres://u@localhost/d", None).is_ok());
    }
}
