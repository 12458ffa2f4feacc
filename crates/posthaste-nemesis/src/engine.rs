//! Which engine of the store is under test: the log, or an outbox table whose rows carry their state.

use std::sync::Arc;

use clap::ValueEnum;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, TableOptions};
use posthaste::table::{Column, Profile};

use crate::Result;
use crate::lanes::Which;
use crate::truth::Direct;

/// How events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Appended once, read by every lane on its own.
    Log,
    /// Rows of an outbox table, with one lane that all relays share.
    Table,
}

/// What the producers write to; the columns that they fill have the names of the log's.
const TABLE: &str = "CREATE TABLE nemesis_outbox (
        event_id text PRIMARY KEY, event_type text NOT NULL, topic text NOT NULL, key text, payload bytea NOT NULL,
        sequence bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        status text NOT NULL DEFAULT 'PENDING', attempts integer NOT NULL DEFAULT 0,
        available_at timestamptz NOT NULL DEFAULT clock_timestamp(), locked_by text, locked_at timestamptz,
        delivered_at timestamptz, last_error text,
        CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')), CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
        CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED')));
    CREATE INDEX ON nemesis_outbox (available_at, created_at) WHERE status = 'PENDING';
    CREATE INDEX ON nemesis_outbox (locked_at) WHERE status = 'DELIVERING';
    CREATE INDEX ON nemesis_outbox (key, created_at) WHERE status IN ('PENDING', 'DELIVERING');";

/// More often than a run lets any row's lease end.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000;

impl Engine {
    /// The word for it on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Table => "table",
        }
    }

    /// The lanes that every relay drives.
    pub(crate) fn lanes(self) -> &'static [Which] {
        match self {
            Self::Log => &[Which::All, Which::Orders, Which::Slow],
            Self::Table => &[Which::Main],
        }
    }

    /// What producers insert into.
    pub(crate) fn events(self) -> &'static str {
        match self {
            Self::Log => "posthaste_events",
            Self::Table => "nemesis_outbox",
        }
    }

    /// Makes what the store needs.
    pub(crate) async fn make(self, url: &str) -> Result<()> {
        match self {
            Self::Log => drop(self.open(url).await?.migrate().await?),
            Self::Table => Direct::connect(url).await?.client.batch_execute(TABLE).await?,
        }
        Ok(())
    }

    /// Opens the store.
    pub(crate) async fn open(self, url: &str) -> Result<Arc<dyn Backend>> {
        if self == Self::Log {
            return Ok(posthaste::store::open(url).await?);
        }
        let mut profile = Profile::named("custom").ok_or("no custom profile")?.on(self.events().parse()?);
        for (column, name) in [
            (Column::Topic, "topic"),
            (Column::Key, "key"),
            (Column::Sequence, "sequence"),
            (Column::DeliveredAt, "delivered_at"),
            (Column::LastError, "last_error"),
        ] {
            profile = profile.with(column, name.parse()?);
        }
        let mut options = TableOptions::new(profile);
        options.attempts_max = ATTEMPTS_MAX;
        Ok(posthaste::store::open_table(url, options, StoreOptions::default()).await?)
    }
}
