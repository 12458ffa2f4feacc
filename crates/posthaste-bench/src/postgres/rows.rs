//! The engine that the log is compared with: a status and a lease in every row, as most outbox relays have it.
//!
//! One UPDATE … FOR UPDATE SKIP LOCKED claims and returns a page, one UPDATE settles. It is written to be fast: prepared
//! statements, a connection each for claims and settles, a partial index on what is to be claimed, and no search for
//! expired leases in a claim (an acquisition gives those back).

use std::sync::Arc;
use std::time::Duration;

use posthaste::lane::LaneSpec;
use posthaste::store::{
    Claimed, Lease, Outcome, Owner, Parcel, Room, Settled, Standing, Store, Then, Ticket,
};
use posthaste::time::Timestamp;
use posthaste::{BoxFuture, Error, Result};
use posthaste_core::sql::StoredEvent;
use posthaste_terminal::exit::Failure;
use tokio_postgres::{Client, Row, Statement};

use super::tables::{connect, failed};

const MAKE: &str = "CREATE TABLE IF NOT EXISTS bench_rows (
    seq bigint PRIMARY KEY, status smallint NOT NULL DEFAULT 0, token text, lease_until timestamptz,
    event_id text NOT NULL, source text NOT NULL, event_type text NOT NULL, topic text, key text, subject text,
    schema_version bigint NOT NULL, content_type text NOT NULL, headers jsonb NOT NULL, occurred_at timestamptz NOT NULL,
    available_at timestamptz, expires_at timestamptz, created_at timestamptz NOT NULL, payload bytea);
CREATE INDEX IF NOT EXISTS bench_rows_pending ON bench_rows (seq) WHERE status = 0;
TRUNCATE bench_rows;
INSERT INTO bench_rows SELECT seq, 0, NULL, NULL, event_id, source, event_type, topic, key, subject, schema_version,
    content_type, headers, occurred_at, available_at, expires_at, created_at, payload FROM bench_events ORDER BY seq";
const TIDY: &str = "VACUUM ANALYZE bench_rows";

/// 0: to be sent, 1: leased, 2: sent, 3: dead.
const CLAIM: &str = "WITH picked AS (
        SELECT seq FROM bench_rows WHERE status = 0 ORDER BY seq LIMIT $1 FOR UPDATE SKIP LOCKED)
    UPDATE bench_rows r SET status = 1, token = $2, lease_until = clock_timestamp() + $3 * interval '1 millisecond'
    FROM picked WHERE r.seq = picked.seq
    RETURNING r.seq, r.event_id, r.source, r.event_type, r.topic, r.key, r.subject, r.schema_version, r.content_type,
              r.headers::text, (extract(epoch FROM r.occurred_at) * 1e6)::bigint,
              (extract(epoch FROM r.created_at) * 1e6)::bigint, r.payload";
const SETTLE: &str = "UPDATE bench_rows SET status = $1 WHERE seq = ANY ($2) AND token = $3 AND status = 1";
const GIVE_BACK: &str =
    "UPDATE bench_rows SET status = 0 WHERE status = 1 AND (token = $1 OR lease_until < clock_timestamp())";

const SENT: i16 = 2;

/// A store whose rows carry their leases.
pub(super) struct RowStore {
    claims: Client,
    settles: Client,
    claim: Statement,
    settle: Statement,
}

/// What a lease carries.
struct Token(String);

impl RowStore {
    /// Fills the table anew with the whole log: every round begins with the same rows.
    pub(super) async fn refill(url: &str, client: &Client) -> std::result::Result<Self, Failure> {
        client.batch_execute(MAKE).await.map_err(failed("fill the table of rows"))?;
        client.batch_execute(TIDY).await.map_err(failed("tidy the table of rows"))?;
        let (claims, settles) = (connect(url).await?, connect(url).await?);
        let claim = claims.prepare(CLAIM).await.map_err(failed("prepare a claim of rows"))?;
        let settle = settles.prepare(SETTLE).await.map_err(failed("prepare a settle of rows"))?;
        Ok(Self { claims, settles, claim, settle })
    }

