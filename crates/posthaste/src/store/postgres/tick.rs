//! Ticks: what was visible at a moment, noted once for all lanes by whoever finds something new.

use posthaste_core::sql::PostgresSql;
use posthaste_core::{Error, Result};
use tokio_postgres::{Client, Row};

use super::cursor::Cursor;
use super::error::{Db, explain};
use super::home::Home;
use super::probe::Probed;
use super::rows;
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
    pub(super) async fn next(&self, asking: &Asking<'_>, cursor: &Cursor, rows: u32) -> Result<Look> {
        let probe = &cursor.probe;
        let mut tries = 0;
        loop {
            let found = self.look(asking, probe.forces(), Some(cursor), rows).await?;
            probe.looked(found.tick.is_some(), found.probed);
            tries += 1;
            if found.tick.is_some() || !found.wanted || tries == TRIES_MAX {
                return Ok(found);
            }
        }
    }

    /// A tick that sees everything that had committed before this call.
    pub(super) async fn now(client: &Client, sql: &PostgresSql) -> Result<Self> {
        let asking = Asking { client, sql, home: &Home::default() };
        for _ in 0..TRIES_MAX {
            let found = Self::newest(client, sql).await?.look(&asking, true, None, 0).await?;
            // One of somebody else may have looked before we were asked.
            if let (Some(tick), true) = (found.tick, found.is_ours) {
                return Ok(tick);
            }
        }
        Err(Error::unavailable("too many others note what is visible at the same moment"))
    }

    async fn look(&self, asking: &Asking<'_>, force: bool, of: Option<&Cursor>, rows: u32) -> Result<Look> {
        let open: Vec<String> = self.snapshot.open.iter().map(u64::to_string).collect();
        let end = self.snapshot.xmax.to_string();
        let (lane, run) = (of.map(Cursor::lane), of.map(|cursor| cursor.run.as_str()));
        let (epoch, rows, since) = (of.map(|cursor| cursor.epoch), i64::from(rows), asking.home.since());
        let values =
            args![self.id, self.token, end, open, force, lane, epoch, run, rows, self.low, self.text, since];
        let page = asking.client.query_typed(&asking.sql.tick, &values).await.map_err(explain)?;
        let found = page.first().ok_or_else(|| Error::corrupt("a look was answered without a row"))?;
        self.check(asking, found)?;
        let tick = found.try_get::<_, Option<i64>>(TICK).map_err(explain)?;
        let tick = tick.map(|_| Self::read(found, TICK)).transpose()?;
        Look::read(tick, page).map_err(explain)
    }

    /// Refuses the answer of a server that is not the one on which this tick was read.
    fn check(&self, asking: &Asking<'_>, found: &Row) -> Result<()> {
        let read = || -> Db<(bool, i64, i64)> {
            Ok((found.try_get("is_home")?, found.try_get("known")?, found.try_get("home_since")?))
        };
        let (is_home, known, since) = read().map_err(explain)?;
        if !is_home {
            return Err(Error::unavailable(
                "the connection leads to another server or database than before; the relay takes the lane again \
                 when it has checked that one",
            ));
        }
        asking.home.runs_since(since);
        if known == 0 {
            return Err(Error::unavailable(format!(
                "the server does not know tick {}: it is not the one it was",
                self.id
            )));
        }
        Ok(())
    }
}

/// The column with the number of a tick, which its token, its snapshot and low follow.
const TICK: usize = rows::MORE + 3;

/// Where a look is made.
pub(super) struct Asking<'a> {
    pub(super) client: &'a Client,
    pub(super) sql: &'a PostgresSql,
    pub(super) home: &'a Home,
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
    /// What the look saw, and the transaction id that it took itself.
    pub(super) seen: Option<Snapshot>,
    pub(super) own_id: Option<u64>,
    /// The first page of what the tick sees, if the look brought it.
    pub(super) page: Vec<Row>,
}

impl Look {
    fn read(tick: Option<Tick>, page: Vec<Row>) -> Db<Self> {
        let found = &page[0];
        let waiting = found.try_get::<_, Option<Vec<Option<i64>>>>(rows::MORE)?;
        let own_id: Option<&str> = found.try_get("own_id")?;
        let is_paged: bool = found.try_get("is_paged")?;
        let mut look = Self {
            tick,
            wanted: found.try_get::<_, i64>("wanted")? > 0,
            is_ours: found.try_get::<_, Option<bool>>("is_made")? == Some(true),
            probed: Probed { ids_moved: found.try_get("ids_moved")?, micros: found.try_get("micros")? },
            is_waiting: waiting.map(|about| about.first().copied().flatten() > Some(0)),
            seen: Snapshot::parse(found.try_get("seen")?),
            own_id: own_id.and_then(|id| id.parse().ok()),
            page: Vec::new(),
        };
        if is_paged {
            look.page = page;
        }
        Ok(look)
    }

    /// Whether the lane needs nothing but what this look found, up to the moment of the look.
    pub(super) fn says_all(&self) -> bool {
        let has_newest = self.is_ours || (self.tick.is_none() && !self.wanted);
        has_newest && self.is_waiting == Some(false)
    }
}
