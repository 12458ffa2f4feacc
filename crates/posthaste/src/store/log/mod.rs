//! The log engine's commands, over a driver for each database.
//!
//! [`command`](command::carry_out) knows which commands there are, what they demand, in which steps they go
//! and what their record says. A [`Driver`](driver::LogDriver) takes one step in one transaction. Which
//! events a step means, and how totals change, say the pure rules of `posthaste_core::log`.
//!
//! Reading stays with each database: a claim, a settle, `find` and the lanes' totals are statements in one
//! snapshot, and a common form of them would hide what makes them fast.
//!
//! A seek or a skip moves a lane forward in steps. Each step counts exactly what the lane passes unread and
//! adds it to *accepted* and *discarded*, in the transaction that moves the place. So nothing is lost without
//! a record, and no transaction reads the whole log.

pub(in crate::store) mod command;
pub(in crate::store) mod driver;
pub(in crate::store) mod refusals;
