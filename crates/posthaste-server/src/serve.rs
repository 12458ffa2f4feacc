//! `posthaste serve`: REST and the configured lanes on one store, in one process.
//!
//! The order of the start: bind (a taken port is found before anything is created), open the store, find or make the key,
//! say hello, serve. The order of the end: stop accepting, finish requests and deliveries within the grace period, close
//! the store.

mod prune;
mod welcome;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use posthaste::relay::Relay;
use posthaste::schema::{Backend, Keyring};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::config::payload::LaneLimits;
use crate::config::relay::Targets;
use crate::config::server::Role;
use crate::exit::{Code, Failure};
use crate::http::{
    App, ConnectionLimits, Face, Letters, Limits, Metrics, Server, UPKEEP_EVERY, Watched, make_room, router,
};
use crate::keys;
use crate::shutdown::Shutdown;
use crate::supervisor::Supervisor;
use prune::Retention;
use welcome::Welcome;

const STORE_PAUSE_MIN: Duration = Duration::from_millis(100);
const STORE_PAUSE_MAX: Duration = Duration::from_secs(5);
const CLOSE_WITHIN: Duration = Duration::from_secs(10);

/// Serves until the end is asked for. Dropping the future stops at once, which loses nothing that was acknowledged.
///
/// A store that is away is waited for. At the start connections are taken and answered once it is there; later `/readyz`
/// answers 503 meanwhile and the process lives.
///
/// # Errors
/// When an address cannot be bound, and what waiting cannot mend: a wrong setting, a store that is no store.
pub async fn run(config: Arc<Config>, supervisor: Supervisor, shutdown: Shutdown) -> Result<(), Failure> {
    let public = bind(config.server.listen).await?;
    let admin = match config.server.admin_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let room = make_room(config.server.connections_max);
    if room < config.server.connections_max {
        tracing::warn!(
            room,
            "the system allows fewer connections than server.connections_max; raise its limit of open files"
        );
    }
    let metrics = Metrics::install()?;
    let Some(store) = open_store(&config, &shutdown).await? else { return Ok(()) };
    let Some(key) = first_key(&config, &*store, &shutdown).await? else { return Ok(()) };
    Welcome {
        address: public.address(),
        admin: admin.as_ref().map(Server::address),
        config: &config,
        key: &key,
    }
    .print();
    // The key's text is not needed any more; only its hash lives on, in the store.
    drop(key);
    serve_on(&config, store, (public, admin), metrics, (supervisor, shutdown)).await
}

/// Does this work, and beside it what a process that runs for long does: old events go, whoever started it hears that it lives, and
/// health and metrics are shown on the admin address, if one is configured.
///
/// # Errors
/// When the address cannot be bound; otherwise what the work answers.
pub async fn beside(
    config: &Config,
    store: Arc<dyn Backend>,
    watched: Watched,
    supervisor: Supervisor,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let retention = prune::heartbeat();
    let mut watched = watched;
    watched.loops.push(retention.clone());
    let beating = supervisor.beat(watched.loops.clone());
    let pruning =
        prune::run(Arc::clone(&store), Retention::of(config), config.prune.interval, "relay", retention);
    let work = async {
        tokio::select! {
            ended = work => ended,
            () = pruning => Err(Failure::other("remove old events: that ended by itself")),
            () = beating => Err(Failure::other("tell that it lives: that ended by itself")),
        }
    };
    let Some(address) = config.server.admin_listen else { return work.await };
    let (server, metrics) = (bind(address).await?, Metrics::install()?);
    tracing::info!(address = %server.address(), "health, figures and, with a key, commands are to be had here");
    let keyring = keyring_beside(config, &store).await;
    let app = match config.store.table {
        Some(_) => {
            App::of_table(store, Letters::of(config), keyring, limits(config), metrics.clone(), watched)
        }
        None => App::new(store, Letters::of(config), limits(config), metrics.clone(), watched),
    };
    let router = router(Arc::clone(&app), Face::Admin);
    let shown = server.run(router, connection_limits(config), std::future::pending());
    let ended = tokio::select! {
        ended = work => ended,
        () = shown => Err(Failure::other("show health and metrics: that ended by itself")),
        () = upkeep(metrics) => Err(Failure::other("keep the metrics: that ended by itself")),
    };
    app.commands_ended(config.relay.grace).await;
    ended
}

