//! The rules of the log engine that no database decides.
//!
//! Which events a command means, how a lane sees an event, how totals change, what becomes of what a lease
//! handed out. The stores ask these rules and carry out the answers with their own SQL.

pub mod change;
pub mod held;
pub mod parking;
pub mod question;
pub mod settled;
pub mod spec;
pub mod totals;
