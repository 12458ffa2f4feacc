//! Ticks: what was visible at a moment, noted once for all lanes by whoever finds something new.

use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Row};

use super::cursor::{Cursor, SHARD};
use super::error::{Db, explain};
use super::probe::Probed;
use super::snapshot::Snapshot;
use super::value::args;

/// How often a tick is tried again when somebody else makes one at the same moment.
const TRIES_MAX: u32 = 20;

/// One tick.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub(super) id: i64,
    pub(super) token: String,
    /// The snapshot as the database wrote it, to be handed back.
    pub(super) text: String,
    pub(super) snapshot: Snapshot,
    /// What committed late has numbers up to here.
    pub(super) low: i64,
}

impl Tick {
    /// Reads number, token, snapshot and low from this column on.
    fn read(row: &Row, first: usize) -> Result<Self> {
        let read = || -> Db<_> {
            let text: String = row.try_get(first + 2)?;
            Ok((row.try_get(first)?, row.try_get(first + 1)?, text, row.try_get(first + 3)?))
        };
        let (id, token, text, low) = read().map_err(explain)?;
        let snapshot = Snapshot::parse(&text)
            .ok_or_else(|| Error::corrupt(format!("tick {id} holds no snapshot that can be read")))?;
        Ok(Self { id, token, text, snapshot, low })
    }

    /// The newest tick.
    pub(super) async fn newest(client: &Client, sql: &PostgresSql) -> Result<Self> {
        let row = client.query_typed_opt(&sql.tick_newest, &[]).await.map_err(explain)?;
        row.map(|row| Self::read(&row, 0))
            .transpose()?
            .ok_or_else(|| Error::corrupt("the table of ticks is empty; it must hold tick 0"))
    }

    /// Ticks by their numbers, as far as they are there.
    pub(super) async fn by_id(client: &Client, sql: &PostgresSql, ids: Vec<i64>) -> Result<Vec<Self>> {
        let rows = client.query_typed(&sql.tick_get, &args![ids]).await.map_err(explain)?;
        rows.iter().map(|row| Self::read(row, 0)).collect()
    }

    /// Looks for the newest tick after this one, which is made now if there is something new, or if the probe
    /// says that it is time (no tick: nothing is new), and whether something waits in the cursor's lane.
    ///
    /// Its own statement and never part of a transaction: a snapshot of a transaction that wrote sees its own id.
    ///
    /// # Errors
    /// `Unavailable` when the server does not know this tick: it lost its last moments, or is another one.
    pub(super) async fn next(&self, client: &Client, sql: &PostgresSql, cursor: &Cursor) -> Result<Look> {
        let probe = &cursor.probe;
        let mut tries = 0;
        loop {
            let found = self.look(client, sql, probe.forces(), Some(cursor)).await?;
            probe.looked(found.tick.is_some(), found.probed);
            tries += 1;
            if found.tick.is_some() || !found.wanted || tries == TRIES_MAX {
                return Ok(found);
            }
        }
    }

    /// A tick that sees everything that had committed before this call.
    pub(super) async fn now(client: &Client, sql: &PostgresSql) -> Result<Self> {
        for _ in 0..TRIES_MAX {
            let found = Self::newest(client, sql).await?.look(client, sql, true, None).await?;
            // One of somebody else may have looked before we were asked.
            if let (Some(tick), true) = (found.tick, found.is_ours) {
                return Ok(tick);
            }
        }
        Err(Error::unavailable("too many others note what is visible at the same moment"))
    }

    async fn look(
        &self,
        client: &Client,
        sql: &PostgresSql,
        force: bool,
        of: Option<&Cursor>,
    ) -> Result<Look> {
        let open: Vec<String> = self.snapshot.open.iter().map(u64::to_string).collect();
        let end = self.snapshot.xmax.to_string();
        let (lane, run) = (of.map(Cursor::lane), of.map(|cursor| cursor.run.as_str()));
        let epoch = of.map(|cursor| cursor.epoch);
        let values = args![self.id, self.token, end, open, force, lane, SHARD, epoch, run];
        let row = client.query_typed_one(&sql.tick, &values).await.map_err(explain)?;
        let read = || -> Db<(i64, i64, Option<i64>, Option<bool>)> {
            Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(6)?))
        };
        let (known, wanted, id, is_ours) = read().map_err(explain)?;
        let probed = || Ok(Probed { ids_moved: row.try_get(8)?, micros: row.try_get(9)? });
        let probed = probed().map_err(explain)?;
        if !row.try_get::<_, bool>(11).map_err(explain)? {
            return Err(Error::unavailable(
                "the connection leads to another server or database than before; the relay takes the lane again \
                 when it has checked that one",
            ));
        }
        if known == 0 {
            return Err(Error::unavailable(format!(
                "the server does not know tick {}: it is not the one it was",
                self.id
            )));
        }
        let tick = id.map(|_| Self::read(&row, 2)).transpose()?;
        let is_waiting = row.try_get(10).map_err(explain)?;
        Ok(Look { tick, wanted: wanted > 0, is_ours: is_ours == Some(true), probed, is_waiting })
    }
}

/// What one look found.
pub(super) struct Look {
    pub(super) tick: Option<Tick>,
    /// There is something new, so that a tick must come of it.
    wanted: bool,
    /// The tick was made by this look, so nothing older is behind it.
    pub(super) is_ours: bool,
    probed: Probed,
    /// Whether something waits in the lane for which somebody looked; `None`: its lease is over.
    pub(super) is_waiting: Option<bool>,
}
