//! The record of what was done to the dead letters of a broker: in the configured store, else on stderr.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste::admin::{Actor, Admin, Applied, Command, Filter, Pace};
use posthaste::review::{AuditEntry, recorded};
use posthaste::schema::Backend;
use posthaste::telemetry::AUDIT_TARGET;
use posthaste::time::Timestamp;
use posthaste::{Error, Result};
use serde_json::{Map, Value};

use crate::config::{self, Config};

/// Keeps the record: a broker has no place for one.
pub(super) struct Keeper {
    config: Arc<Config>,
    /// The broker's address without who may enter.
    broker: String,
}

impl Keeper {
    pub(super) fn new(config: Arc<Config>, url: &str) -> Self {
        Self { config, broker: without_credentials(url) }
    }

    /// Carries a command out at the broker. It leaves a record before its first step, so that one that is broken off is not one that
    /// nobody gave, and one with what it did, also if it failed.
    pub(super) async fn apply(
        &self,
        admin: &dyn Admin,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        if command.is_dry_run() {
            return admin.apply_paced(filter, command, by, pace).await;
        }
        let entry = |what: &[(&str, Value)], applied| self.entry(filter, &command, by, what, applied);
        let begun = entry(&[("part", "first".into())], Applied::default());
        let store = self.begin(&begun).await;
        let last = Mutex::new(Applied::default());
        let so_far = |done: Applied| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = done;
            (pace.so_far())(done)
        };
        let watched = Pace::telling(&so_far).at_most(pace.per_second());
        let done = admin.apply_paced(filter, command.clone(), by, &watched).await;
        let (applied, failed) = match &done {
            Ok(applied) => (*applied, None),
            Err(error) => (*last.lock().unwrap_or_else(PoisonError::into_inner), Some(error.to_string())),
        };
        let mut what = vec![("part", Value::from("rest"))];
        if let Some(failed) = failed {
            what.extend([("stopped", true.into()), ("failed", failed.into())]);
        }
        self.end(store, &entry(&what, applied)).await;
        done
    }

    /// Opens the store and writes the first record; otherwise answers why that cannot be.
    async fn begin(&self, entry: &AuditEntry) -> Result<Arc<dyn Backend>> {
        let store = config::store::open_existing(&self.config).await?;
        match store.record(entry).await? {
            true => Ok(store),
            false => Err(Error::rejected(format!(
                "the store has no table {}audit, which posthaste migrate print --audit shows",
                self.config.store.prefix
            ))),
        }
    }

    async fn end(&self, store: Result<Arc<dyn Backend>>, entry: &AuditEntry) {
        let kept = match store {
            Ok(store) => store.record(entry).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            say(entry, &error);
        }
    }

    fn entry(
        &self,
        filter: &Filter,
        command: &Command,
        by: &Actor,
        what: &[(&str, Value)],
        applied: Applied,
    ) -> AuditEntry {
        let mut fields: Map<String, Value> = recorded(filter, command);
        // At a broker it is a group.
        if let Some(group) = fields.remove("lane") {
            fields.insert("group".to_owned(), group);
        }
        fields.insert("broker".to_owned(), self.broker.clone().into());
        fields.extend(what.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let filter = Value::Object(fields).to_string();
        AuditEntry::new(0, Timestamp::default(), by.clone(), command.name(), filter, applied)
    }
}

/// Says on stderr, at every level, what no store keeps.
fn say(entry: &AuditEntry, error: &Error) {
    tracing::info!(
        target: AUDIT_TARGET,
        actor = entry.actor.name,
        via = entry.actor.via,
        verb = entry.command,
        filter = %entry.filter,
        changed = entry.applied.changed,
        "an operator's command; no configured store keeps its record: {error}"
    );
}

