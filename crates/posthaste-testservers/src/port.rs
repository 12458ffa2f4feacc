//! Ports that no other run picks and that stay ours while a server is down.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::time::Duration;
use std::{io, iter};

use crate::error::{Error, Result};

/// A server that does not even greet within this is not ready.
const GREETING_WITHIN: Duration = Duration::from_secs(2);

/// A free TCP port on loopback.
///
/// Holds the UDP port of the same number for as long as it lives: that is how runs side by side, which all take ports
/// by this type, never choose the same one between looking and starting the server, or between a kill and a restart.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UdpSocket,
}

impl Port {
    /// Claims a random free port.
    ///
    /// # Errors
    /// When none is free.
    pub fn claim() -> Result<Self> {
        let range = below_ephemeral();
        let candidates = iter::repeat_with(|| fastrand::u16(range.clone())).take(1_000);
        let mut claims = candidates.filter_map(|number| {
            let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
            TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
            Some(Self { number, _claim: claim })
        });
        claims.next().ok_or_else(|| Error::failed("no free port on 127.0.0.1"))
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Connects, with a limit on every read and write.
    pub(crate) fn connect(&self) -> io::Result<TcpStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.number));
        let stream = TcpStream::connect_timeout(&address, GREETING_WITHIN)?;
        stream.set_read_timeout(Some(GREETING_WITHIN))?;
        stream.set_write_timeout(Some(GREETING_WITHIN))?;
        Ok(stream)
    }
}

/// Outgoing connections take their ports from the ephemeral range; a server that is down would lose its port to one.
fn below_ephemeral() -> Range<u16> {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = setting.split_whitespace().next().and_then(|lowest| lowest.parse().ok());
    match lowest {
        Some(lowest) if lowest > 20_000 => 15_000..lowest,
        _ => 15_000..32_768,
    }
}
