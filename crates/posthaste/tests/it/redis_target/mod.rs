//! Redis as a target, against a real server.

pub(crate) mod broken;
pub(crate) mod killed;
pub(crate) mod refused;
pub(crate) mod stand;
pub(crate) mod tls;
pub(crate) mod wire;
