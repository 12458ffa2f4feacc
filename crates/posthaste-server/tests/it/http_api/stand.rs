//! A server under test: its own port, its own store, its own end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste::memory::Memory;
use posthaste::schema::{Backend, Keyring as _};
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, Target};
use posthaste::{BoxFuture, BoxStream};
use posthaste_server::config::payload::LaneLimits;
use posthaste_server::http::{
    App, ConnectionLimits, Face, Letters, Limits, Metrics, Server, Watched, router,
};
use posthaste_server::keys::ApiKey;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::http_api::client::{Client, DEADLINE};

pub(crate) const PAYLOAD_BYTES_MAX: usize = 4096;
pub(crate) const JSON_DEPTH_MAX: usize = 128;
/// What the lane of the topics `narrow.#` takes.
const NARROW_BYTES_MAX: u64 = 100;
pub(crate) const CONNECTIONS_MAX: usize = 1_200;

/// The name of the key that may give commands.
const OPERATOR: &str = "ops";

/// A running server; dropping it ends it.
pub(crate) struct Stand {
    /// Asks with the key.
    pub(crate) client: Client,
    /// Asks with a key that may give commands.
    pub(crate) operator: Client,
    /// Ask with keys that have one scope each, which is their name.
    pub(crate) scoped: Vec<(&'static str, Client)>,
    /// Asks the admin address, without a key.
    pub(crate) admin: Client,
    app: Arc<App>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// What differs between stands.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) body: Duration,
    pub(crate) request: Duration,
    pub(crate) connections_max: usize,
    pub(crate) payload_bytes_max: usize,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            header: DEADLINE,
            idle: DEADLINE,
            body: DEADLINE,
            request: DEADLINE,
            connections_max: CONNECTIONS_MAX,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }
}

impl Stand {
    pub(crate) async fn start() -> Self {
        Self::with(Memory::new(), |memory| Arc::new(memory), Times::default()).await
    }

    /// Serves what `wrap` makes of this store, which has one key.
    pub(crate) async fn with(
        memory: Memory,
        wrap: impl FnOnce(Memory) -> Arc<dyn Backend>,
        times: Times,
    ) -> Self {
        Self::watching(memory, wrap, times, Watched::default()).await
    }

    /// The same, with targets on which it depends, and loops that must turn.
    pub(crate) async fn watching(
        memory: Memory,
        wrap: impl FnOnce(Memory) -> Arc<dyn Backend>,
        times: Times,
        watched: Watched,
    ) -> Self {
        let app =
            |memory, limits, metrics| App::new(wrap(memory), Letters::default(), limits, metrics, watched);
        Self::made(memory, times, app).await
    }

    /// On an empty store, beside these dead letters of brokers.
    pub(crate) async fn beside(letters: Letters) -> Self {
        let app = |memory, limits, metrics| {
            App::new(Arc::new(memory), letters, limits, metrics, Watched::default())
        };
        Self::made(Memory::new(), Times::default(), app).await
    }

    /// On a store that keeps no keys here.
    pub(crate) async fn over(store: Arc<dyn Backend>) -> Self {
        let app = |keys, limits, metrics| {
            App::of_table(store, Letters::default(), Arc::new(keys), limits, metrics, Watched::default())
        };
        Self::made(Memory::new(), Times::default(), app).await
    }

    /// Serves what `app` makes of a store in memory that has the keys.
    async fn made(
        memory: Memory,
        times: Times,
        app: impl FnOnce(Memory, Limits, Metrics) -> Arc<App>,
    ) -> Self {
        let key = ApiKey::generate().expect("the system has a random source");
        memory.add("test", &key.hash()).await.expect("memory takes a key");
        let operating = ApiKey::generate().expect("the system has a random source");
        memory.add(OPERATOR, &operating.hash()).await.expect("memory takes a second key");
        let mut scoped = Vec::new();
        for scope in ["read", "publish", "operate"] {
            let key = ApiKey::generate().expect("the system has a random source");
            memory.add(scope, &key.hash()).await.expect("memory takes a key");
            scoped.push((scope, key));
        }
        let operators = [OPERATOR, "read:read", "publish:publish", "operate:operate"];
        let limits = Limits {
            payload_bytes_max: times.payload_bytes_max,
            json_depth_max: JSON_DEPTH_MAX,
            lanes: narrow_lane(),
            body_timeout: times.body,
            body_bytes_per_second_min: 16 * 1024,
            request_timeout: times.request,
            source: "/test".to_owned(),
            operators: operators.map(|operator| operator.parse().expect("an operator")).into(),
        };
        let metrics = Metrics::install().expect("nobody else installs one");
        let app = app(memory, limits, metrics);
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for face in [Face::Public, Face::Admin] {
            let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port is free");
            addresses.push(server.address());
            let ended = stop.clone().cancelled_owned();
            tasks.spawn(server.run(router(Arc::clone(&app), face), connections(times), ended));
        }
        let client = Client { address: addresses[0], key: Some(key.expose().to_owned()) };
        let operator = Client { key: Some(operating.expose().to_owned()), ..client.clone() };
        let with = |key: ApiKey| Client { key: Some(key.expose().to_owned()), ..client.clone() };
        let scoped = scoped.into_iter().map(|(scope, key)| (scope, with(key))).collect();
        let admin = Client { address: addresses[1], key: None };
        Self { client, operator, scoped, admin, app, stop, tasks }
    }

    /// Asks without a key.
    pub(crate) fn stranger(&self) -> Client {
        Client { key: None, ..self.client.clone() }
    }

    /// Asks for the end.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until its commands have stopped, as at the end of the process.
    pub(crate) async fn commands_ended(&self) {
        self.app.commands_ended(DEADLINE).await;
    }

    /// Ends it without waiting for requests that would not finish.
    pub(crate) async fn stopped_at_once(mut self) {
        self.tasks.shutdown().await;
    }

    /// Waits for the end; a hang fails the test.
    pub(crate) async fn stopped(mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        timeout(DEADLINE, ended).await.expect("the server ends in time");
    }
}

/// A lane of these topics that takes little.
fn narrow_lane() -> LaneLimits {
    let topics = vec!["narrow.#".parse().expect("that is a pattern")];
    let target: Arc<dyn Target> = Arc::new(Narrow(Capabilities::sink().payload_bytes_max(NARROW_BYTES_MAX)));
    [("narrow".to_owned(), topics, target)].into_iter().collect()
}

/// A target that nobody delivers to.
struct Narrow(Capabilities);

impl Target for Narrow {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn deliver(&self, _: Vec<Parcel>) -> BoxStream<'_, Answer> {
        unreachable!("no relay runs here")
    }

    fn ping(&self) -> BoxFuture<'_, posthaste::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

fn connections(times: Times) -> ConnectionLimits {
    ConnectionLimits {
        connections_max: times.connections_max,
        header_timeout: times.header,
        idle_timeout: times.idle,
        write_timeout: DEADLINE,
        grace: DEADLINE,
    }
}
