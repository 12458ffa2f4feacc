//! Idempotency records for consumers whose effects are elsewhere: a hash for each, which the server forgets by itself.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::consumer::{Begun, Dedup, DedupKey, Finished, Token};
use posthaste_core::time::Clock;
use posthaste_core::{BoxFuture, Error, Result};
use redis::{Cmd, Value};

use super::link::Link;
use super::settings::Settings;

/// What the keys of records begin with, after the prefix of the URL.
const RECORD: &str = "posthaste:dedup:";
/// The set of those that have ended, by when they did.
const ENDED: &str = "posthaste:dedup";
/// A longer message is cut.
const ERROR_BYTES_MAX: usize = 1_024;

/// Idempotency records in Redis. Clones share one connection.
///
/// A record is forgotten when it has been kept for the `ttl` of the URL (7 days) after its end, whether it is pruned or not. What
/// Redis loses, by a failover or a crash without `appendfsync always`, may have its effect twice.
#[derive(Clone)]
pub struct RedisDedup {
    link: Link,
    prefix: String,
    ttl: Duration,
    /// Where the server's clock is not to be used: in tests.
    clock: Option<Arc<dyn Clock>>,
}

impl RedisDedup {
    /// At this URL, with the settings in it; connects to nothing yet.
    ///
    /// # Errors
    /// `Config` for a URL or settings that cannot be used; nothing secret is repeated.
    pub fn at(url: &str) -> Result<Self> {
        let settings: Settings = url.parse()?;
        let link = Link::new(&settings.link)?;
        Ok(Self { link, prefix: settings.prefix, ttl: settings.ttl, clock: None })
    }

    /// Goes by this clock instead of the server's, unless it is the host's.
    #[must_use]
    pub fn on(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = (!clock.is_host()).then_some(clock);
        self
    }

    /// A script on this record, or on none.
    fn script(&self, text: &'static str, key: Option<&DedupKey>) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(1 + usize::from(key.is_some()));
        if let Some(DedupKey { consumer, source, event_id, .. }) = key {
            // With their lengths, so that no two keys are written alike.
            let lengths = [consumer.len(), source.len()];
            let name = format!("{}{RECORD}{lengths:?}{consumer}{source}{event_id}", self.prefix);
            command.arg(name);
        }
        command.arg(format!("{}{ENDED}", self.prefix));
        command
    }

    fn now(&self) -> String {
        self.clock.as_ref().map(|clock| clock.now().as_micros().to_string()).unwrap_or_default()
    }

    async fn begun(&self, key: &DedupKey, abandoned_after: Duration) -> Result<Begun> {
        let token = Token::fresh();
        let mut command = self.script(include_str!("lua/dedup_begin.lua"), Some(key));
        command.arg(&token.0).arg(micros(abandoned_after)).arg(self.kept()).arg(self.now());
        let answer = self.link.ask_one(command).await?;
        let found: (String, u64) = redis::from_redis_value(answer)
            .map_err(|error| Error::corrupt("Redis answers oddly").because(error))?;
        Ok(match found {
            (state, _) if state == "processed" => Begun::Before,
            (state, age) if state == "in_progress" => {
                Begun::Busy(abandoned_after.saturating_sub(Duration::from_micros(age)))
            }
            (state, _) if state == "abandoned" => Begun::TakenOver(token),
            _ => Begun::New(token),
        })
    }

    async fn ended(&self, key: &DedupKey, token: &Token, end: &Finished) -> Result<bool> {
        let (state, why) = match end {
            Finished::Failed(why) => ("failed", cut(why)),
            _ => ("processed", ""),
        };
        let mut command = self.script(include_str!("lua/dedup_finish.lua"), Some(key));
        command.arg(&token.0).arg(state).arg(why).arg(self.kept()).arg(self.now());
        Ok(matches!(self.link.ask_one(command).await?, Value::Int(1)))
    }

    async fn pruned(&self, older_than: Duration, rows_max: u32) -> Result<u64> {
        let mut command = self.script(include_str!("lua/dedup_prune.lua"), None);
        command.arg(micros(older_than)).arg(rows_max).arg(self.now());
        match self.link.ask_one(command).await? {
            Value::Int(count) => Ok(u64::try_from(count).unwrap_or(0)),
            _ => Ok(0),
        }
    }

    fn kept(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Beyond what anybody means, inside what a script can count.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX).min(1 << 52)
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(ERROR_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Dedup for RedisDedup {
    fn begin<'a>(&'a self, key: &'a DedupKey, abandoned_after: Duration) -> BoxFuture<'a, Result<Begun>> {
        Box::pin(self.begun(key, abandoned_after))
    }

    fn finish<'a>(
        &'a self,
        key: &'a DedupKey,
        token: &'a Token,
        end: Finished,
    ) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.ended(key, token, &end).await })
    }

    fn prune(&self, older_than: Duration, rows_max: u32) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.pruned(older_than, rows_max))
    }
}
