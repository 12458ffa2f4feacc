//! `GET /v1/proof`: the server proves to the owner of a key that it knows the key. [`crate::proof`] says how.
//!
//! The route needs no key, so it is cheap. The server keeps the hashes of its keys for a few seconds.
//! Requests about unknown keys ask the store one at a time and share its answer, and leave nothing behind in
//! memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use posthaste::Result;
use posthaste::schema::{Keyring, Schema};
use serde::Deserialize;
use tokio::time::Instant;

use super::app::App;
use super::problem::{Kind, Problem};
use super::query::query;
use super::server::LocalAddress;
use super::wire::ProofDocument;
use crate::proof::{KeyHash, Question, Tag, decoy, random, store_id, tag};

/// How long hashes and the store's identity are believed without asking the store.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// At most this number of keys is read, the newest first. The server cannot prove that it knows an older key.
const KEYS_MAX: u32 = 10_000;

/// What the query says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    key: String,
    nonce: String,
}

/// Answers a question. For an unknown key the answer looks the same, and its proof does not hold.
pub(super) async fn prove(
    State(app): State<Arc<App>>,
    request: Request,
) -> std::result::Result<Json<ProofDocument>, Problem> {
    let asked: Asked = query(request.uri())?;
    let question = Question::read(&asked.key, &asked.nonce).ok_or_else(|| {
        let detail = "key must be the 8 bytes of a key's tag and nonce 32 random bytes, both in base64url without padding";
        Problem::new(Kind::Malformed, detail)
    })?;
    // Never from the request: a program that stands between can write anything there.
    let Some(LocalAddress(address)) = request.extensions().get::<LocalAddress>().copied() else {
        return Err(Problem::new(Kind::Internal, "the server does not know its own address"));
    };
    let known = app.prover.known(question.tag(), &*app.keyring, &*app.store).await?;
    let hash = known.hashes.get(question.tag()).copied();
    let hash = hash.unwrap_or_else(|| decoy(&known.secret, question.tag()));
    Ok(Json(question.answer(&hash, known.store.as_deref(), address)))
}

/// What the server needs to answer, as the store said it a moment ago.
#[derive(Debug, Default)]
pub(super) struct Prover {
    /// What answers for unknown keys are computed with.
    secret: OnceLock<[u8; 32]>,
    known: Mutex<Option<Arc<Known>>>,
    /// Held by the one request that asks the store.
    asking: tokio::sync::Mutex<()>,
}

/// The keys, by their tags, and the store's identity.
#[derive(Debug)]
struct Known {
    secret: [u8; 32],
    hashes: HashMap<Tag, KeyHash>,
    store: Option<String>,
    /// When the store was asked.
    since: Instant,
}

impl Prover {
    /// The keys and the store's identity, at most a few seconds old. If this tag is not among them, they are
    /// not older than this call: so a key that was just added works at once.
    async fn known<S: Schema + ?Sized>(
        &self,
        tag: &Tag,
        keyring: &dyn Keyring,
        store: &S,
    ) -> Result<Arc<Known>> {
        let begun = Instant::now();
        let is_fresh = |known: &Arc<Known>| {
            let is_known = known.hashes.contains_key(tag) && known.since.elapsed() < BELIEVED_FOR;
            is_known || known.since >= begun
        };
        if let Some(known) = self.kept().filter(is_fresh) {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = self.kept().filter(is_fresh) {
            return Ok(known);
        }
        let known = Arc::new(self.ask(keyring, store).await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        Ok(known)
    }

    fn kept(&self) -> Option<Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask<S: Schema + ?Sized>(&self, keyring: &dyn Keyring, store: &S) -> Result<Known> {
        let since = Instant::now();
        let secret = match self.secret.get() {
            Some(secret) => *secret,
            None => {
                let fresh = random()?;
                *self.secret.get_or_init(|| fresh)
            }
        };
        let hashes = keyring.hashes(KEYS_MAX).await?;
        let identity = match store.identity().await {
            Err(error) if error.retryable() => return Err(error),
            // This database user may not ask. The server still proves that it knows the key.
            Err(error) => {
                tracing::debug!(%error, "the identity of the store is not known");
                None
            }
            Ok(identity) => identity,
        };
        let hashes = hashes.into_iter().map(|hash| (tag(&hash), hash)).collect();
        Ok(Known { secret, hashes, store: identity.as_deref().map(store_id), since })
    }
}

#[cfg(test)]
mod tests {
    use posthaste::memory::Memory;

    use super::*;

    const HASH: KeyHash = [1; 32];

    #[tokio::test(start_paused = true)]
    async fn a_new_key_is_known_at_once_and_the_store_is_asked_seldom() {
        let (prover, memory) = (Prover::default(), Memory::new());
        let ask = async |hash: &KeyHash| {
            let known = prover.known(&tag(hash), &memory, &memory).await.unwrap();
            (known.hashes.contains_key(&tag(hash)), known.since)
        };
        memory.add("first", &HASH).await.unwrap();
        let (is_known, first) = ask(&HASH).await;
        assert!(is_known);
        tokio::time::advance(BELIEVED_FOR / 2).await;
        assert_eq!(ask(&HASH).await, (true, first), "a known key does not need the store");
        let added = [2; 32];
        let (is_known, second) = ask(&added).await;
        assert!(!is_known && second > first);
        memory.add("second", &added).await.unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(ask(&added).await.0, "a key that was added is known at once");
        tokio::time::advance(BELIEVED_FOR).await;
        assert!(ask(&HASH).await.1 > second, "what is old is asked again");
    }
}
