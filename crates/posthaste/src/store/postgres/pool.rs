//! The connections.

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use posthaste_core::{Error, Result};
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};

/// Claims, settles and publishes of a process share these.
const CONNECTIONS_MAX: usize = 16;
/// How long to wait for a connection: a new one, or one of ours that is in use.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// After so long without an answer to what was sent, a connection counts as cut.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A connection that was taken longer ago than this is asked for a sign of life before it is used again: whoever took it may
/// have given up waiting for an answer, and the server may be gone without a word. Busy ones are not asked.
const ASK_AFTER: Duration = Duration::from_millis(250);
/// One that does not answer within this is closed, and the next one is taken.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// Connections to the database at this URL, made when they are needed.
pub(super) fn open(url: &str) -> Result<Pool> {
    let mut config: Config = url.parse().map_err(|_| {
        // What is wrong with it may be the password, so the text is not shown.
        Error::config("the store URL is not understood; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(Error::config(
            "sslmode=require cannot be met: this build has no TLS yet; use a private network or a local proxy, and \
             sslmode=disable",
        ));
    }
    config.ssl_mode(SslMode::Disable).connect_timeout(CONNECT_WITHIN).tcp_user_timeout(SILENCE_MAX);
    if config.get_application_name().is_none() {
        config.application_name("posthaste");
    }
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, NoTls, recycling))
        .max_size(CONNECTIONS_MAX)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_WITHIN))
        .create_timeout(Some(CONNECT_WITHIN))
        .recycle_timeout(Some(CONNECT_WITHIN))
        .pre_recycle(ask_if_rested())
        .build()
        .map_err(|error| Error::config("no connections can be made").because(error))
}

fn ask_if_rested() -> Hook {
    Hook::async_fn(|client, metrics| {
        Box::pin(async move {
            if metrics.last_used() < ASK_AFTER {
                return Ok(());
            }
            match timeout(ASK_WITHIN, client.batch_execute("")).await {
                Ok(answer) => answer.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("no sign of life")),
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_cannot_be_used_is_refused_without_showing_it() {
        for (url, says) in [
            ("postgres://u:secret@h:port/d", "not understood"),
            ("postgres://u:secret@h/d?sslmode=require", "no TLS"),
        ] {
            let error = open(url).unwrap_err();
            assert_eq!(error.kind(), posthaste_core::ErrorKind::Config);
            assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        }
        assert!(open("postgres://u@h/d").is_ok());
    }
}
