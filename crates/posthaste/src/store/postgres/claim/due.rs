//! Parked events whose time has come, what waits behind them, and which keys they hold.

use posthaste_core::log::held::ToPark;
use tokio_postgres::{Row, Transaction};

use super::super::error::Db;
use super::super::rows;
use super::super::value::{Stamp, args};
use super::Claim;

/// How many rows are looked at together, so that they never take much memory.
const ROWS_MAX: u32 = 1_000;

/// What became of one parked event.
#[derive(PartialEq, Eq)]
enum Handed {
    Yes,
    /// It expired.
    Not,
    NoRoom,
}

impl Claim<'_> {
    /// Hands out what is due.
    pub(super) async fn hand_out_due(&mut self, tx: &Transaction<'_>) -> Db<()> {
        if !self.waiting || self.limit.events == 0 {
            return Ok(());
        }
        let out: Vec<i64> = self.out.iter().copied().collect();
        let (lane, limit) = (self.cursor.lane(), i64::from(self.limit.events.min(ROWS_MAX)));
        let due = tx.query_typed(&self.sql.due, &args![lane, Stamp(self.now), out, limit]).await?;
        self.look_up_keys(tx, &due).await?;
        for row in &due {
            let seq: i64 = row.try_get(0)?;
            if self.is_out(seq) {
                continue;
            }
            if self.hand_out_parked(tx, row).await? == Handed::NoRoom {
                return Ok(());
            }
            if let Some(key) = self.heads(row)?
                && self.followers(tx, seq, &key).await? == Handed::NoRoom
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_out(&self, seq: i64) -> bool {
        self.out.contains(&seq) || self.found.parked.contains(&seq)
    }

    async fn hand_out_parked(&mut self, tx: &Transaction<'_>, row: &Row) -> Db<Handed> {
        let seq: i64 = row.try_get(0)?;
        if rows::maybe_time(row, rows::EXPIRES_AT)?.is_some_and(|at| at <= self.now) {
            self.found.parked.insert(seq);
            self.found.to_park.push(ToPark::expired_again(seq));
            return Ok(Handed::Not);
        }
        let attempts: i64 = row.try_get(rows::MORE + 1)?;
        let replay = row.try_get(rows::MORE + 2)?;
        if self.is_full() {
            return Ok(Handed::NoRoom);
        }
        let Some(event) = self.whole(tx, row).await? else { return Ok(Handed::NoRoom) };
        self.found.parked.insert(seq);
        self.push(event, u32::try_from(attempts).unwrap_or(u32::MAX).saturating_add(1), replay);
        Ok(Handed::Yes)
    }

    /// The key that this parked event is the first of, so that what waits behind it may come along.
    fn heads(&self, row: &Row) -> Db<Option<String>> {
        let Some(key) = row.try_get::<_, Option<String>>(rows::KEY)? else { return Ok(None) };
        let (seq, state): (i64, &str) = (row.try_get(0)?, row.try_get(rows::MORE)?);
        let replay: bool = row.try_get(rows::MORE + 2)?;
        let heads = self.cursor.is_ordered() && !replay && state != "scheduled" && !self.is_held(&key, seq);
        Ok(heads.then_some(key))
    }

    /// Hands out what waits right behind a head, in order: a long queue of one key drains at speed when it comes out
    /// together. The relay never has two events of one key in flight, and puts the rest behind again if the head fails.
    async fn followers(&mut self, tx: &Transaction<'_>, head: i64, key: &str) -> Db<Handed> {
        let left = i64::from(self.limit.events) - self.answer.len() as i64;
        if left <= 0 {
            return Ok(Handed::NoRoom);
        }
        let (lane, blocks) = (self.cursor.lane(), self.cursor.blocks_on_dead() && self.dead);
        let limit = left.min(i64::from(ROWS_MAX));
        let behind = tx.query_typed(&self.sql.followers, &args![lane, key, head, blocks, limit]).await?;
        for row in &behind {
            if row.try_get::<_, &str>(rows::MORE)? != "behind" || self.is_out(row.try_get(0)?) {
                break;
            }
            if self.hand_out_parked(tx, row).await? == Handed::NoRoom {
                return Ok(Handed::NoRoom);
            }
        }
        Ok(Handed::Yes)
    }

    /// Looks up what holds the keys of these rows. Asks nothing while the lane has nothing parked, and each key once.
    pub(super) async fn look_up_keys(&mut self, tx: &Transaction<'_>, rows: &[Row]) -> Db<()> {
        let asks_dead = self.dead && self.cursor.blocks_on_dead();
        if !self.cursor.is_ordered() || (!self.waiting && !asks_dead) {
            return Ok(());
        }
        let mut keys: Vec<String> = Vec::new();
        for row in rows {
            if let Some(key) = row.try_get::<_, Option<&str>>(rows::KEY)?
                && !self.keys_held.contains_key(key)
            {
                self.keys_held.insert(key.to_owned(), i64::MAX);
                keys.push(key.to_owned());
            }
        }
        if keys.is_empty() {
            return Ok(());
        }
        for row in tx.query_typed(&self.sql.keys_first, &args![self.cursor.lane(), keys, asks_dead]).await? {
            self.keys_held.insert(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(())
    }

    /// Whether an event of this key before this one is parked in a way that makes it wait.
    pub(super) fn is_held(&self, key: &str, seq: i64) -> bool {
        self.keys_held.get(key).is_some_and(|&first| first < seq)
    }
}