    async fn take(&self, lease: &Lease, room: Room) -> Result<Vec<Claimed>> {
        let token = token(lease)?;
        let (events, millis) =
            (i64::from(room.events), i32::try_from(lease.length().as_millis()).unwrap_or(i32::MAX));
        let rows = self
            .claims
            .query(&self.claim, &[&events, &token, &f64::from(millis)])
            .await
            .map_err(unavailable)?;
        let mut claimed = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
        // An UPDATE answers in the order in which it came by the rows.
        claimed.sort_by_key(|claimed| claimed.ticket);
        Ok(claimed)
    }

    async fn record(&self, lease: &Lease, outcomes: Vec<Settled>, then: Then) -> Result<Standing> {
        let token = token(lease)?;
        for (status, seqs) in by_status(outcomes) {
            if !seqs.is_empty() {
                self.settles.execute(&self.settle, &[&status, &seqs, &token]).await.map_err(unavailable)?;
            }
        }
        if matches!(then, Then::GiveUp | Then::Retire(_)) {
            self.settles.execute(GIVE_BACK, &[&token]).await.map_err(unavailable)?;
        }
        Ok(Standing::Held)
    }
}

/// What is to be sent again, what was sent, and what is dead.
fn by_status(outcomes: Vec<Settled>) -> [(i16, Vec<i64>); 3] {
    let mut all = [(0, Vec::new()), (SENT, Vec::new()), (3, Vec::new())];
    for Settled { ticket, outcome, .. } in outcomes {
        let index = match outcome {
            Outcome::Delivered => 1,
            Outcome::Dead { .. } => 2,
            // Still out: its answer follows.
            Outcome::Slow => continue,
            _ => 0,
        };
        all[index].1.push(ticket.0);
    }
    all
}

fn token(lease: &Lease) -> Result<&String> {
    lease
        .cursor::<Token>()
        .map(|token| &token.0)
        .ok_or_else(|| Error::config("the lease is of another store"))
}

fn unavailable(error: tokio_postgres::Error) -> Error {
    Error::unavailable("the database did not do it").because(error)
}

fn read(row: &Row) -> Result<Claimed> {
    let event = || -> std::result::Result<_, tokio_postgres::Error> {
        let stored = StoredEvent {
            id: row.try_get(1)?,
            source: row.try_get(2)?,
            event_type: row.try_get(3)?,
            topic: row.try_get(4)?,
            key: row.try_get(5)?,
            subject: row.try_get(6)?,
            version: u32::try_from(row.try_get::<_, i64>(7)?).unwrap_or(1),
            content_type: row.try_get(8)?,
            headers: StoredEvent::headers(row.try_get(9)?),
            payload: row.try_get::<_, Option<Vec<u8>>>(12)?.unwrap_or_default(),
            occurred_at: Timestamp::from_micros(row.try_get(10)?),
            available_at: None,
            expires_at: None,
        };
        let stored_at = Timestamp::from_micros(row.try_get(11)?);
        let parcel = Parcel::new(Arc::new(stored.into_envelope()), 1, false, stored_at);
        Ok(Claimed::new(Ticket(row.try_get(0)?), parcel))
    };
    event().map_err(|error| Error::corrupt("a row cannot be read").because(error))
}

impl Store for RowStore {
    fn acquire<'a>(&'a self, lane: &'a LaneSpec, _: &'a Owner) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(async move {
            let token = posthaste::envelope::fresh_id();
            self.settles.execute(GIVE_BACK, &[&token]).await.map_err(unavailable)?;
            Ok(Some(Lease::new(lane.name.clone(), 1, lane.lease, Token(token))))
        })
    }

    fn claim<'a>(&'a self, lease: &'a Lease, room: Room) -> BoxFuture<'a, Result<Vec<Claimed>>> {
        Box::pin(self.take(lease, room))
    }

    fn settle<'a>(
        &'a self,
        lease: &'a Lease,
        outcomes: Vec<Settled>,
        then: Then,
    ) -> BoxFuture<'a, Result<Standing>> {
        Box::pin(self.record(lease, outcomes, then))
    }

    fn wait<'a>(&'a self, _: &'a LaneSpec, at_most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(tokio::time::sleep(at_most.min(Duration::from_millis(5))))
    }
}
