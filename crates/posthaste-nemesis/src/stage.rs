//! Everything that a run starts: the server, a proxy for each relay and one for the producers, the processes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posthaste_testkit::proxy::{Proxy, Weather};
use posthaste_testservers::Run;
use posthaste_testservers::{Fleet, Kind, Server};

use crate::base::Base;
use crate::brokers::Between;
use crate::engine::Engine;
use crate::fault::Link;
use crate::journal::Pen;
use crate::plan::{CONSUMERS, PRODUCERS, RELAYS};
use crate::truth::Direct;
use crate::worker::{Worker, lock};
use crate::{Failure, Result};

/// Every event has its own transaction in each of three consumers, and the broker is away for a third of the time: at full pace
/// a backlog would grow that is judged long after the last fault.
const PAUSE_MAX_WITH_BROKER: u64 = 200;
/// How often processes are looked after.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a run is with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct With {
    /// Where they are kept.
    pub(crate) base: Base,
    /// How events are kept.
    pub(crate) engine: Engine,
    /// A pooler in front of the server.
    pub(crate) pooled: bool,
    /// Consumers instead of files.
    pub(crate) consume: bool,
    /// A broker between relays and consumers.
    pub(crate) broker: Option<&'static Between>,
}

/// What stands on it can be broken from several tasks.
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
    pub(crate) server: Arc<Mutex<Server>>,
    /// Between relays and consumers, if that was asked for.
    broker: Option<Arc<Mutex<Server>>>,
    /// Between Postgres and the relays, if that was asked for.
    _pooler: Option<Server>,
    pub(crate) engine: Engine,
    /// Past all proxies and poolers.
    pub(crate) url: String,
    pub(crate) relays: Vec<Mutex<Worker>>,
    pub(crate) producers: Vec<Mutex<Worker>>,
    relay_links: Vec<Proxy>,
    producer_link: Proxy,
    broker_link: Option<Proxy>,
    log: Pen,
    begun: Instant,
}

impl Stage {
    /// Starts the server, makes the tables, and starts everybody.
    pub(crate) async fn set(run: &Arc<Run>, folder: PathBuf, seed: u64, with: With) -> Result<Self> {
        let Servers { server, pooler, mut broker } = blocking(|| start_servers(run, with))?;
        let url = server.url();
        with.engine.make(&url).await?;
        Direct::connect(&url).await?.make_tables().await?;

        let log = Pen::append_to(&folder.join("faults"))?;
        let relays_url = pooler.as_ref().map_or_else(|| url.clone(), Server::url);
        let broker_link = match &broker {
            Some(broker) => Some(Proxy::in_front_of(address_of(&broker.url())?).await?),
            None => None,
        };
        if let (Some(link), Some(broker), Some(server)) = (&broker_link, with.broker, &mut broker)
            && let Some(announce) = broker.announce
        {
            blocking(|| announce(server, link.address()))?;
        }
        let engine = ["--engine".to_owned(), with.engine.name().to_owned()];
        let mut more: Vec<String> = with.consume.then(|| "--consume".to_owned()).into_iter().collect();
        if let (Some(link), Some(broker)) = (&broker_link, with.broker) {
            more = vec!["--broker".to_owned(), (broker.url)(link.address())];
        }
        let relays_more = [engine.as_slice(), &more].concat();
        let (mut relay_links, mut relays) = (Vec::new(), Vec::new());
        for number in 0..RELAYS {
            let link = Proxy::in_front_of(address_of(&relays_url)?).await?;
            relays.push(worker(run, &folder, "relay", number, &through(with.base, &link), &relays_more));
            relay_links.push(link);
        }
        for number in 0..if with.broker.is_some() { CONSUMERS } else { 0 } {
            let link = Proxy::in_front_of(address_of(&url)?).await?;
            relays.push(worker(run, &folder, "consumer", number, &through(with.base, &link), &more));
            relay_links.push(link);
        }
        let producer_link = Proxy::in_front_of(address_of(&url)?).await?;
        let producers_url = with.base.at(producer_link.address(), true);
        let producers = (0..PRODUCERS).map(|number| {
            let mut more = [engine.as_slice(), &["--seed".to_owned(), seed.to_string()]].concat();
            // One of them commits without waiting for the disk: what a crash takes back must not have been delivered.
            // MariaDB has that for all or nobody.
            let is_hasty = number == 0 && with.base == Base::Postgres;
            more.extend(is_hasty.then(|| "--hasty".to_owned()));
            if with.broker.is_some() {
                more.extend(["--pause-max".to_owned(), PAUSE_MAX_WITH_BROKER.to_string()]);
            }
            worker(run, &folder, "producer", number, &producers_url, &more)
        });
        let stage = Self {
            producers: producers.collect(),
            server: Arc::new(Mutex::new(server)),
            broker: broker.map(|broker| Arc::new(Mutex::new(broker))),
            broker_link,
            _pooler: pooler,
            begun: Instant::now(),
            engine: with.engine,
            folder,
            url,
            relays,
            relay_links,
            producer_link,
            log,
        };
        stage.workers().try_for_each(|worker| lock(worker).start(&[]))?;
        Ok(stage)
    }

