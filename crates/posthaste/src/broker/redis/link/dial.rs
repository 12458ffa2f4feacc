//! Making one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_core::{BoxFuture, Result, redact};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, Value};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::refused;
use crate::broker::redis::settings::LinkSettings;

/// Requests that wait to be written, at most; whoever comes then waits. Each may be a whole burst.
const REQUESTS_MAX: usize = 64;

/// A connection, and what reads and writes it.
type Dialed = (MultiplexedConnection, BoxFuture<'static, ()>);

/// Knows where the server is and who we are.
pub(super) struct Dialer {
    settings: LinkSettings,
    tls: Option<TlsConnector>,
    /// Which node is tried next.
    next: AtomicUsize,
}

impl Dialer {
    pub(super) fn new(settings: &LinkSettings) -> Result<Self> {
        let tls = if settings.is_tls {
            let hint = "name a PEM file with sslrootcert=FILE in the URL of the broker";
            Some(TlsConnector::from(Arc::new(settings.files.client(hint)?)))
        } else {
            None
        };
        Ok(Self { settings: settings.clone(), tls, next: AtomicUsize::new(0) })
    }

    /// Connects to the next node. The error is for people: what happened, where, and what to do.
    pub(super) async fn dial(&self) -> Result<Dialed, String> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.settings.hosts.len();
        let (host, port) = &self.settings.hosts[at];
        let limit = self.settings.connect_timeout;
        match timeout(limit, self.reach(host, *port)).await {
            Ok(dialed) => dialed.map_err(|why| format!("Redis at {host}:{port}: {why}")),
            Err(_) => Err(format!("Redis at {host}:{port} does not answer within {limit:?}")),
        }
    }

    async fn reach(&self, host: &str, port: u16) -> Result<Dialed, String> {
        let failed = |error: std::io::Error| format!("the connection could not be made ({error})");
        let socket = TcpStream::connect((host, port)).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let Some(tls) = &self.tls else { return self.greet(socket).await };
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| "its name cannot be that of a server")?;
        let stream = tls.connect(name, socket).await.map_err(|error| {
            format!(
                "the TLS handshake failed; check sslrootcert, sslcert, sslkey and the host name ({error})"
            )
        })?;
        self.greet(stream).await
    }

    async fn greet<S>(&self, stream: S) -> Result<Dialed, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut who = RedisConnectionInfo::default().set_db(self.settings.database).set_skip_set_lib_name();
        if let Some(credentials) = &self.settings.credentials {
            let (user, password) = (credentials.user.expose_secret(), credentials.password.expose_secret());
            if !user.is_empty() {
                who = who.set_username(user);
            }
            who = who.set_password(password);
        }
        // The limits are ours: the client's own would also end what waits for events.
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(REQUESTS_MAX);
        let (connection, driver) = MultiplexedConnection::new_with_config(&who, stream, config)
            .await
            .map_err(|error| explain(&error, self.settings.database))?;
        let mut driver: BoxFuture<'static, ()> = Box::pin(driver);
        knock(connection.clone(), &mut driver).await?;
        Ok((connection, driver))
    }
}

/// Sees that the server would talk with us. Later, it would close the connection on an event that comes from somebody who has not
/// logged in, and not say why.
async fn knock(
    mut connection: MultiplexedConnection,
    driver: &mut BoxFuture<'static, ()>,
) -> Result<(), String> {
    let question = redis::cmd("PING");
    tokio::select! {
        answer = connection.send_packed_command(&question) => match answer {
            Ok(Value::ServerError(error)) if error.code() == "NOAUTH" => Err(refused(&error).message),
            // Whatever else it says, it says it again when it matters.
            Ok(_) => Ok(()),
            Err(error) => Err(redact::clean(&error.to_string())),
        },
        () = driver => Err("it closed the connection".to_owned()),
    }
}

fn explain(error: &RedisError, database: i64) -> String {
    let text = redact::clean(&error.to_string());
    let is = |code: &str| error.code() == Some(code);
    let advice = if error.kind() == ErrorKind::AuthenticationFailed || is("WRONGPASS") || is("NOAUTH") {
        "the user and the password of the URL are not accepted; check both".to_owned()
    } else if text.contains("DB index") {
        format!("there is no database {database}; name another after the slash of the URL")
    } else {
        "the connection could not be made".to_owned()
    };
    format!("{advice} ({text})")
}
