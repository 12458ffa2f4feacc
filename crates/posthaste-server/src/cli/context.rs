//! What every verb needs: the configuration, how to answer, and the way to the events.

use std::path::PathBuf;
use std::sync::{Arc, Once};

use clap::ValueEnum;
use posthaste::admin::Actor;
use posthaste::schema::Backend;
use secrecy::{ExposeSecret as _, SecretString};

use super::actor;
use super::client::{Client, FoundServer};
use super::output;
use super::way::Way;
use crate::config::{self, Config, Environment, Flag};
use crate::exit::{Code, Failure};
use crate::keys;
use crate::proof::store_id;
use crate::record::Keeper;
use crate::supervisor::Supervisor;

/// Flags that every verb has.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of every verb")]
pub(super) struct Globals {
    /// Read this configuration file instead of ./posthaste.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Act on this store directly, like sqlite://posthaste.db
    #[arg(long, global = true, value_name = "URL", conflicts_with = "server")]
    pub(super) store: Option<String>,
    /// Ask this server, like http://127.0.0.1:7070
    #[arg(long, global = true, value_name = "URL")]
    pub(super) server: Option<String>,
    /// Read the API key from this file [default: POSTHASTE_API_KEY, then posthaste.key beside the database]
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// How to answer
    #[arg(long, global = true, value_enum, default_value_t = Output::Table)]
    pub(super) output: Output,
}

impl Globals {
    pub(super) fn flags(&self) -> Vec<Flag> {
        let store = self.store.clone().map(|value| Flag { flag: "--store", path: "store.url", value });
        store.into_iter().collect()
    }
}

/// How a verb answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// One JSON document on stdout, and nothing else there
    Json,
}

/// What every verb needs.
pub(super) struct Context {
    pub(super) config: Arc<Config>,
    environment: Environment,
    globals: Globals,
    /// Whether the command has said why it does not use the key file.
    key_told: Once,
}

/// The way to the events: through a server that runs, or straight to the store.
pub(super) enum Access {
    Server(Client),
    Store(Arc<dyn Backend>),
}

impl Context {
    pub(super) fn new(config: Config, environment: Environment, globals: Globals) -> Self {
        Self { config: Arc::new(config), environment, globals, key_told: Once::new() }
    }

    /// What is worth saying about the environment.
    pub(super) fn notes(&self) -> &[String] {
        self.environment.notes()
    }

    /// Whether the command line names a store.
    pub(super) fn names_store(&self) -> bool {
        self.globals.store.is_some()
    }

    pub(super) fn json(&self) -> bool {
        self.globals.output == Output::Json
    }

    /// Whether answers for people are in colour.
    pub(super) fn is_coloured(&self) -> bool {
        self.environment.is_coloured()
    }

    /// Whoever started the process and wants to hear of it.
    pub(super) fn supervisor(&self) -> Supervisor {
        Supervisor::of(&self.environment)
    }

    /// Who acts, for the audit.
    pub(super) fn actor(&self) -> Actor {
        actor::of_process(&self.environment)
    }

    /// The store, made if it is not there.
    pub(super) async fn store(&self) -> Result<Arc<dyn Backend>, Failure> {
        self.refuse_server()?;
        config::store::open(&self.config).await.map_err(open_failure)
    }

    /// The store, which must be there.
    pub(super) async fn existing_store(&self) -> Result<Arc<dyn Backend>, Failure> {
        self.refuse_server()?;
        if let Some(file) = self.missing_file() {
            return Err(Failure::new(
                Code::Store,
                format!(
                    "open the store: {} is not there; go to its folder, say --store URL, or make it with posthaste serve",
                    file.display()
                ),
            ));
        }
        config::store::open_existing(&self.config).await.map_err(open_failure)
    }

    /// The way of a command: through the server that `--server` names, else straight to the store. Where
    /// there is no store, through the server at the configured address. So a command acts on the store that
    /// [`Context::access`] looks at, and beside its own store it needs no right over REST.
    pub(super) async fn way(&self) -> Result<Way, Failure> {
        if let Some(url) = &self.globals.server {
            return Ok(Way::Server { client: Client::new(url, self.api_key()?)?, broker: None });
        }
        if !self.has_store()
            && let Some(client) = self.server_beside().await?
        {
            return Ok(Way::Server { client, broker: None });
        }
        let is_table = self.config.store.table.is_some();
        Ok(Way::Store { store: self.existing_store().await?, is_table })
    }