    /// Which database is under test.
    pub(crate) fn base(&self) -> Base {
        Base::of(&self.url)
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = &Mutex<Worker>> {
        self.relays.iter().chain(&self.producers)
    }

    /// Writes down what happens, with its time.
    pub(crate) fn note(&self, what: &str) {
        let line = format!("{:7.3} {}", self.begun.elapsed().as_secs_f32(), what.replace('\n', " "));
        // A full disk shows in everything else too.
        let _ = self.log.write(&line);
    }

    pub(crate) fn set_weather(&self, link: Link, weather: Weather) {
        self.links(link).for_each(|proxy| proxy.set(weather));
    }

    pub(crate) fn cut(&self, link: Link) {
        self.links(link).for_each(Proxy::cut);
    }

    fn links(&self, link: Link) -> impl Iterator<Item = &Proxy> {
        let relays = self.relay_links.iter().enumerate();
        let relays =
            relays.filter(move |(n, _)| link == Link::All || link == Link::Relay(*n)).map(|(_, proxy)| proxy);
        let producers = Some(&self.producer_link).filter(|_| matches!(link, Link::All | Link::Producers));
        let broker = self.broker_link.as_ref().filter(|_| matches!(link, Link::All | Link::Broker));
        relays.chain(producers).chain(broker)
    }

    /// The broker between relays and consumers.
    pub(crate) fn broker(&self) -> Result<&Arc<Mutex<Server>>> {
        self.broker.as_ref().ok_or_else(|| "this run has no broker".into())
    }

    /// Where the broker is, past all proxies.
    pub(crate) fn broker_url(&self) -> Option<String> {
        self.broker.as_ref().map(|broker| lock(broker).url())
    }

    /// Starts the servers that are down.
    pub(crate) async fn start_servers(&self) -> Result<()> {
        for server in std::iter::once(&self.server).chain(&self.broker) {
            act_on(server, |server| if server.pid().is_none() { server.start() } else { Ok(()) }).await?;
        }
        Ok(())
    }

    /// Starts again whoever ended and was not to, for as long as it is polled; such an end is written down and counted.
    pub(crate) async fn look_after(&self, gave_up: &Mutex<Vec<String>>) -> Result<()> {
        loop {
            for worker in self.workers() {
                let mut worker = lock(worker);
                if worker.is_down {
                    continue;
                }
                if let Some(status) = worker.ended()? {
                    let what = format!("{} ended by itself: {status}", worker.name());
                    self.note(&what);
                    lock(gave_up).push(what);
                    worker.start(&[])?;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Does something slow to a server.
pub(crate) async fn act_on(
    server: &Arc<Mutex<Server>>,
    act: impl FnOnce(&mut Server) -> posthaste_testservers::Result<()> + Send + 'static,
) -> Result<()> {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || act(&mut lock(&server))).await?.map_err(Failure::from)
}

struct Servers {
    server: Server,
    pooler: Option<Server>,
    broker: Option<Server>,
}

fn start_servers(run: &Arc<Run>, with: With) -> Result<Servers> {
    let mut kinds = vec![with.base.kind()];
    kinds.extend(with.pooled.then_some(Kind::Pgbouncer));
    kinds.extend(with.broker.map(|broker| broker.kind));
    let mut fleet = Fleet::start(&kinds, run, None)?;
    if let Some((kind, error)) = fleet.lacking.pop() {
        return Err(format!("{} cannot be had: {error}", kind.name()).into());
    }
    let mut take = |kind: Kind| {
        let at = fleet.servers.iter().position(|server| server.kind() == kind)?;
        Some(fleet.servers.remove(at))
    };
    let (pooler, broker) = (take(Kind::Pgbouncer), with.broker.and_then(|broker| take(broker.kind)));
    Ok(Servers { server: take(with.base.kind()).ok_or("no database was started")?, pooler, broker })
}

/// Starting a server waits for it; nothing else is to be done meanwhile.
fn blocking<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    tokio::task::block_in_place(work)
}

fn worker(
    run: &Arc<Run>,
    folder: &Path,
    kind: &str,
    number: usize,
    url: &str,
    more: &[String],
) -> Mutex<Worker> {
    let name = format!("{kind}{number}");
    let folder_text = folder.display().to_string();
    let mut arguments: Vec<String> = [kind, "--url", url, "--folder", &folder_text].map(str::to_owned).into();
    arguments.extend_from_slice(more);
    let log = folder.join(format!("{name}.log"));
    Mutex::new(Worker::new(run, name, arguments, log))
}

fn address_of(url: &str) -> Result<SocketAddr> {
    let address = url.rsplit(['@', '/']).find(|part| part.starts_with("127.0.0.1:"));
    Ok(address.ok_or("no address in the server's URL")?.parse()?)
}

fn through(base: Base, proxy: &Proxy) -> String {
    base.at(proxy.address(), false)
}
