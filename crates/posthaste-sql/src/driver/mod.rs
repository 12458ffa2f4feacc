//! [`Tx`](crate::Tx), [`BlockingTx`](crate::BlockingTx) and [`Database`](crate::Database) for known drivers, a file each.
