//! How a server proves itself before the command line sends it a key or an event.
//!
//! While a server is down, any user of the machine can listen on its port. So the client asks a question
//! first, on the connection that it uses for its request:
//!
//! ```text
//! client                                              server
//!   │  tag of the key, 32 random bytes (nonce)           │
//!   ├───────────────────────────────────────────────────►│  finds the hash of the key by its tag
//!   │  store, known, proof                               │
//!   │◄───────────────────────────────────────────────────┤  proof = HMAC(hash, nonce, store, address, port)
//!   │  key, event                                        │
//!   ├───────────────────────────────────────────────────►│
//! ```
//!
//! * The server takes address and port from the connection that it accepted, and the client from the
//!   connection that it dialled. A program that listens elsewhere and forwards the question gets a proof for
//!   the server's address, not for its own. Behind a port mapping or a proxy the proof fails for the same
//!   reason: https is needed there.
//! * The tag is a part of a hash of the key's hash. It does not help to compute a proof, the hash or the key.
//! * `known` covers the nonce only. It does not prove which program answers. It lets the client tell a
//!   forwarded answer from an unknown key, so that the error says what to do.
//! * A server that does not know the key answers with bytes that look the same.
//! * The hash never authorises a client: a request still needs the key itself. A user who can read the table
//!   of keys can pose as the server, and cannot send it requests.
//!
//! The limit: loopback addresses are the same on every machine. If servers of one store listen on the same
//! loopback port of two machines, a user with accounts on both can forward a question from one to the other.
//! For the same reason a tunnel from a loopback port to the same port of another machine works.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use posthaste::{Error, Result};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::http::wire::ProofDocument;

/// Where a server answers the question.
pub(crate) const PATH: &str = "/v1/proof";

/// A key's hash, as the store keeps it.
pub(crate) type KeyHash = [u8; 32];
/// Names a key without showing it.
pub(crate) type Tag = [u8; 8];

// One label for each purpose, so that a value for one purpose is not valid for another.
const TAG: &[u8] = b"posthaste: tag of a key, 1";
const KNOWN: &[u8] = b"posthaste: server knows the key, 1";
const PROOF: &[u8] = b"posthaste: server is at this address, 1";
const STORE: &[u8] = b"posthaste: identity of a store, 1";
const DECOY: &[u8] = b"posthaste: unknown key, 1";

/// What the client asks: the tag of a key, and random bytes that are used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    tag: Tag,
    nonce: [u8; 32],
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It comes from a server that knows the key and accepted this connection.
    Proven,
    /// It comes from a server that knows the key and accepted another connection: a program stands between.
    Elsewhere,
    /// It comes from a program that does not know the key.
    Unknown,
}

impl Question {
    /// A fresh question about the key with this hash.
    ///
    /// # Errors
    /// `Unavailable` when the system has no random source.
    pub(crate) fn about(hash: &KeyHash) -> Result<Self> {
        Ok(Self { tag: tag(hash), nonce: random()? })
    }

    /// The question that a query asks; `None` if it is not one.
    pub(crate) fn read(tag: &str, nonce: &str) -> Option<Self> {
        Some(Self { tag: decoded(tag)?, nonce: decoded(nonce)? })
    }

    /// Path and query to ask it with.
    pub(crate) fn path(&self) -> String {
        format!("{PATH}?key={}&nonce={}", BASE64.encode(self.tag), BASE64.encode(self.nonce))
    }

    /// Which key it is about.
    pub(crate) fn tag(&self) -> &Tag {
        &self.tag
    }

    /// Answers it, for the server's end of the connection and the store behind it.
    pub(crate) fn answer(&self, hash: &KeyHash, store: Option<&str>, at: SocketAddr) -> ProofDocument {
        ProofDocument {
            store: store.map(str::to_owned),
            known: BASE64.encode(self.known(hash)),
            proof: BASE64.encode(self.proof(hash, store, at)),
        }
    }

    /// Judges an answer that came on a connection to this address.
    pub(crate) fn judge(&self, hash: &KeyHash, answer: &ProofDocument, dialled: SocketAddr) -> Verdict {
        let is = |said: &str, meant: [u8; 32]| {
            decoded::<32>(said).is_some_and(|said| bool::from(said.ct_eq(&meant)))
        };
        if is(&answer.proof, self.proof(hash, answer.store.as_deref(), dialled)) {
            Verdict::Proven
        } else if is(&answer.known, self.known(hash)) {
            Verdict::Elsewhere
        } else {
            Verdict::Unknown
        }
    }

    fn known(&self, hash: &KeyHash) -> [u8; 32] {
        mac(hash, &[KNOWN, &self.nonce])
    }

