//! RabbitMQ as a target, against a real broker.

pub(crate) mod alarm;
pub(crate) mod broken;
pub(crate) mod bus;
pub(crate) mod crowd;
pub(crate) mod killed;
pub(crate) mod limits;
pub(crate) mod line;
pub(crate) mod refused;
pub(crate) mod routing;
pub(crate) mod silent;
pub(crate) mod stand;
pub(crate) mod tls;
pub(crate) mod wire;
