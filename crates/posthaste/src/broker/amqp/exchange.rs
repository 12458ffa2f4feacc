//! The exchanges that events are published to: looked for, and created where that was asked for
//! (`create_exchange=true`).
//!
//! An exchange is looked for before the first event that goes to it, and again when the broker says that it
//! is missing. It is only created if it is not there: an exchange of another type takes events too, and its
//! owner knows why.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt as _, stream};
use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use posthaste_core::{Error, Result};
use tokio::time::timeout;

use super::AmqpBroker;
use super::link::{Refusal, refusal, told};

/// The number of names that are remembered, at most; beyond them an exchange is looked for again.
const NAMES_MAX: usize = 10_000;
/// The number of exchanges that are looked for at once, at most; each takes a channel.
const AT_ONCE: usize = 16;

/// The exchanges that are known to be there.
#[derive(Debug, Default)]
pub(super) struct Exchanges(Mutex<HashSet<String>>);

impl Exchanges {
    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, name: &str) {
        let mut names = self.names();
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(name.to_owned());
    }

    /// The broker says that this one is missing.
    pub(super) fn lost(&self, name: &str) {
        self.names().remove(name);
    }
}

impl AmqpBroker {
    /// Creates those of these exchanges that are missing, if that was asked for, within the time that a
    /// confirm may take. Answers which are not there, each with the reason.
    pub(super) async fn create_missing<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<(String, Error)> {
        if !self.settings.publishing.create_exchange {
            return Vec::new();
        }
        // Each with the reason why it is not there, once that is known.
        let mut absent: BTreeMap<String, Option<Error>> = {
            let known = self.exchanges.names();
            let unknown = names.filter(|name| !is_brokers(name) && !known.contains(*name));
            unknown.map(|name| (name.to_owned(), None)).collect()
        };
        let names: Vec<String> = absent.keys().cloned().collect();
        let creating = stream::iter(names).map(async |name| (self.create(&name).await, name));
        let mut creating = pin!(creating.buffer_unordered(AT_ONCE));
        let created = async {
            while let Some((created, name)) = creating.next().await {
                match created {
                    Ok(()) => absent.remove(&name),
                    Err(error) => absent.insert(name, Some(error)),
                };
            }
        };
        let within = self.settings.publishing.confirm_timeout;
        // What took longer than this is still absent.
        let _ = timeout(within, created).await;
        let late = || Error::unavailable(format!("the broker did not answer within {within:?}"));
        let why = |(name, error): (String, Option<Error>)| {
            let error = error.unwrap_or_else(late).during(format!("create the exchange {name:?}"));
            (name, error)
        };
        absent.into_iter().map(why).collect()
    }

    /// Creates this exchange if it is missing.
    ///
    /// # Errors
    /// `Unavailable` with the reason.
    pub(super) async fn create(&self, name: &str) -> Result<()> {
        if self.look_for(name).await?.is_some() {
            let kind = ExchangeKind::Custom(self.settings.consuming.exchange_type.clone());
            self.declare(name, kind, false).await?.map_err(|error| match refusal(&error) {
                Some((Refusal::NotAllowed, words)) => {
                    Error::unavailable(format!("{words}; give the user of the URL the right to configure it"))
                }
                _ => told("declare it", &error),
            })?;
        }
        self.exchanges.found(name);
        Ok(())
    }

    /// Looks for this exchange.
    ///
    /// # Errors
    /// `Unavailable` if it is missing, with what to do about it, or if the broker does not answer.
    pub(super) async fn find_exchange(&self, name: &str) -> Result<()> {
        match self.look_for(name).await? {
            None => Ok(()),
            Some(words) => Err(Error::unavailable(missing(&words))),
        }
    }

    /// What the broker says about an exchange that is missing; `None` if it is there.
    async fn look_for(&self, name: &str) -> Result<Option<String>> {
        match self.declare(name, ExchangeKind::Topic, true).await? {
            Ok(()) => Ok(None),
            Err(error) => match refusal(&error) {
                Some((Refusal::NotFound, words)) => Ok(Some(words)),
                _ => Err(told("look for the exchange", &error)),
            },
        }
    }

    /// On a channel of its own, because a refusal closes it.
    async fn declare(&self, name: &str, kind: ExchangeKind, passive: bool) -> Result<lapin::Result<()>> {
        let channel = self.publishing.channel().await?.channel;
        let options = ExchangeDeclareOptions { passive, durable: true, ..ExchangeDeclareOptions::default() };
        Ok(channel.exchange_declare(ShortString::from(name), kind, options, FieldTable::default()).await)
    }
}

/// Whether only the broker itself creates exchanges of this name.
fn is_brokers(name: &str) -> bool {
    name.is_empty() || name.starts_with("amq.")
}

/// What to do about an exchange that is missing.
pub(super) fn missing(words: &str) -> String {
    format!(
        "{words}; declare it, start a consumer, which does so, or let it be created with create_exchange=true"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_there_is_bounded_and_can_be_lost() {
        let exchanges = Exchanges::default();
        (0..=NAMES_MAX).for_each(|n| exchanges.found(&n.to_string()));
        assert_eq!(exchanges.names().len(), 1);
        exchanges.lost(&NAMES_MAX.to_string());
        assert!(exchanges.names().is_empty());
        assert!(is_brokers("") && is_brokers("amq.topic") && !is_brokers("orders"));
    }
}
