//! What the server's refusals mean, in words that say what to do.

use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, redact};
use redis::{ServerError, Value};

/// What the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker::redis) struct Refusal {
    /// Redis' own first word: `WRONGTYPE`, `OOM`.
    pub(in crate::broker::redis) code: String,
    /// Its words, and what to do.
    pub(in crate::broker::redis) message: String,
    /// Whether it is about this key alone: others may pass.
    pub(in crate::broker::redis) is_about_key: bool,
}

impl Refusal {
    /// What the relay is told: somebody must do something about this stream, or the server takes nothing from anybody.
    pub(in crate::broker::redis) fn into_deliver_error(self) -> DeliverError {
        let kind = if self.is_about_key { DeliverKind::Failed } else { DeliverKind::Unavailable };
        DeliverError::new(kind, format!("redis {}", self.code), self.message)
    }

    /// What everybody else is told. Whatever it is, it may mend.
    pub(in crate::broker::redis) fn into_error(self) -> Error {
        Error::unavailable(self.message)
    }
}

/// Why the server refused, and what to do about it.
pub(in crate::broker::redis) fn refused(error: &ServerError) -> Refusal {
    let code = error.code();
    let words = redact::clean(error.details().unwrap_or_default());
    let advice = match code {
        "WRONGTYPE" => "the key holds something else than a stream; remove it, or choose another prefix",
        "NOPERM" => "give the user of the URL the right to it with ACL SETUSER",
        "NOAUTH" => "the server wants a password; write it in the URL",
        "OOM" => "the server is at its maxmemory; free some, raise it, or bound streams with maxlen",
        "MISCONF" => "the server cannot write to its disk and takes no writes until it can",
        "READONLY" => "this is a replica; name the primary in the URL, or all nodes, separated by commas",
        "LOADING" => "the server reads its data after a start; it goes on when it is done",
        "MASTERDOWN" => "this replica has lost its primary",
        "NOREPLICAS" => "the server wants more replicas than it has (min-replicas-to-write)",
        "CLUSTERDOWN" | "TRYAGAIN" => "the cluster is not whole at the moment",
        "MOVED" | "ASK" | "CROSSSLOT" => {
            "this is a node of a cluster, which cannot be used directly: put a proxy in front of it, or use a server that is no cluster"
        }
        "BUSY" => "a script of somebody keeps the server busy",
        "NOGROUP" => "the stream or its group was removed",
        _ => "",
    };
    let message = match (words.is_empty(), advice.is_empty()) {
        (_, true) => format!("{code} {words}").trim_end().to_owned(),
        (true, false) => format!("{code}: {advice}"),
        (false, false) => format!("{code} {words}: {advice}"),
    };
    let is_about_key = match code {
        "WRONGTYPE" | "ERR" => true,
        "NOPERM" => words.contains("key"),
        _ => false,
    };
    Refusal { code: code.to_owned(), message, is_about_key }
}

/// Whether an answer says that this node is not the one that takes writes.
pub(super) fn is_replica(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if matches!(error.code(), "READONLY" | "MASTERDOWN"))
}
