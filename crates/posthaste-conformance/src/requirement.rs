//! What the open-outbox specification asks for, in our own words, and by what document that holds which no run can decide.

/// One requirement.
pub(super) struct Requirement {
    pub(super) id: &'static str,
    pub(super) words: &'static str,
    /// Where it is written down, for what cannot be decided by running.
    pub(super) document: Option<&'static str>,
}

const fn runs(id: &'static str, words: &'static str) -> Requirement {
    Requirement { id, words, document: None }
}

const fn written(id: &'static str, words: &'static str, document: &'static str) -> Requirement {
    Requirement { id, words, document: Some(document) }
}

/// All of them, in the order of the report.
pub(super) const ALL: [Requirement; 39] = [
    runs("P1", "an event is committed with the change that caused it, or not at all"),
    runs("P2", "nothing is published before its commit, and what commits late is published too"),
    runs("P3", "id, type, payload, headers, keys and created_at never change"),
    runs("L1", "rows move along the allowed transitions only"),
    runs("L2", "a row is claimed before it is published, and only a pending row is claimed"),
    runs("L3", "no row is claimed before it is due"),
    runs("L4", "a claim says since when and for whom"),
    runs("L5", "what was acknowledged is delivered, with its time and without a lease"),
    runs("L6", "a failure and a lease that ends count one attempt, end the lease and say why"),
    runs("L7", "what is given up is dead, without a lease, and stays so"),
    runs("L8", "delivered and dead rows never move by themselves"),
    runs("L9", "a relay that lost its claim records nothing"),
    runs("L10", "a crash after the claim, or after publishing, loses nothing"),
    runs("S1", "a claim takes no more rows than its limit"),
    runs("S2", "outcomes that come at once leave every row in one valid state"),
    runs("S3", "delivered and dead rows stay readable and are not published again"),
    runs("S4", "relays side by side publish everything, and nothing twice without a fault"),
    runs("S5", "a row whose lease has ended is published by somebody else, and not before"),
    written(
        "S6",
        "the table holds no retry policy of its own",
        "docs/adopt-a-table.md, What happens to a row: the lane's retry settings decide",
    ),
    runs("U1", "one attempt sends once"),
    runs("U2", "nothing is delivered that the target has not acknowledged"),
    runs("U3", "payload and headers arrive as they were written"),
    runs("U4", "the partition key goes with the event"),
    runs("U5", "events that are sent at once do not mix, and a failure's reason is kept"),
    written(
        "U6",
        "no guarantee is implied that is not documented",
        "docs/adopt-a-table.md, What is guaranteed: what each target's yes is worth",
    ),
    written(
        "R1",
        "a failed attempt is retried by a documented policy with a documented end",
        "docs/adopt-a-table.md, What happens to a row; posthaste check --print, [lanes.\"*\".retry]",
    ),
    runs("R2", "retries wait, and longer each time"),
    written(
        "D1",
        "delivery is at least once",
        "docs/adopt-a-table.md, What is guaranteed: at least once; docs/handle-events.md: effects once by an inbox",
    ),
    runs("D2", "the event's id reaches whoever consumes it"),
    runs("O1", "in order per key: nothing passes an earlier event of its key, in hand or failed"),
    runs("O2", "the ordering key orders, whatever the partition key is"),
    runs("X1", "operators can look, and a look changes nothing"),
    runs("X2", "replay makes delivered and dead rows pending when asked, and they are published again"),
    runs("X3", "what an operator changes in a row is respected"),
    runs("X4", "rows that are stuck or fail again and again can be seen"),
    runs("X5", "a bulk replay keeps the order of a key"),
    runs("X6", "counts per state, outcomes, retries and delays can be measured"),
    runs("X7", "who did what is written down"),
    runs("X8", "nothing that an operator does loses an event"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_requirement_is_there_once() {
        let ids: BTreeSet<_> = ALL.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), ALL.len());
        let families = [('P', 3), ('L', 10), ('S', 6), ('U', 6), ('R', 2), ('D', 2), ('O', 2), ('X', 8)];
        for (family, count) in families {
            assert_eq!(ids.iter().filter(|id| id.starts_with(family)).count(), count, "{family}");
        }
    }
}
