//! What the server's refusals mean, in words that say what to do.

use posthaste_core::target::{DeliverError, DeliverKind};
use posthaste_core::{Error, redact};
use redis::{ServerError, Value};

/// Parts of what `ERR` says when it is about this entry or its stream. Redis says it of anything else too: that it does not know a
/// command, or in the name of a proxy that has lost its server.
const ABOUT_ENTRY: [&str; 6] = [
    "ID specified in XADD",
    "Invalid stream ID",
    "exhausted the last possible ID",
    "Elements are too large",
    "wrong number of arguments for 'xadd'",
    "invalid bulk length",
];

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
        "WRONGTYPE" => true,
        "ERR" => ABOUT_ENTRY.iter().any(|part| words.contains(part)),
        "NOPERM" => words.contains("key"),
        _ => false,
    };
    Refusal { code: code.to_owned(), message, is_about_key }
}

/// Whether an answer says that this node is not the one that takes writes.
pub(super) fn is_replica(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if matches!(error.code(), "READONLY" | "MASTERDOWN"))
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn refusal(words: &str) -> Refusal {
        match parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => refused(&error),
            other => panic!("{other:?} is no refusal"),
        }
    }

    /// In Redis' own words: what nobody's events would pass, what only this stream's would not, and what to do about each.
    #[test]
    fn refusals_are_told_apart_and_say_what_to_do() {
        let table = [
            ("LOADING Redis is loading the dataset in memory", "LOADING", false, "it goes on"),
            ("MISCONF Redis is configured to save RDB snapshots", "MISCONF", false, "disk"),
            ("READONLY You can't write against a read only replica.", "READONLY", false, "primary"),
            ("OOM command not allowed when used memory > 'maxmemory'.", "OOM", false, "maxmemory"),
            ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN", false, "not whole"),
            ("CLUSTERDOWN Hash slot not served", "CLUSTERDOWN", false, "not whole"),
            ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN", false, "not whole"),
            ("MOVED 3999 127.0.0.1:6381", "MOVED", false, "no cluster"),
            ("ASK 3999 127.0.0.1:6381", "ASK", false, "no cluster"),
            ("CROSSSLOT Keys in request don't hash to the same slot", "CROSSSLOT", false, "no cluster"),
            ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", false, "primary"),
            ("NOREPLICAS Not enough good replicas to write.", "NOREPLICAS", false, "min-replicas-to-write"),
            ("NOAUTH Authentication required.", "NOAUTH", false, "password"),
            ("BUSY Redis is busy running a script.", "BUSY", false, "script"),
            ("NOPERM this user has no permissions to run the 'xadd' command", "NOPERM", false, "ACL SETUSER"),
            ("NOPERM No permissions to access a key", "NOPERM", true, "ACL SETUSER"),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value",
                "WRONGTYPE",
                true,
                "prefix",
            ),
            ("ERR The ID specified in XADD is equal or smaller", "ERR", true, "XADD"),
            (
                "ERR The stream has exhausted the last possible ID, unable to add more items",
                "ERR",
                true,
                "ID",
            ),
            ("ERR Elements are too large to be stored", "ERR", true, "large"),
            ("ERR unknown command 'XADD', with args beginning with:", "ERR", false, "unknown command"),
            ("ERR server closed connection", "ERR", false, "closed"),
            ("UNHEARDOF of", "UNHEARDOF", false, "UNHEARDOF of"),
        ];
        for (words, code, is_about_key, says) in table {
            let refusal = refusal(words);
            assert_eq!((refusal.code.as_str(), refusal.is_about_key), (code, is_about_key), "{refusal:?}");
            assert!(refusal.message.contains(says), "{refusal:?}");
            let kind = if is_about_key { DeliverKind::Failed } else { DeliverKind::Unavailable };
            assert_eq!(refusal.into_deliver_error().kind, kind, "{words}");
        }
    }

    #[test]
    fn a_node_that_takes_no_writes_is_left_for_the_next() {
        for (words, is_one) in [("READONLY x", true), ("MASTERDOWN x", true), ("LOADING x", false)] {
            let answer = parse_redis_value(format!("-{words}\r\n").as_bytes()).unwrap();
            assert_eq!(is_replica(&answer), is_one, "{words}");
        }
    }
}