/// The keys that a relay knows: those of its store, or of the key file where the store is a table of somebody else. Where somebody is to
/// operate over REST and there is no key yet, one is made; without one nobody can, and the relay works all the same.
async fn keyring_beside(config: &Config, store: &Arc<dyn Backend>) -> Arc<dyn Keyring> {
    let keyring: Arc<dyn Keyring> = match config.store.table {
        Some(_) => Arc::new(keys::ProcessKeys::default()),
        None => Arc::<dyn Backend>::clone(store),
    };
    if config.server.operators.is_empty() {
        return keyring;
    }
    match keys::first_start(&*keyring, config.store.key_file().as_deref()).await {
        Ok(keys::FirstKey::Known | keys::FirstKey::Adopted(_)) => {}
        Ok(keys::FirstKey::Written(_, file)) => {
            tracing::info!(file = %file.display(), "a key for commands over REST was made");
        }
        // Its text is nowhere: it opens nothing.
        Ok(keys::FirstKey::Unwritten(_, why)) => tracing::warn!(why, "nobody can give commands over REST"),
        Err(error) => tracing::warn!(%error, "nobody can give commands over REST"),
    }
    keyring
}

async fn serve_on(
    config: &Config,
    store: Arc<dyn Backend>,
    (public, admin): (Server, Option<Server>),
    metrics: Metrics,
    (supervisor, shutdown): (Supervisor, Shutdown),
) -> Result<(), Failure> {
    let is_relay = !config.lanes.is_empty() && config.server.roles.contains(&Role::Relay);
    let targets = if is_relay { Targets::open(config)? } else { Targets::default() };
    let are_needed = !config.server.roles.contains(&Role::Api);
    let relay = match is_relay {
        true => Some(crate::config::relay::build(config, Arc::clone(&store), &targets)?),
        false => None,
    };
    let heartbeat = prune::heartbeat();
    let mut loops = relay.as_ref().map(Relay::heartbeats).unwrap_or_default();
    loops.push(heartbeat.clone());
    let tenures = relay.as_ref().map(Relay::tenures).unwrap_or_default();
    let watched = Watched { targets: targets.shown(), are_needed, loops: loops.clone(), tenures };
    let app = App::new(Arc::clone(&store), Letters::of(config), limits(config), metrics.clone(), watched);
    let stop = CancellationToken::new();
    let mut work: JoinSet<Result<(), Failure>> = JoinSet::new();
    // Without the API only health and metrics are left to show.
    let shown = if config.server.roles.contains(&Role::Api) { Face::Public } else { Face::Admin };
    let faces = [(Some(public), shown), (admin, Face::Admin)];
    for (server, face) in faces.into_iter().filter_map(|(server, face)| Some((server?, face))) {
        let (router, limits) = (router(Arc::clone(&app), face), connection_limits(config));
        let stopped = stop.clone().cancelled_owned();
        work.spawn(async move {
            server.run(router, limits, stopped).await;
            Ok(())
        });
    }
    if let Some(relay) = relay {
        let stopped = stop.clone().cancelled_owned();
        work.spawn(async move { relay.run(stopped).await.map_err(Failure::from) });
    }
    // Ends with this function, whatever it does then.
    let mut background = JoinSet::new();
    background.spawn(upkeep(metrics));
    let retention = Retention::of(config);
    background.spawn(prune::run(Arc::clone(&store), retention, config.prune.interval, "serve", heartbeat));
    background.spawn(supervisor.clone().beat(loops));
    supervisor.ready();
    let ended = tokio::select! {
        () = shutdown.begun() => {
            supervisor.stopping();
            tracing::info!("stopping: finishing what is in flight");
            app.stop_commands();
            stop.cancel();
            finish(&mut work, &stop).await
        }
        ended = finish(&mut work, &stop) => ended,
    };
    app.commands_ended(config.relay.grace).await;
    background.shutdown().await;
    drop(app);
    close(store).await;
    ended
}

