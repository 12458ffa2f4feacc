//! The rows of a table by state, as a database counted them.

use posthaste_core::time::Timestamp;

/// The rows of a table by state.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Counted {
    pub(in crate::store) fresh: u64,
    pub(in crate::store) waiting: u64,
    pub(in crate::store) delivered: u64,
    pub(in crate::store) dead: u64,
    pub(in crate::store) oldest_fresh_at: Option<Timestamp>,
    /// Of those that wait: failed at least once.
    pub(in crate::store) retried: u64,
    pub(in crate::store) oldest_retried_at: Option<Timestamp>,
    /// In a state that the profile does not name.
    pub(in crate::store) unknown: u64,
    /// Dead, and given up by an operator.
    pub(in crate::store) discarded: u64,
    /// Which of these are estimates.
    pub(in crate::store) estimated: Estimated,
    /// Something was not counted because no index finds it.
    pub(in crate::store) lacks_index: bool,
}

/// Which numbers of rows are estimates.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Estimated {
    /// Fresh and waiting.
    pub(in crate::store) open: bool,
    pub(in crate::store) delivered: bool,
    /// Dead and discarded.
    pub(in crate::store) dead: bool,
    pub(in crate::store) unknown: bool,
}

/// Rows of one state, as far as they were counted.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Few {
    pub(in crate::store) rows: u64,
    pub(in crate::store) fresh: u64,
    pub(in crate::store) given_up: u64,
    pub(in crate::store) oldest_fresh_at: Option<Timestamp>,
    pub(in crate::store) retried: u64,
    pub(in crate::store) oldest_retried_at: Option<Timestamp>,
    pub(in crate::store) is_estimate: bool,
    /// No index finds them.
    pub(in crate::store) lacks_index: bool,
}

/// Reads the numbers and times of a row in which a database counted, by the place of their columns.
pub(in crate::store) trait CountRow {
    /// Why a column cannot be read.
    type Error;

    fn number(&self, column: usize) -> Result<u64, Self::Error>;

    fn time(&self, column: usize) -> Result<Option<Timestamp>, Self::Error>;
}

impl Few {
    /// Rows of one state, of which at most so many were counted: more are at least so many.
    pub(in crate::store) fn read<R: CountRow>(row: &R, counted_max: u32) -> Result<Self, R::Error> {
        let rows = row.number(0)?;
        Ok(Self {
            rows,
            fresh: row.number(1)?,
            given_up: row.number(2)?,
            oldest_fresh_at: row.time(3)?,
            retried: row.number(4)?,
            oldest_retried_at: row.time(5)?,
            is_estimate: rows >= u64::from(counted_max),
            lacks_index: false,
        })
    }

    /// About so many rows, if not all were counted and there are more; of these the same share is fresh, given up or retried.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub(in crate::store) fn or_about(self, rows: u64) -> Self {
        if !self.is_estimate || rows <= self.rows || self.rows == 0 {
            return self;
        }
        let share = |of: u64| (u128::from(of) * u128::from(rows) / u128::from(self.rows)) as u64;
        Self {
            rows,
            fresh: share(self.fresh),
            given_up: share(self.given_up),
            retried: share(self.retried),
            ..self
        }
    }

    /// About so many rows, which nobody counted.
    #[cfg(feature = "postgres")]
    pub(in crate::store) fn about(rows: u64) -> Self {
        Self { rows, fresh: rows, is_estimate: true, lacks_index: true, ..Self::default() }
    }
}

impl Counted {
    /// A table that was counted as a whole.
    pub(in crate::store) fn read<R: CountRow>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            fresh: row.number(0)?,
            waiting: row.number(1)?,
            delivered: row.number(2)?,
            dead: row.number(3)?,
            oldest_fresh_at: row.time(4)?,
            unknown: row.number(5)?,
            discarded: row.number(6)?,
            retried: row.number(7)?,
            oldest_retried_at: row.time(8)?,
            ..Self::default()
        })
    }

    /// A long table: few rows are pending, delivering, dead or in an unknown state, and all others, of about so many, are delivered.
    pub(in crate::store) fn of_long(rows: u64, [pending, delivering, dead, unknown]: [Few; 4]) -> Self {
        let open = pending.rows + delivering.rows;
        let fresh = pending.fresh + delivering.fresh;
        let oldest = |of: fn(&Few) -> Option<Timestamp>| [pending, delivering].iter().filter_map(of).min();
        Self {
            fresh,
            waiting: open - fresh.min(open),
            delivered: rows.saturating_sub(open + dead.rows + unknown.rows),
            dead: dead.rows - dead.given_up.min(dead.rows),
            discarded: dead.given_up,
            unknown: unknown.rows,
            oldest_fresh_at: oldest(|few| few.oldest_fresh_at),
            retried: pending.retried + delivering.retried,
            oldest_retried_at: oldest(|few| few.oldest_retried_at),
            lacks_index: [pending, delivering, dead].iter().any(|few| few.lacks_index),
            estimated: Estimated {
                open: pending.is_estimate || delivering.is_estimate,
                delivered: true,
                dead: dead.is_estimate,
                unknown: unknown.is_estimate,
            },
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_like_what_was() {
        let counted = Few { rows: 10, fresh: 4, given_up: 0, retried: 6, ..Few::default() };
        let of = |few: Few| (few.rows, few.fresh, few.given_up, few.retried);
        assert_eq!(of(counted.or_about(1_000)), (10, 4, 0, 6), "all were counted");
        let capped = Few { is_estimate: true, ..counted };
        assert_eq!(of(capped.or_about(1_000)), (1_000, 400, 0, 600));
        assert_eq!(of(capped.or_about(9)), (10, 4, 0, 6), "so many were seen");
    }
}
