//! What operators do with the rows of a table.

/// What a command does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// Terminal rows are pending again, with a fresh budget; those that became due since a moment, by this very command, are not
    /// meant.
    Again,
    /// Pending rows are dead, with this error.
    Bury,
    /// Dead rows are given up: their error says so. For everybody else they stay dead.
    Discard,
    /// Pending rows are due at this moment.
    Schedule,
}
