//! A TCP proxy that breaks connections on purpose.

use std::io;
use std::net::SocketAddr;
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
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Listens on a free port of this machine and passes on to this address.
    ///
    /// # Errors
    /// No port is free.
    pub async fn in_front_of(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (forecast, seen) = watch::channel(Forecast { weather: Weather::Fair, cuts: 0, server });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, seen));
        Ok(Self { address, forecast, _tasks: tasks })
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
}

async fn accept(listener: TcpListener, forecast: watch::Receiver<Forecast>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let forecast = forecast.clone();
        // A cut shows on both sides as a closed connection, which is what dropping the sockets does.
        connections.spawn(async move { pass(client, forecast).await.unwrap_or_default() });
    }
}

async fn pass(client: TcpStream, mut forecast: watch::Receiver<Forecast>) -> io::Result<()> {
    let Forecast { weather, cuts, server } = *forecast.borrow();
    if weather == Weather::Refuse {
        return Ok(());
    }
    let server = TcpStream::connect(server).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = copy(from_client, to_server, forecast.clone());
    let back = copy(from_server, to_client, forecast.clone());
    let cut = forecast.wait_for(|now| now.weather == Weather::Refuse || now.cuts != cuts);
    tokio::select! {
        passed = async { tokio::try_join!(there, back) } => passed.map(|_| ()),
        _ = cut => Ok(()),
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut forecast: watch::Receiver<Forecast>,
) -> io::Result<()> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut chunk).await?;
        // Fails only when the proxy is gone, and then its tasks are too.
        let now = forecast.wait_for(|now| now.weather != Weather::Stall).await.map(|now| now.weather);
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
