//! NATS as a target and a broker, against a real server.

pub(crate) mod beside;
pub(crate) mod broken;
pub(crate) mod consuming;
pub(crate) mod dead;
pub(crate) mod duplicates;
pub(crate) mod killed;
pub(crate) mod line;
pub(crate) mod older;
pub(crate) mod refused;
pub(crate) mod seen;
pub(crate) mod stand;
pub(crate) mod tls;
