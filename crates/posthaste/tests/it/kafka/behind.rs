//! A server behind a proxy. Clients of Kafka connect to what the brokers tell them, so the server must tell of the proxy.

use std::net::SocketAddr;

use posthaste_testkit::proxy::Proxy;
use tokio::runtime::Handle;

use super::stand::Stand;

/// A server that tells everybody to come by way of a proxy.
pub(crate) fn behind(trial: &str) -> Option<(Stand, Proxy)> {
    let mut proxy = None;
    let stand = Stand::private(trial, |settings| {
        let (_, rest) = settings.split_once("advertised.listeners=PLAINTEXT://").unwrap();
        let server = rest.lines().next().unwrap();
        let address: SocketAddr = server.parse().unwrap();
        let made = Handle::current().block_on(Proxy::in_front_of(address)).unwrap();
        let told = settings.replace(
            &format!("advertised.listeners=PLAINTEXT://{server}"),
            &format!("advertised.listeners=PLAINTEXT://{}", made.address()),
        );
        proxy = Some(made);
        told
    })?;
    Some((stand, proxy?))
}