/// Scheme, host and path of a URL: neither who may enter nor settings. Of one that can be read in two ways only the scheme.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    if place.is_empty() || rest.contains('@') != place.contains('@') {
        return scheme.to_owned();
    }
    let place = place.trim_start_matches('/');
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use posthaste::BoxFuture;
    use posthaste::admin::{Found, LaneStats, Page};
    use posthaste::review::AuditFilter;

    use super::*;

    /// Three dead letters, of which the last may not be moved.
    struct Letters {
        fails: bool,
    }

    impl Admin for Letters {
        fn lanes(&self) -> BoxFuture<'_, Result<Vec<LaneStats>>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn find<'a>(&'a self, _: &'a Filter, _: Page) -> BoxFuture<'a, Result<Found>> {
            Box::pin(async { Ok(Found::default()) })
        }

        fn apply<'a>(&'a self, _: &'a Filter, _: Command, _: &'a Actor) -> BoxFuture<'a, Result<Applied>> {
            Box::pin(async { Ok(Applied::new(3, 3)) })
        }

        fn apply_paced<'a>(
            &'a self,
            filter: &'a Filter,
            command: Command,
            by: &'a Actor,
            pace: &'a Pace<'a>,
        ) -> BoxFuture<'a, Result<Applied>> {
            Box::pin(async move {
                if !self.fails {
                    return self.apply(filter, command, by).await;
                }
                let _ = pace.after(Applied::new(2, 2)).await;
                Err(Error::unavailable("the broker is away"))
            })
        }
    }

    /// Redrives with a record in a store of its own; answers what that keeps, the oldest first.
    async fn recorded_in_a_store(letters: Letters) -> Vec<AuditEntry> {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::defaults();
        config.store.url = format!("sqlite://{}", folder.path().join("x.db").display()).into();
        let config = Arc::new(config);
        let store = config::store::open(&config).await.unwrap();
        store.migrate().await.unwrap();
        let mut filter = Filter::default();
        filter.lane = Some("mail".parse().unwrap());
        let keeper = Keeper::new(config, "amqp://u:secret@mq/shop");
        let (by, fails) = (Actor::new("eve", "cli@desk"), letters.fails);
        let redrive = Command::Redrive { dry_run: false };
        let done = keeper.apply(&letters, &filter, redrive, &by, &Pace::full()).await;
        assert_eq!(done.is_err(), fails);
        let dry = Command::Redrive { dry_run: true };
        drop(keeper.apply(&letters, &filter, dry, &by, &Pace::full()).await);
        let mut entries = store.audited(&AuditFilter::default(), Page::first(9)).await.unwrap().entries;
        entries.reverse();
        entries
    }

    #[tokio::test]
    async fn what_is_done_at_a_broker_is_in_the_record_of_the_store() {
        let entries = recorded_in_a_store(Letters { fails: false }).await;
        let told: Vec<_> =
            entries.iter().map(|entry| (entry.is_first_part(), entry.applied.changed)).collect();
        assert_eq!(told, [(true, 0), (false, 3)]);
        for entry in &entries {
            assert_eq!((entry.command.as_str(), entry.actor.name.as_str()), ("redrive", "eve"));
            let filter: Value = serde_json::from_str(&entry.filter).unwrap();
            assert_eq!((&filter["group"], &filter["broker"]), (&"mail".into(), &"amqp://mq/shop".into()));
        }
    }

    #[tokio::test]
    async fn what_fails_half_way_at_a_broker_is_in_the_record_too() {
        let entries = recorded_in_a_store(Letters { fails: true }).await;
        assert_eq!(entries.len(), 2);
        assert!(entries[1].was_stopped() && entries[1].filter.contains("the broker is away"));
        assert_eq!(entries[1].applied.changed, 2);
    }

    #[test]
    fn a_broker_is_named_without_who_may_enter() {
        for (url, shown) in [
            ("amqp://user:p@ss@mq.example:5672/shop?heartbeat=5", "amqp://mq.example:5672/shop"),
            ("redis://localhost", "redis://localhost"),
            ("nats://token@a:4222", "nats://a:4222"),
            ("amqp://user:p/w@mq", "amqp://mq"),
            ("amqp://user:p?w@mq", "amqp"),
            ("kafka://a:9092?password=s@cret", "kafka"),
            ("odd", "odd"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }
}
