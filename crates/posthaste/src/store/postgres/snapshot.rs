//! Which transactions a moment sees, read from the database's `pg_snapshot`.

/// A snapshot: ids below `xmin` have ended, those from `xmax` on had not begun, and of those between some were open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    xmin: u64,
    pub(super) xmax: u64,
    pub(super) open: Vec<u64>,
}

impl Snapshot {
    /// Reads `xmin:xmax:id,id,…`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let list = parts.next()?;
        let open = if list.is_empty() {
            Vec::new()
        } else {
            list.split(',').map(|id| id.parse().ok()).collect::<Option<_>>()?
        };
        Some(Self { xmin, xmax, open })
    }

    /// Whether it sees what this transaction did, if that committed.
    pub(super) fn sees(&self, id: u64) -> bool {
        id < self.xmin || (id < self.xmax && !self.open.contains(&id))
    }

    /// The transactions that the later one sees and this one does not, if they are at most this number of
    /// ids apart.
    pub(super) fn ended_until(&self, later: &Self, ids_max: u64) -> Option<Vec<u64>> {
        if later.xmax.checked_sub(self.xmax).is_none_or(|ids| ids > ids_max) {
            return None;
        }
        let ids = self.open.iter().copied().chain(self.xmax..later.xmax);
        Some(ids.filter(|id| later.sees(*id)).collect())
    }

    /// What was open here and has ended in the later one, as the database takes it.
    pub(super) fn ended_by(&self, later: &Self) -> Vec<String> {
        self.open.iter().filter(|id| later.sees(**id)).map(u64::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_sees_what_had_ended() {
        let earlier = Snapshot::parse("10:20:10,15").unwrap();
        assert!(
            earlier.sees(9)
                && earlier.sees(11)
                && !earlier.sees(10)
                && !earlier.sees(15)
                && !earlier.sees(20)
        );
        let later = Snapshot::parse("15:30:15").unwrap();
        assert_eq!(earlier.ended_by(&later), ["10"]);
        let soon = Snapshot::parse("15:22:15,20").unwrap();
        assert_eq!(earlier.ended_until(&soon, 2), Some(vec![10, 21]));
        assert_eq!((earlier.ended_until(&soon, 1), soon.ended_until(&earlier, 9)), (None, None));
        assert!(Snapshot::parse("3:3:").unwrap().open.is_empty());
        assert_eq!((Snapshot::parse("3:3"), Snapshot::parse("a:b:")), (None, None));
    }
}