/// Closes the store, whose last user this is: an embedded one then puts everything into its file, which can be copied
/// alone. Not waited for without an end: what was acknowledged is safe in any case.
async fn close(store: Arc<dyn Backend>) {
    let closed = tokio::task::spawn_blocking(move || drop(store));
    if tokio::time::timeout(CLOSE_WITHIN, closed).await.is_err() {
        tracing::warn!("the store did not close in time; the next start finds everything all the same");
    }
}

/// Waits for all work. What ends by itself, or fails, ends the rest: half a server would look alive and do half its work.
async fn finish(work: &mut JoinSet<Result<(), Failure>>, stop: &CancellationToken) -> Result<(), Failure> {
    let mut outcome = Ok(());
    while let Some(ended) = work.join_next().await {
        stop.cancel();
        let ended = ended.unwrap_or_else(|panic| Err(Failure::other(format!("serve: {panic}"))));
        outcome = outcome.and(ended);
    }
    outcome
}

async fn upkeep(metrics: Metrics) {
    let mut ticks = tokio::time::interval(UPKEEP_EVERY);
    loop {
        ticks.tick().await;
        metrics.upkeep();
    }
}

async fn bind(address: SocketAddr) -> Result<Server, Failure> {
    Server::bind(address).await.map_err(|error| {
        Failure::new(
            Code::Other,
            format!("listen on {address}: {error}; end what listens there, or set server.listen to another address"),
        )
    })
}

/// Opens the store, waiting while it is away. `None`: the end was asked for meanwhile.
async fn open_store(config: &Config, shutdown: &Shutdown) -> Result<Option<Arc<dyn Backend>>, Failure> {
    let mut pause = STORE_PAUSE_MIN;
    loop {
        match crate::config::store::open(config).await {
            Ok(store) => return Ok(Some(store)),
            Err(error) if error.retryable() => {
                tracing::warn!(%error, pause_ms = pause.as_millis(), "the store is unreachable; trying again");
            }
            Err(error) => return Err(Failure::from(error.during("open the store"))),
        }
        if !waited(pause, shutdown.begun()).await {
            return Ok(None);
        }
        pause = (pause * 2).min(STORE_PAUSE_MAX);
    }
}

/// Finds or makes the first key, waiting while the store is away: one on a server is asked here for the first time. `None`:
/// the end was asked for meanwhile.
async fn first_key(
    config: &Config,
    store: &dyn Backend,
    shutdown: &Shutdown,
) -> Result<Option<keys::FirstKey>, Failure> {
    let mut pause = STORE_PAUSE_MIN;
    loop {
        match keys::first_start(store, config.store.key_file().as_deref()).await {
            Ok(key) => return Ok(Some(key)),
            Err(error) if error.retryable() => {
                tracing::warn!(%error, pause_ms = pause.as_millis(), "the store is unreachable; trying again");
            }
            Err(error) => return Err(Failure::from(error.during("open the store"))),
        }
        if !waited(pause, shutdown.begun()).await {
            return Ok(None);
        }
        pause = (pause * 2).min(STORE_PAUSE_MAX);
    }
}

/// Waits; `false` when the end was asked for meanwhile.
async fn waited(pause: Duration, ended: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(pause, ended).await.is_err()
}

fn limits(config: &Config) -> Limits {
    let server = &config.server;
    Limits {
        payload_bytes_max: server.payload_max,
        json_depth_max: server.json_depth_max,
        lanes: LaneLimits::of(config),
        body_timeout: server.body_timeout,
        body_bytes_per_second_min: server.body_rate_min,
        request_timeout: server.request_timeout,
        source: server.source.clone(),
        operators: server.operators.clone(),
    }
}

fn connection_limits(config: &Config) -> ConnectionLimits {
    let server = &config.server;
    ConnectionLimits {
        connections_max: server.connections_max,
        header_timeout: server.header_timeout,
        idle_timeout: server.idle_timeout,
        write_timeout: server.body_timeout,
        grace: config.relay.grace,
    }
}
