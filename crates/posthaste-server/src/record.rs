//! The record of what was done to the dead letters of a broker: in the store, else on stderr.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use posthaste::admin::{Actor, Admin, Applied, Command, Filter, Pace};
use posthaste::review::{AuditEntry, PART, PARTS, RUN, new_run, recorded};
use posthaste::schema::Backend;
use posthaste::telemetry::AUDIT_TARGET;
use posthaste::time::Timestamp;
use posthaste::{Error, Result};
use serde_json::{Map, Value};

use crate::config::{self, Config};

/// Keeps the record: a broker has no place for one.
pub(crate) struct Keeper {
    place: Place,
    /// The name of a target, or the broker's address without who may enter.
    broker: String,
}

/// Where the record is.
enum Place {
    /// In the configured store, which is opened when it is needed.
    Configured(Arc<Config>),
    /// In this store.
    Open(Arc<dyn Backend>),
}

impl Keeper {
    /// Keeps it in the configured store. The broker is a target's name or a URL.
    pub(crate) fn new(config: Arc<Config>, broker: &str) -> Self {
        Self { place: Place::Configured(config), broker: without_credentials(broker) }
    }

    /// Keeps it in this store.
    pub(crate) fn within(store: Arc<dyn Backend>, broker: &str) -> Self {
        Self { place: Place::Open(store), broker: without_credentials(broker) }
    }

    /// Carries a command out at the broker. It leaves a record before its first step, so that one that is broken off is not one that
    /// nobody gave, and one with what it did, also if it failed. They have a run in common, and a reader sees them as one.
    pub(crate) async fn apply(
        &self,
        admin: &dyn Admin,
        filter: &Filter,
        command: Command,
        by: &Actor,
        pace: &Pace<'_>,
    ) -> Result<Applied> {
        if command.is_dry_run() {
            return admin.apply(filter, command, by, pace).await;
        }
        let entry = |what: &[(&str, Value)], applied| self.entry(filter, &command, by, what, applied);
        let run = new_run();
        let begun = entry(&[(RUN, run.as_str().into()), (PART, 1.into())], Applied::default());
        let store = self.begin(&begun).await;
        if let Err(error) = &store {
            say(&begun, error);
        }
        let (last, is_stopped) = (Mutex::new(Applied::default()), AtomicBool::new(false));
        let so_far = |done: Applied| {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = done;
            let goes_on = (pace.so_far())(done);
            is_stopped.fetch_or(goes_on.is_break(), Ordering::SeqCst);
            goes_on
        };
        let watched = Pace::telling(&so_far).at_most(pace.per_second());
        let done = admin.apply(filter, command.clone(), by, &watched).await;
        let (applied, failed) = match &done {
            Ok(applied) => (*applied, None),
            Err(error) => (*last.lock().unwrap_or_else(PoisonError::into_inner), Some(error.to_string())),
        };
        let mut what = vec![(RUN, Value::from(run)), (PARTS, 2.into())];
        if failed.is_some() || is_stopped.load(Ordering::SeqCst) {
            what.push(("stopped", true.into()));
        }
        what.extend(failed.map(|failed| ("failed", failed.into())));
        self.end(store, &entry(&what, applied)).await;
        done
    }

    /// Opens the store and writes the first record; otherwise answers why that cannot be.
    async fn begin(&self, entry: &AuditEntry) -> Result<Arc<dyn Backend>> {
        let store = match &self.place {
            Place::Configured(config) => config::store::open_existing(config).await?,
            Place::Open(store) => Arc::clone(store),
        };
        match store.record(entry).await? {
            true => Ok(store),
            false => Err(Error::rejected(
                "the store has no table for it, which posthaste migrate print --audit shows",
            )),
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
    use posthaste::admin::{Found, Lanes, Page};
    use posthaste::review::AuditFilter;

    use super::*;

    /// Three dead letters, of which the last may not be moved.
    struct Letters {
        fails: bool,
    }

    impl Admin for Letters {
        fn lanes(&self, _: Page) -> BoxFuture<'_, Result<Lanes>> {
            Box::pin(async { Ok(Lanes::default()) })
        }

        fn find<'a>(&'a self, _: &'a Filter, _: Page) -> BoxFuture<'a, Result<Found>> {
            Box::pin(async { Ok(Found::default()) })
        }

        fn apply<'a>(
            &'a self,
            _: &'a Filter,
            _: Command,
            _: &'a Actor,
            pace: &'a Pace<'a>,
        ) -> BoxFuture<'a, Result<Applied>> {
            Box::pin(async move {
                if !self.fails {
                    return Ok(Applied::new(3, 3));
                }
                let _ = pace.after(Applied::new(2, 2)).await;
                Err(Error::unavailable("the broker is away"))
            })
        }
    }

    /// Redrives with a record in a store of its own; answers what a reader sees of that.
    async fn recorded_in_a_store(letters: Letters) -> AuditEntry {
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
        assert_eq!(entries.len(), 1, "two records are seen as one: {entries:?}");
        entries.remove(0)
    }

    #[tokio::test]
    async fn what_is_done_at_a_broker_is_in_the_record_of_the_store() {
        let entry = recorded_in_a_store(Letters { fails: false }).await;
        assert_eq!((entry.command.as_str(), entry.actor.name.as_str()), ("redrive", "eve"));
        assert_eq!((entry.applied.changed, entry.was_stopped()), (3, false));
        let filter: Value = serde_json::from_str(&entry.filter).unwrap();
        assert_eq!((&filter["group"], &filter["broker"]), (&"mail".into(), &"amqp://mq/shop".into()));
        assert_eq!(filter[PARTS], 2);
    }

    #[tokio::test]
    async fn what_fails_half_way_at_a_broker_is_in_the_record_too() {
        let entry = recorded_in_a_store(Letters { fails: true }).await;
        assert!(entry.was_stopped() && entry.filter.contains("the broker is away"), "{}", entry.filter);
        assert_eq!(entry.applied.changed, 2);
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
            ("shop", "shop"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }
}
