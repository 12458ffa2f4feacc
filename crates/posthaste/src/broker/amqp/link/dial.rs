//! Making one connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lapin::tcp::{AMQPUriTcpExt as _, AsyncTcpStream, RustlsConnector, TLSConfig};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{Connection, ConnectionProperties};
use posthaste_core::Result;
use secrecy::ExposeSecret as _;
use tokio::sync::watch;
use tokio::time::timeout;

use super::error::explain;
use super::plug::{Fuse, Plug};
use super::{Live, Role};
use crate::broker::address::Credentials;
use crate::broker::amqp::settings::LinkSettings;

/// Knows where the broker is and who we are.
pub(super) struct Dialer {
    settings: LinkSettings,
    credentials: Credentials,
    name: String,
    tls: Option<RustlsConnector>,
    /// Which node of the cluster is tried next.
    next: AtomicUsize,
}

impl Dialer {
    pub(super) fn new(settings: &LinkSettings, role: Role) -> Result<Self> {
        let credentials = match role {
            Role::Publish => settings.publish.clone(),
            Role::Consume | Role::Move => settings.consume.clone(),
        };
        let tls = if settings.is_tls {
            let hint = "name a PEM file with sslrootcert=FILE in the URL of the broker";
            Some(RustlsConnector::from(Arc::new(settings.files.client(hint)?)))
        } else {
            None
        };
        let name = format!("posthaste {}", role.name());
        Ok(Self { settings: settings.clone(), credentials, name, tls, next: AtomicUsize::new(0) })
    }

    /// Connects to the next node. The error is for people: what happened, where, and what to do.
    pub(super) async fn dial(&self, generation: u64) -> Result<Live, String> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.settings.hosts.len();
        let (host, port) = &self.settings.hosts[at];
        let (plug, limit) = (Plug::default(), self.settings.connect_timeout);
        let fuse = Fuse(Some(plug.clone()));
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let (tls, handle) = (self.tls.clone(), plug.clone());
        let connecting = Connection::connector(
            self.uri(host, *port),
            runtime,
            async move |uri: AMQPUri, runtime| {
                let plain = AMQPUri { scheme: AMQPScheme::AMQP, ..uri.clone() };
                let dialing = async {
                    let stream = plain.connect_with_config_async(TLSConfig::default(), &runtime).await?;
                    if let AsyncTcpStream::Plain(socket) = &stream {
                        handle.hold(socket.get_ref())?;
                    }
                    match &tls {
                        Some(tls) => stream.into_rustls(tls, &uri.authority.host).await,
                        None => Ok(stream),
                    }
                };
                // The thread that waits here is the client's: it must not wait longer than we do.
                let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
                Ok(timeout(limit, dialing).await.map_err(late).flatten()?)
            },
            self.properties(),
        );
        let connection = match timeout(limit, connecting).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(explain(&error, host, *port, &self.settings.vhost)),
            Err(_) => return Err(format!("RabbitMQ at {host}:{port} does not answer within {limit:?}")),
        };
        fuse.keep();
        Ok(Live { generation, connection, plug, blocked: watch::Sender::new(None) })
    }

    fn uri(&self, host: &str, port: u16) -> AMQPUri {
        let settings = &self.settings;
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        AMQPUri {
            scheme: if settings.is_tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
            authority: AMQPAuthority {
                userinfo: AMQPUserInfo {
                    username: self.credentials.user.expose_secret().to_owned(),
                    password: self.credentials.password.expose_secret().to_owned(),
                },
                host: host.to_owned(),
                port,
            },
            vhost: settings.vhost.clone(),
            query: AMQPQueryString {
                heartbeat: Some(u16::try_from(settings.heartbeat.as_secs()).unwrap_or(u16::MAX).max(1)),
                connection_timeout: Some(millis(settings.connect_timeout)),
                auth_mechanism: settings.is_external.then_some(SASLMechanism::External),
                ..AMQPQueryString::default()
            },
        }
    }

    fn properties(&self) -> ConnectionProperties {
        ConnectionProperties::default().with_connection_name(self.name.as_str().into())
    }
}
