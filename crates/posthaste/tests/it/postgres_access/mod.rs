//! The way to a Postgres database: encrypted or refused, with as few rights as possible, given up half-way, and what is
//! said when it cannot be had. On real servers; those whose settings matter are private to their test.

pub(crate) mod dropped;
pub(crate) mod limits;
pub(crate) mod ordered;
pub(crate) mod private;
pub(crate) mod refused;
pub(crate) mod roles;
pub(crate) mod scope;
pub(crate) mod tls;
