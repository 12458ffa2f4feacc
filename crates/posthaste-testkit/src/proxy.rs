//! A TCP proxy that breaks connections on purpose.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Bytes pass.
    Fair,
    /// Every chunk of bytes passes after this.
    Delay(Duration),
    /// Connections stay open and nothing passes.
    Stall,
    /// What clients send passes, and nothing comes back.
    Deaf,
    /// The server's side of every connection ends, and the client's stays open and mute for good, as when the way between
    /// them is gone. New connections are taken and stay mute too.
    HalfOpen,
    /// Open connections are cut, new ones are accepted and cut at once.
    Refuse,
}

/// The weather, and how often everything was cut: a cut that is over before anybody looks is still seen.
#[derive(Clone, Copy)]
struct Forecast {
    weather: Weather,
    cuts: u64,
    server: SocketAddr,
}

/// A proxy in front of a server; dropping it cuts everything.
pub struct Proxy {
    address: SocketAddr,
    forecast: watch::Sender<Forecast>,
    open: Open,
    _tasks: JoinSet<()>,
}

/// The connections that may be open: each has the other end of one of these.
type Open = Arc<Mutex<Vec<Weak<()>>>>;

impl Proxy {
    /// Listens on a free port of this machine and passes on to this address.
    ///
    /// # Errors
    /// No port is free.
    pub async fn in_front_of(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (forecast, seen) = watch::channel(Forecast { weather: Weather::Fair, cuts: 0, server });
        let (mut tasks, open) = (JoinSet::new(), Arc::default());
        tasks.spawn(accept(listener, seen, Arc::clone(&open)));
        Ok(Self { address, forecast, open, _tasks: tasks })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens, to open connections too.
    pub fn set(&self, weather: Weather) {
        self.forecast.send_modify(|forecast| forecast.weather = weather);
    }

    /// Passes on to another server from now on, as an address that moves in a failover; what is open is cut.
    pub fn redirect(&self, server: SocketAddr) {
        self.forecast.send_modify(|forecast| {
            forecast.server = server;
            forecast.cuts += 1;
        });
    }

    /// Cuts what is open; new connections fare as the weather is.
    pub fn cut(&self) {
        self.forecast.send_modify(|forecast| forecast.cuts += 1);
    }

    /// The same, and waits until nothing passes any more through what was open.
    pub async fn cut_through(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        self.cut();
        while open.iter().any(|connection| connection.strong_count() > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn accept(listener: TcpListener, forecast: watch::Receiver<Forecast>, open: Open) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (forecast, is_open) = (forecast.clone(), Arc::new(()));
        let mut all = open.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|connection| connection.strong_count() > 0);
        all.push(Arc::downgrade(&is_open));
        drop(all);
        // A cut shows on both sides as a closed connection, which is what dropping the sockets does.
        connections.spawn(async move {
            pass(client, forecast).await.unwrap_or_default();
            drop(is_open);
        });
    }
}

async fn pass(mut client: TcpStream, mut forecast: watch::Receiver<Forecast>) -> io::Result<()> {
    let Forecast { weather, cuts, server } = *forecast.borrow();
    match weather {
        Weather::Refuse => return Ok(()),
        Weather::HalfOpen => {}
        _ => {
            let mut server = TcpStream::connect(server).await?;
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let there = copy(from_client, to_server, forecast.clone(), |weather| weather != Weather::Stall);
            let back = copy(from_server, to_client, forecast.clone(), |weather| {
                !matches!(weather, Weather::Stall | Weather::Deaf)
            });
            let broken = forecast.wait_for(|now| {
                matches!(now.weather, Weather::Refuse | Weather::HalfOpen) || now.cuts != cuts
            });
            let is_half_open = tokio::select! {
                passed = async { tokio::try_join!(there, back) } => return passed.map(|_| ()),
                now = broken => now.is_ok_and(|now| now.weather == Weather::HalfOpen && now.cuts == cuts),
            };
            if !is_half_open {
                return Ok(());
            }
        }
    }
    // Nobody is at the other end any more: what the client sends goes nowhere, until it has had enough.
    let gone = forecast.wait_for(|now| now.weather == Weather::Refuse || now.cuts != cuts);
    let mut nowhere = tokio::io::sink();
    tokio::select! {
        swallowed = tokio::io::copy(&mut client, &mut nowhere) => swallowed.map(drop),
        _ = gone => Ok(()),
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut forecast: watch::Receiver<Forecast>,
    passes: fn(Weather) -> bool,
) -> io::Result<()> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut chunk).await?;
        // Fails only when the proxy is gone, and then its tasks are too.
        let now = forecast.wait_for(|now| passes(now.weather)).await.map(|now| now.weather);
        if let Ok(Weather::Delay(span)) = now {
            tokio::time::sleep(span).await;
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(5);

    /// A server that sends back what it gets, and a proxy in front of it.
    async fn echo() -> (Proxy, JoinSet<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut from, mut to) = socket.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        (Proxy::in_front_of(address).await.unwrap(), tasks)
    }

    async fn ask(socket: &mut TcpStream) -> io::Result<u8> {
        socket.write_all(&[7]).await?;
        socket.read_u8().await
    }

    #[tokio::test]
    async fn bytes_pass_until_they_are_cut_or_refused() {
        let (proxy, _server) = echo().await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut socket).await.unwrap(), 7);
        proxy.cut();
        assert!(timeout(SOON, socket.read_u8()).await.unwrap().is_err(), "cut");
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut socket).await.unwrap(), 7, "new connections pass after a cut");
        proxy.set(Weather::Refuse);
        assert!(timeout(SOON, socket.read_u8()).await.unwrap().is_err(), "refused while open");
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(timeout(SOON, ask(&mut socket)).await.unwrap().is_err(), "refused when new");
    }

    #[tokio::test]
    async fn a_half_open_connection_stays_mute_for_good_and_new_ones_pass_when_the_weather_is_fair() {
        let (proxy, _server) = echo().await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut socket).await.unwrap(), 7);
        proxy.set(Weather::HalfOpen);
        assert!(timeout(Duration::from_millis(50), ask(&mut socket)).await.is_err(), "mute");
        proxy.set(Weather::Fair);
        assert!(timeout(Duration::from_millis(50), ask(&mut socket)).await.is_err(), "mute for good");
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(timeout(SOON, ask(&mut socket)).await.unwrap().unwrap(), 7, "a new one");
    }

    #[tokio::test]
    async fn what_is_sent_over_a_deaf_connection_arrives_and_is_answered_later() {
        let (proxy, _server) = echo().await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.set(Weather::Deaf);
        assert!(timeout(Duration::from_millis(50), ask(&mut socket)).await.is_err(), "deaf");
        proxy.set(Weather::Fair);
        assert_eq!(timeout(SOON, socket.read_u8()).await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn a_stalled_connection_goes_on_when_the_weather_is_fair() {
        let (proxy, _server) = echo().await;
        let mut socket = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(ask(&mut socket).await.unwrap(), 7);
        proxy.set(Weather::Stall);
        assert!(timeout(Duration::from_millis(50), ask(&mut socket)).await.is_err(), "stalled");
        proxy.set(Weather::Fair);
        assert_eq!(timeout(SOON, socket.read_u8()).await.unwrap().unwrap(), 7);
    }
}
