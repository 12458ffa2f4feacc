//! Who may ask: `Authorization: Bearer KEY`.
//!
//! A key is looked up by its SHA-256, so no comparison's time tells anything about a key; 256 random bits need no salt and
//! no slow hash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics::counter;
use posthaste::schema::Keyring;
use posthaste::telemetry::metric;
use tokio::time::Instant;

use super::app::App;
use super::connections::Seat;
use super::problem::{Kind, Problem};
use super::server::Peer;
use crate::config::scope::{Scope, may};
use crate::keys;

/// How long a key that was found is believed without asking the store: a removed key works so much longer.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// How many keys are remembered; beyond, the store is asked more often.
const REMEMBERED_MAX: usize = 1_024;
/// Longer than any key; a header beyond it is not even hashed.
const KEY_BYTES_MAX: usize = 256;

/// The name of the key that a request carries.
#[derive(Clone)]
pub(super) struct KeyName(pub(super) Arc<str>);

/// Lets a request pass if it carries a known key that may do what it asks for, and says which.
pub(super) async fn need_key(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let name = match app.keys.check(&*app.keyring, request.headers()).await {
        Ok(name) => name,
        Err(problem) => {
            if problem.kind() == Kind::Unauthorized {
                tell_of_unauthorized(&app, &request);
            }
            return problem.into_response();
        }
    };
    if let Some(seat) = request.extensions().get::<Arc<Seat>>() {
        seat.has_valid_key();
    }
    let scope = wanted(request.method(), request.uri().path());
    if !may(&app.limits.operators, &name, scope) {
        let detail = format!(
            "this key may not {}; server.operators says what each key may: \"NAME\" everything, \"NAME:{}\" only that",
            match scope {
                Scope::Read => "look",
                Scope::Publish => "publish",
                Scope::Operate => "give commands",
            },
            scope.name()
        );
        return Problem::new(Kind::Forbidden, detail).into_response();
    }
    request.extensions_mut().insert(KeyName(name));
    next.run(request).await
}

/// Leaves a trace of a request without a valid key: somebody may be trying keys, or a client has lost its
/// own.
fn tell_of_unauthorized(app: &App, request: &Request) {
    counter!(metric::HTTP_UNAUTHORIZED_TOTAL).increment(1);
    let Some(count) = app.unauthorized.count() else { return };
    let peer = request.extensions().get::<Peer>().map(|Peer(address)| tracing::field::display(*address));
    tracing::warn!(
        count,
        peer,
        "requests without a valid API key were refused with 401 (count: since the last such line; peer: of the newest one)"
    );
}

/// What a request does; whatever neither publishes nor gives commands looks.
fn wanted(method: &Method, path: &str) -> Scope {
    match path {
        _ if path.starts_with("/v1/commands/") => Scope::Operate,
        _ if path.starts_with("/v1/jobs/") && *method == Method::DELETE => Scope::Operate,
        "/v1/events" if *method == Method::POST => Scope::Publish,
        _ => Scope::Read,
    }
}

/// Hashes of keys that the store knew a moment ago. Unknown keys are not remembered, so they cannot crowd out known ones.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(Mutex<HashMap<[u8; 32], Known>>);

/// A key that the store knew.
#[derive(Debug)]
struct Known {
    name: Arc<str>,
    found: Instant,
}

impl KnownKeys {
    async fn check(&self, keyring: &dyn Keyring, headers: &HeaderMap) -> Result<Arc<str>, Problem> {
        let key = bearer(headers).ok_or_else(|| {
            Problem::new(Kind::Unauthorized, "send the API key as Authorization: Bearer KEY; the first start of the server wrote it to posthaste.key")
        })?;
        let hash = keys::hash_of(key);
        if let Some(name) = self.remembered(&hash) {
            return Ok(name);
        }
        let Some(name) = keyring.name_of(&hash).await? else {
            return Err(Problem::new(
                Kind::Unauthorized,
                "the API key is not known here; check that it is of this server",
            ));
        };
        let name: Arc<str> = name.into();
        self.remember(hash, &name);
        Ok(name)
    }

    fn remembered(&self, hash: &[u8; 32]) -> Option<Arc<str>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(hash).filter(|known| known.found.elapsed() < BELIEVED_FOR)?;
        Some(Arc::clone(&known.name))
    }

    fn remember(&self, hash: [u8; 32], name: &Arc<str>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, known| known.found.elapsed() < BELIEVED_FOR);
        }
        if known.len() < REMEMBERED_MAX {
            known.insert(hash, Known { name: Arc::clone(name), found: Instant::now() });
        }
    }
}

/// The key that the request carries; the scheme's name is case-insensitive (RFC 9110 §11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty() && key.len() <= KEY_BYTES_MAX).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_key_counts() {
        let key = |value: &str| {
            let headers: HeaderMap = [(header::AUTHORIZATION, value.parse().unwrap())].into_iter().collect();
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(key("Bearer ph_1").as_deref(), Some("ph_1"));
        assert_eq!(key("bearer  ph_1 ").as_deref(), Some("ph_1"));
        for wrong in ["ph_1", "Basic ph_1", "Bearer", "Bearer ", &format!("Bearer {}", "x".repeat(257))] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_believed_for_a_few_seconds_and_the_memory_is_bounded() {
        let keys = KnownKeys::default();
        let name: Arc<str> = "first".into();
        for n in 0..2 * REMEMBERED_MAX {
            keys.remember(keys::hash_of(&n.to_string()), &name);
        }
        assert_eq!(keys.0.lock().unwrap().len(), REMEMBERED_MAX);
        assert_eq!(keys.remembered(&keys::hash_of("0")).as_deref(), Some("first"));
        tokio::time::advance(BELIEVED_FOR).await;
        assert_eq!(keys.remembered(&keys::hash_of("0")), None);
        keys.remember(keys::hash_of("new"), &name);
        assert_eq!(keys.0.lock().unwrap().len(), 1, "what is no longer believed makes room");
    }
}