    fn proof(&self, hash: &KeyHash, store: Option<&str>, at: SocketAddr) -> [u8; 32] {
        // One form for 127.0.0.1 and ::ffff:127.0.0.1, as an IPv6 listener sees only the latter.
        let ip = match at.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let store = store.unwrap_or_default();
        mac(hash, &[PROOF, &self.nonce, store.as_bytes(), &ip.octets(), &at.port().to_be_bytes()])
    }
}

/// The tag of the key with this hash.
pub(crate) fn tag(hash: &KeyHash) -> Tag {
    let [a, b, c, d, e, f, g, h, ..] = digest(TAG, hash);
    [a, b, c, d, e, f, g, h]
}

/// A hash of a store's identity: two servers of one store have the same.
pub(crate) fn store_id(identity: &str) -> String {
    BASE64.encode(digest(STORE, identity.as_bytes()))
}

/// Stands in for the hash of an unknown key. It is always the same for one tag, as the hash of a known key
/// is.
pub(crate) fn decoy(secret: &[u8; 32], tag: &Tag) -> KeyHash {
    mac(secret, &[DECOY, tag])
}

/// 32 bytes from the system's random source.
///
/// # Errors
/// `Unavailable` when there is none.
pub(crate) fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::unavailable("read the system's random source").because(error))?;
    Ok(bytes)
}

fn digest(label: &[u8], bytes: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(length(label)).chain_update(label).chain_update(bytes).finalize().into()
}

/// The HMAC-SHA256 of these fields. Each has its length before it, so that two lists of fields never look the
/// same.
fn mac(key: &[u8; 32], fields: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("an HMAC takes a key of any length");
    for field in fields {
        mac.update(&length(field));
        mac.update(field);
    }
    mac.finalize().into_bytes().into()
}

fn length(field: &[u8]) -> [u8; 8] {
    (field.len() as u64).to_be_bytes()
}

fn decoded<const N: usize>(text: &str) -> Option<[u8; N]> {
    // A longer text is not decoded beyond this, and is refused by its length.
    BASE64.decode(text.get(..text.len().min(2 * N))?).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::ApiKey;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn a_proof_holds_for_its_key_question_store_and_address_only() {
        let (hash, other) = (ApiKey::generate().unwrap().hash(), ApiKey::generate().unwrap().hash());
        let question = Question::about(&hash).unwrap();
        let here = at("127.0.0.1:7070");
        let answer = question.answer(&hash, Some("a"), here);
        assert_eq!(question.judge(&hash, &answer, here), Verdict::Proven);
        assert_eq!(question.judge(&hash, &answer, at("[::ffff:127.0.0.1]:7070")), Verdict::Proven);
        for elsewhere in ["127.0.0.1:7071", "127.0.0.2:7070", "[::1]:7070", "172.17.0.2:7070"] {
            assert_eq!(question.judge(&hash, &answer, at(elsewhere)), Verdict::Elsewhere, "{elsewhere}");
        }
        for store in [None, Some("b".to_owned())] {
            let forged = ProofDocument { store, ..answer.clone() };
            assert_eq!(question.judge(&hash, &forged, here), Verdict::Elsewhere);
        }
        assert_eq!(question.judge(&other, &answer, here), Verdict::Unknown);
        let later = Question::about(&hash).unwrap();
        assert_eq!(later.judge(&hash, &answer, here), Verdict::Unknown, "an answer is good for one question");
        let empty = ProofDocument { store: None, known: String::new(), proof: String::new() };
        assert_eq!(question.judge(&hash, &empty, here), Verdict::Unknown);
        let swapped = ProofDocument { store: None, known: answer.proof, proof: answer.known };
        assert_eq!(question.judge(&hash, &swapped, here), Verdict::Unknown);
    }

    #[test]
    fn a_question_is_read_as_it_was_asked_and_shows_neither_key_nor_hash() {
        let key = ApiKey::generate().unwrap();
        let question = Question::about(&key.hash()).unwrap();
        let path = question.path();
        let part = |name: &str| path.split(['?', '&']).find_map(|part| part.strip_prefix(name)).unwrap();
        assert_eq!(Question::read(part("key="), part("nonce=")), Some(question));
        assert!(!path.contains(key.expose()));
        let shown: Tag = decoded(part("key=")).unwrap();
        assert!(!key.hash().windows(4).any(|bytes| shown.windows(4).any(|shown| shown == bytes)));
        for wrong in ["", "AAAA", "not base64!", &"A".repeat(10_000), "ü"] {
            assert_eq!(Question::read(wrong, part("nonce=")), None, "{wrong}");
            assert_eq!(Question::read(part("key="), wrong), None, "{wrong}");
        }
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let key = [7; 32];
        assert_ne!(mac(&key, &[b"ab", b"c"]), mac(&key, &[b"a", b"bc"]));
        assert_ne!(mac(&key, &[b"", b"a"]), mac(&key, &[b"a", b""]));
        assert_ne!(decoy(&key, &[1; 8]), decoy(&key, &[2; 8]));
    }
}