    /// The way to the dead letters of a broker: through the server that `--server` names, which knows it as a target, else straight to
    /// it. In the configuration its password is in nobody's list of processes.
    pub(super) fn way_to_broker(&self, broker: &str) -> Result<Way, Failure> {
        let is_url = broker.contains(':');
        if let Some(url) = &self.globals.server {
            if is_url {
                return Err(Failure::usage(
                    "ask the server: it knows brokers by the names of its targets, not by URLs",
                ));
            }
            let client = Client::new(url, self.api_key()?)?;
            return Ok(Way::Server { client, broker: Some(broker.to_owned()) });
        }
        let url = match self.config.targets.get(broker) {
            Some(target) => target.url.expose_secret(),
            None if is_url => broker,
            None => {
                return Err(Failure::config(format!(
                    "open the broker: there is no target {broker:?}; add [targets.{broker}] to posthaste.toml, or write a URL"
                )));
            }
        };
        let admin = posthaste::broker::dead_letters(url).map_err(|error| error.during("open the broker"))?;
        Ok(Way::Broker { admin, record: Keeper::new(Arc::clone(&self.config), broker) })
    }

    /// The file of an embedded store, if it is not there yet.
    pub(super) fn missing_file(&self) -> Option<PathBuf> {
        self.config.store.database_file().filter(|file| matches!(file.try_exists(), Ok(false)))
    }

    /// The way to look and to publish: `--server` asks that server and `--store` goes straight to the store.
    /// Without both, the server at the configured address is asked if it proves that it serves this store, or
    /// if there is no store here.
    pub(super) async fn access(&self, may_create: bool) -> Result<Access, Failure> {
        if let Some(url) = &self.globals.server {
            return Ok(Access::Server(Client::new(url, self.api_key()?)?));
        }
        if !self.names_store()
            && let Some(client) = self.server_beside().await?
        {
            return Ok(Access::Server(client));
        }
        let store = if may_create { self.store().await } else { self.existing_store().await };
        store.map(Access::Store)
    }

    /// Whether there is a store beside the server's: one that is configured, or the default file in this
    /// folder.
    fn has_store(&self) -> bool {
        self.config.store.is_url_set || self.missing_file().is_none()
    }

    /// The server at the configured address, if it may be asked instead of the store: it serves this store,
    /// or there is no store here. So the server of another project on this machine never stands in for a
    /// store.
    async fn server_beside(&self) -> Result<Option<Client>, Failure> {
        // `serve` does not serve outbox tables of other owners.
        if self.config.store.table.is_some() {
            return Ok(None);
        }
        match Client::find(self.config.server.listen, self.api_key()?).await {
            FoundServer::Nothing => Ok(None),
            FoundServer::Proven { client, .. } if !self.has_store() => Ok(Some(client)),
            FoundServer::Proven { client, store: Some(store) } => {
                let ours = config::store::identity(&self.config).await;
                Ok((ours.as_deref().map(store_id) == Some(store)).then_some(client))
            }
            FoundServer::Unproven(failure) if !self.has_store() => Err(failure),
            FoundServer::Proven { .. } | FoundServer::Unproven(_) => Ok(None),
        }
    }

    /// What to say with a failure of the store: an unproven server may hold the file of an embedded one.
    pub(super) async fn hint(&self, failure: &Failure) -> Option<String> {
        let is_embedded = self.config.store.database_file().is_some();
        if failure.code() != Code::Store || !is_embedded || self.globals.server.is_some() {
            return None;
        }
        let listen = self.config.server.listen;
        match Client::find(listen, self.api_key().ok()?).await {
            FoundServer::Unproven(_) => Some(format!(
                "a server listens on {listen} and did not prove that it knows the API key; if it holds the file, ask it \
                 with its key (--key-file FILE or POSTHASTE_API_KEY), or stop it"
            )),
            FoundServer::Proven { .. } | FoundServer::Nothing => None,
        }
    }

    /// Verbs that are done here must not look as if they had asked a server.
    pub(super) fn refuse_server(&self) -> Result<(), Failure> {
        if self.globals.server.is_some() {
            return Err(Failure::usage(
                "ask the server: this is done where the store can be reached; use --store URL there",
            ));
        }
        Ok(())
    }

    /// Where the API key lies, if it is in a file.
    pub(super) fn key_file(&self) -> Option<PathBuf> {
        self.globals.key_file.clone().or_else(|| self.config.store.key_file())
    }

    /// The API key: from the file that `--key-file` names, else from the environment, else from the file
    /// beside the store. If another user may know that one, it is not used, and a note on stderr says why.
    fn api_key(&self) -> Result<Option<SecretString>, Failure> {
        if let Some(file) = &self.globals.key_file {
            let told = |refused| Failure::usage(format!("read the API key: {refused}"));
            return keys::file::named(file).map(Some).map_err(told);
        }
        if let Some(key) = self.environment.api_key() {
            return Ok(Some(SecretString::from(key)));
        }
        let Some(file) = self.config.store.key_file() else { return Ok(None) };
        Ok(keys::file::own(&file).unwrap_or_else(|refused| {
            self.key_told.call_once(|| output::note(&format!("the API key is not used: {refused}")));
            None
        }))
    }
}

pub(super) fn open_failure(error: posthaste::Error) -> Failure {
    Failure::from(error.during("open the store"))
}
