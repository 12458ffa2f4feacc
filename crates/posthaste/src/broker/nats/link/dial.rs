//! Making one connection.

use std::error::Error as _;

use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr, Subscriber};
use posthaste_core::{Error, Result, redact};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Live;
use crate::broker::nats::publisher::Acks;
use crate::broker::nats::settings::LinkSettings;

/// Commands that wait for the client's own task.
const COMMANDS_MAX: usize = 8_192;
/// Messages that wait for whoever subscribed; more would be dropped, and a lane or feed has far fewer under way.
const MESSAGES_MAX: usize = 262_144;

/// Knows where the server is and who we are.
pub(super) struct Dialer {
    settings: LinkSettings,
    name: String,
    servers: Vec<ServerAddr>,
    creds: Option<SecretString>,
    tls: Option<rustls::ClientConfig>,
}

impl Dialer {
    pub(super) fn new(settings: &LinkSettings, role: &str) -> Result<Self> {
        let tls = if settings.is_tls {
            Some(settings.files.client("name a PEM file with sslrootcert=FILE in the URL of the broker")?)
        } else {
            None
        };
        let creds = match &settings.creds {
            Some(file) => {
                let wrong = |error| {
                    Error::config(format!("{} (creds) cannot be read", file.display())).because(error)
                };
                Some(SecretString::from(std::fs::read_to_string(file).map_err(wrong)?))
            }
            None => None,
        };
        let scheme = if settings.is_tls { "tls" } else { "nats" };
        let server = |(host, port): &(String, u16)| {
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            let address = format!("{scheme}://{host}:{port}").parse::<ServerAddr>();
            address.map_err(|_| Error::config(format!("{host}:{port} is no address of a server")))
        };
        let servers = settings.hosts.iter().map(server).collect::<Result<_>>()?;
        let dialer =
            Self { settings: settings.clone(), name: format!("posthaste {role}"), servers, creds, tls };
        dialer.options()?;
        Ok(dialer)
    }

    /// Connects. The error is for people: what happened, where, and what to do.
    pub(super) async fn dial(
        &self,
        generation: u64,
    ) -> Result<(Live, mpsc::UnboundedReceiver<Event>, Subscriber), String> {
        let (sender, events) = mpsc::unbounded_channel();
        let options = self.options().map_err(|error| error.to_string())?;
        let options = options.event_callback(move |event| {
            let sender = sender.clone();
            async move {
                let _ = sender.send(event);
            }
        });
        let limit = self.settings.connect_timeout;
        let client =
            match timeout(self.settings.dial_timeout(), options.connect(self.servers.as_slice())).await {
                Ok(Ok(client)) => client,
                Ok(Err(error)) => return Err(self.explain(&error)),
                Err(_) => return Err(format!("NATS at {} does not answer within {limit:?}", self.place())),
            };
        let inbox = client.new_inbox();
        let acks = client
            .subscribe(format!("{inbox}.*"))
            .await
            .map_err(|error| redact::clean(&error.to_string()))?;
        let mut jetstream = async_nats::jetstream::new(client.clone());
        jetstream.set_timeout(self.settings.patience);
        let live = Live {
            generation,
            client,
            jetstream,
            acks: Acks::new(inbox),
            is_prepared: tokio::sync::OnceCell::new(),
        };
        Ok((live, events, acks))
    }

    fn options(&self) -> Result<ConnectOptions> {
        let mut options = ConnectOptions::new()
            .name(&self.name)
            .connection_timeout(self.settings.connect_timeout)
            .ping_interval(self.settings.ping)
            .request_timeout(Some(self.settings.patience))
            .client_capacity(COMMANDS_MAX)
            .subscription_capacity(MESSAGES_MAX)
            // What is lost is made anew by whoever keeps the connection.
            .max_reconnects(self.servers.len());
        if let Some(credentials) = &self.settings.credentials {
            let (user, password) = (credentials.user.expose_secret(), credentials.password.expose_secret());
            // NATS' own way to write a token in a URL.
            options = if password.is_empty() {
                options.token(user.to_owned())
            } else {
                options.user_and_password(user.to_owned(), password.to_owned())
            };
        }
        if let Some(creds) = &self.creds {
            // What is wrong with it is not told: it may show a part of it.
            let wrong = |_| Error::config("the credentials file (creds) holds no JWT with its seed");
            options = options.credentials(creds.expose_secret()).map_err(wrong)?;
        }
        if let Some(tls) = &self.tls {
            options = options.tls_client_config(tls.clone()).require_tls(true);
        }
        Ok(options)
    }

    fn place(&self) -> String {
        let places: Vec<_> =
            self.settings.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        places.join(", ")
    }

    /// Why there is no connection, and what to do about it.
    fn explain(&self, error: &ConnectError) -> String {
        let advice = match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                "the user and the password, the token or the credentials of the URL are not accepted; check them"
            }
            ConnectErrorKind::Dns => "there is no such host; check the name in the URL",
            ConnectErrorKind::Tls => {
                "the TLS handshake failed; check sslrootcert, sslcert, sslkey and the host name"
            }
            ConnectErrorKind::TimedOut => "it does not answer in time",
            _ => "the connection could not be made",
        };
        let inner = error.source().map(|inner| format!(": {inner}")).unwrap_or_default();
        format!("NATS at {}: {advice} ({})", self.place(), redact::clean(&format!("{}{inner}", error.kind())))
    }
}
