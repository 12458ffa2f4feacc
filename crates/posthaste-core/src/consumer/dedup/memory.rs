//! Idempotency records in memory: for one process, and the model of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{Begun, Dedup, DedupKey, Finished, Token};
use crate::time::{Clock, SystemClock, Timestamp};
use crate::{BoxFuture, Error, Result};

/// How many records are kept, unless configured.
const RECORDS_MAX: usize = 100_000;

/// Records in memory; clones share them. They end with the process.
#[derive(Clone)]
pub struct MemoryDedup {
    records: Arc<Mutex<HashMap<DedupKey, Record>>>,
    clock: Arc<dyn Clock>,
    records_max: usize,
}

struct Record {
    state: State,
    at: Timestamp,
}

enum State {
    InProgress(Token),
    Processed,
    Failed,
}

impl MemoryDedup {
    /// No records, on the host's clock.
    pub fn new() -> Self {
        Self::on(SystemClock)
    }

    /// No records, on this clock.
    pub fn on(clock: impl Clock + 'static) -> Self {
        Self { records: Arc::default(), clock: Arc::new(clock), records_max: RECORDS_MAX }
    }

    /// Keeps at most so many records; when they are full, nothing new is begun before some are pruned.
    #[must_use]
    pub fn records_max(mut self, records: usize) -> Self {
        self.records_max = records.max(1);
        self
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<DedupKey, Record>> {
        self.records.lock().expect("nobody panics while holding it")
    }

    fn start(&self, key: &DedupKey, abandoned_after: Duration) -> Result<Begun> {
        let now = self.clock.now();
        let mut records = self.lock();
        let found = records.get(key).map(|record| (&record.state, now.since(record.at)));
        let taken_over = match found {
            Some((State::Processed, _)) => return Ok(Begun::Before),
            Some((State::InProgress(_), since)) if since < abandoned_after => {
                return Ok(Begun::Busy(abandoned_after - since));
            }
            Some((State::InProgress(_), _)) => true,
            Some((State::Failed, _)) => false,
            None if records.len() >= self.records_max => {
                return Err(Error::unavailable(format!(
                    "the idempotency store is full with {} records; prune it, or raise records_max",
                    records.len()
                )));
            }
            None => false,
        };
        let token = Token::fresh();
        records.insert(key.clone(), Record { state: State::InProgress(token.clone()), at: now });
        Ok(if taken_over { Begun::TakenOver(token) } else { Begun::New(token) })
    }

    fn end(&self, key: &DedupKey, token: &Token, end: &Finished) -> bool {
        let mut records = self.lock();
        let Some(record) = records.get_mut(key) else { return false };
        if !matches!(&record.state, State::InProgress(held) if held == token) {
            return false;
        }
        record.at = self.clock.now();
        record.state = match end {
            Finished::Processed => State::Processed,
            Finished::Failed(_) => State::Failed,
        };
        true
    }
}

impl Default for MemoryDedup {
    fn default() -> Self {
        Self::new()
    }
}

impl Dedup for MemoryDedup {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        Box::pin(async move { self.start(key, abandoned_after) })
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(self.end(key, token, &end)) })
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut left = u64::from(rows_max);
            self.lock().retain(|_, record| {
                let ended = !matches!(record.state, State::InProgress(_));
                let goes = left > 0 && ended && now.since(record.at) > older_than;
                left -= u64::from(goes);
                !goes
            });
            Ok(u64::from(rows_max) - left)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;
    use crate::time::ManualClock;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn an_abandoned_record_is_taken_over_and_its_old_token_finishes_nothing() {
        let clock = ManualClock::at(Timestamp::default());
        let store = MemoryDedup::on(clock.clone());
        let key = DedupKey::of("stock", &Envelope::new("t", ""));
        let Begun::New(old) = store.begin(&key, MINUTE).await.unwrap() else { panic!("not new") };
        assert_eq!(store.begin(&key, MINUTE).await.unwrap(), Begun::Busy(MINUTE));
        clock.advance(MINUTE);
        let Begun::TakenOver(new) = store.begin(&key, MINUTE).await.unwrap() else {
            panic!("not taken over")
        };
        assert!(!store.finish(&key, &old, Finished::Processed).await.unwrap());
        assert!(store.finish(&key, &new, Finished::Failed("no".into())).await.unwrap());
        let Begun::New(again) = store.begin(&key, MINUTE).await.unwrap() else { panic!("a failure holds") };
        assert!(store.finish(&key, &again, Finished::Processed).await.unwrap());
        assert_eq!(store.begin(&key, MINUTE).await.unwrap(), Begun::Before);
        clock.advance(MINUTE);
        assert_eq!(store.prune(MINUTE, 10).await.unwrap(), 0);
        clock.advance(MINUTE);
        assert_eq!(store.prune(MINUTE, 10).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_full_store_begins_nothing_new() {
        let store = MemoryDedup::new().records_max(1);
        let (first, second) = (Envelope::new("t", ""), Envelope::new("t", ""));
        assert!(store.begin(&DedupKey::of("c", &first), MINUTE).await.is_ok());
        assert!(store.begin(&DedupKey::of("c", &second), MINUTE).await.is_err());
    }
}
