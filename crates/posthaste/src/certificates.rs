//! The certificates of servers that this process has met: for whoever wants to know how long they are valid.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many servers are remembered.
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis", feature = "postgres"))]
const SERVERS_MAX: usize = 64;

/// The last certificate of each server, by the name under which it was asked for.
static MET: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Every server that a verified connection was made to, by the name under which it was asked for, with its certificate in DER. Not those
/// of MariaDB, whose driver does not show them.
pub fn met() -> Vec<(String, Vec<u8>)> {
    let met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    met.iter().map(|(name, certificate)| (name.clone(), certificate.clone())).collect()
}

/// Remembers the certificate of a server.
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis", feature = "postgres"))]
pub(crate) fn note(name: &str, certificate: &[u8]) {
    let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
    if met.len() < SERVERS_MAX || met.contains_key(name) {
        met.insert(name.to_owned(), certificate.to_vec());
    }
}
