//! Which engine of the store is under test: the log, or an outbox table whose rows carry their state.

use std::sync::Arc;

use clap::ValueEnum;
use posthaste::schema::Backend;
use posthaste::store::{StoreOptions, TableOptions};
use posthaste::table::{Column, Profile, mysql_table_ddl};

use crate::Result;
use crate::base::{Base, Wire};
use crate::lanes::Which;

/// How events are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Appended once, read by every lane on its own.
    Log,
    /// Rows of an outbox table, with one lane that all relays share.
    Table,
}

/// What the producers write to; the columns that they fill have the names of the log's. Its times are those of a statement and not
/// of its transaction, or the events of a key would not be in the order of their transactions.
const TABLE: &str = "CREATE TABLE nemesis_outbox (
        event_id text PRIMARY KEY, event_type text NOT NULL, topic text NOT NULL, key text, payload bytea NOT NULL,
        sequence bigint GENERATED ALWAYS AS IDENTITY, created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        status text NOT NULL DEFAULT 'PENDING', attempts integer NOT NULL DEFAULT 0,
        available_at timestamptz NOT NULL DEFAULT clock_timestamp(), locked_by text, locked_at timestamptz,
        delivered_at timestamptz, last_error text);
    CREATE INDEX ON nemesis_outbox (available_at, created_at) WHERE status = 'PENDING';
    CREATE INDEX ON nemesis_outbox (locked_at) WHERE status = 'DELIVERING';
    CREATE INDEX ON nemesis_outbox (key, created_at) WHERE status IN ('PENDING', 'DELIVERING');";
/// The row invariants of the specification.
const INVARIANTS: &str = "ALTER TABLE nemesis_outbox
    ADD CHECK ((locked_at IS NOT NULL) = (status = 'DELIVERING')), ADD CHECK ((locked_by IS NOT NULL) = (status = 'DELIVERING')),
    ADD CHECK ((delivered_at IS NOT NULL) = (status = 'DELIVERED'))";

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
        if self == Self::Log {
            self.open(url).await?.migrate().await?;
            return Ok(());
        }
        let wire = Wire::connect(url, false).await?;
        match wire.base() {
            Base::Postgres => wire.say(TABLE).await?,
            Base::Mariadb => wire.say(&mysql_table_ddl(&self.profile()?)).await?,
        }
        wire.say(INVARIANTS).await
    }

    /// Opens the store.
    pub(crate) async fn open(self, url: &str) -> Result<Arc<dyn Backend>> {
        if self == Self::Log {
            return Ok(posthaste::store::open(url).await?);
        }
        let mut options = TableOptions::new(self.profile()?);
        options.attempts_max = ATTEMPTS_MAX;
        Ok(posthaste::store::open_table(url, options, StoreOptions::default()).await?)
    }

    fn profile(self) -> Result<Profile> {
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
        Ok(profile)
    }
}
