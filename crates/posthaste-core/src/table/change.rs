//! What operators do with the rows of a table.

/// What a command does with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// Terminal rows are pending again, with a fresh budget; those that became due since a moment, by this very command, are not
    /// meant.
    Again,
    /// Pending rows are taken under this token, as a relay takes them: an owner's trigger may know no other way to death. Then they are
    /// buried.
    Bury,
    /// Dead rows are given up: their error says so. For everybody else they stay dead.
    Discard,
    /// Pending rows are due at this moment.
    Schedule,
}
