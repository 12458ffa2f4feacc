//! What goes wrong in practice with a Redis that is to keep events: told without changing anything.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_core::Result;
use posthaste_core::findings::{Finding, Mend, asked};
use redis::{Pipeline, Value};

use super::RedisBroker;

/// How long each look may take, with the connection that it may have to make.
const LOOK_WITHIN: Duration = Duration::from_secs(5);
/// A server that has used so much of its memory takes nothing soon.
const USED_PERCENT_MAX: u64 = 90;

/// What the server says of itself: `INFO`, and how often it syncs, if this user may see it.
struct Facts {
    info: BTreeMap<String, String>,
    fsync: Option<String>,
}

impl RedisBroker {
    /// Everything about the server that events are published to.
    pub(super) async fn examine_server(&self) -> Vec<Finding> {
        let mut found = asked("server", LOOK_WITHIN, self.server()).await;
        if let Some(stream) = self.settings.stream.as_ref().map(|_| self.settings.stream_of("")) {
            found.extend(asked("stream", LOOK_WITHIN, self.kind_of(&stream)).await);
        }
        found
    }

    async fn server(&self) -> Result<Vec<Finding>> {
        let mut questions = Pipeline::with_capacity(2);
        questions.cmd("INFO").cmd("CONFIG").arg("GET").arg("appendfsync");
        let mut answers = self.publishing.ask(&questions).await?.into_iter();
        let Some(info) = answers.next().and_then(text) else {
            return Ok(vec![Finding::ok("server", "this user may not see how it is set up (INFO)")]);
        };
        let pair = answers.next().and_then(|answer| redis::from_redis_value::<Vec<String>>(answer).ok());
        let facts = Facts { info: lines(&info), fsync: pair.and_then(|mut pair| pair.pop()) };
        let mut found = vec![facts.durability(&self.cli()), facts.disk(), facts.memory(&self.cli())];
        found.extend(facts.cluster());
        found.extend(facts.replicas(self.settings.publishing.replicas));
        Ok(found)
    }

    /// Whether the one stream of all topics is a stream.
    async fn kind_of(&self, stream: &str) -> Result<Vec<Finding>> {
        let mut questions = Pipeline::with_capacity(1);
        questions.cmd("TYPE").arg(stream);
        let kind = self.publishing.ask(&questions).await?.pop().and_then(text);
        Ok(vec![match kind.as_deref() {
            Some("stream") => Finding::ok("stream", format!("{stream:?} is there")),
            Some("none") => Finding::ok("stream", format!("{stream:?} is made with its first event")),
            Some(kind) => Finding::failure(
                "stream",
                format!("the key {stream:?} holds something else than a stream, a {kind}"),
                Mend::words("remove it, or choose another name with stream=NAME or prefix=… in the URL"),
            ),
            None => Finding::ok("stream", "this user may not see of what type it is"),
        }])
    }

    /// How to talk with the server from a shell; whoever does it knows the password.
    fn cli(&self) -> String {
        let link = &self.settings.link;
        let (host, port) = &link.hosts[0];
        format!("redis-cli{} -h {host} -p {port}", if link.is_tls { " --tls" } else { "" })
    }
}

impl Facts {
    fn is(&self, name: &str, value: &str) -> bool {
        self.info.get(name).is_some_and(|found| found == value)
    }

    fn number(&self, name: &str) -> u64 {
        self.info.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// What survives of an event that was answered.
    fn durability(&self, cli: &str) -> Finding {
        const CHECK: &str = "durability";
        if self.is("aof_enabled", "0") {
            return Finding::failure(
                CHECK,
                "nothing is written to disk before it is answered (appendonly no): what came after the last snapshot is lost when the server ends",
                Mend::command(format!("{cli} CONFIG SET appendonly yes")),
            );
        }
        match self.fsync.as_deref() {
            Some("always") => Finding::ok(CHECK, "an event is on disk before it is answered"),
            Some(fsync) => Finding::warning(
                CHECK,
                format!(
                    "answered events of the last seconds are lost when the machine crashes (appendfsync {fsync})"
                ),
                Mend::command(format!("{cli} CONFIG SET appendfsync always")),
            ),
            None => Finding::ok(
                CHECK,
                "there is an append-only file; how often it is synced this user may not see",
            ),
        }
    }

    fn disk(&self) -> Finding {
        let writes = ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"];
        let failed: Vec<_> = writes.into_iter().filter(|status| self.is(status, "err")).collect();
        if failed.is_empty() {
            return Finding::ok("disk", "the server could write to it");
        }
        let seen = format!("the server could not write to its disk the last time ({})", failed.join(", "));
        Finding::failure("disk", seen, Mend::words("look at its log, its folder's rights and free room"))
    }

    /// Whether events may be thrown out, or refused soon.
    fn memory(&self, cli: &str) -> Finding {
        const CHECK: &str = "memory";
        let (most, used) = (self.number("maxmemory"), self.number("used_memory"));
        if most == 0 {
            return Finding::ok(CHECK, "the server has no limit of its own");
        }
        let policy = self.info.get("maxmemory_policy").map_or("noeviction", String::as_str);
        let keep_all = Mend::command(format!("{cli} CONFIG SET maxmemory-policy noeviction"));
        if policy.starts_with("allkeys") {
            let seen =
                format!("whole streams are thrown out when memory is short (maxmemory-policy {policy})");
            return Finding::failure(CHECK, seen, keep_all);
        }
        if policy != "noeviction" {
            let seen = format!(
                "idempotency records are thrown out when memory is short (maxmemory-policy {policy})"
            );
            return Finding::warning(CHECK, seen, keep_all);
        }
        if used > most / 100 * USED_PERCENT_MAX {
            let seen = format!("{used} of {most} bytes are used, and then nothing is taken any more");
            return Finding::warning(
                CHECK,
                seen,
                Mend::words("raise maxmemory, or bound streams with maxlen"),
            );
        }
        Finding::ok(CHECK, format!("{used} of {most} bytes are used, and nothing is thrown out"))
    }

    fn cluster(&self) -> Option<Finding> {
        let mend = "put a proxy in front of it, or use a server that is no cluster";
        self.is("cluster_enabled", "1").then(|| {
            let seen = "this is a node of a cluster, which takes only some streams";
            Finding::failure("cluster", seen, Mend::words(mend))
        })
    }

    fn replicas(&self, wanted: u32) -> Option<Finding> {
        let there = self.number("connected_slaves");
        (wanted > 0).then(|| match there < u64::from(wanted) {
            true => Finding::failure(
                "replicas",
                format!(
                    "{there} of the {wanted} replicas are there that must have an event, and the lane waits"
                ),
                Mend::words("bring them back, or set replicas in the URL to how many there are"),
            ),
            false => Finding::ok("replicas", format!("{there} are there, {wanted} must have an event")),
        })
    }
}

fn text(answer: Value) -> Option<String> {
    match answer {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// `name:value` in each line.
fn lines(info: &str) -> BTreeMap<String, String> {
    let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_core::findings::Verdict;

    use super::*;

    fn facts(info: &str, fsync: Option<&str>) -> Facts {
        Facts { info: lines(info), fsync: fsync.map(str::to_owned) }
    }

    #[test]
    fn what_an_answer_is_worth_is_read_from_the_server() {
        for (info, fsync, verdict) in [
            ("aof_enabled:1\r\n", Some("always"), Verdict::Ok),
            ("aof_enabled:1\r\n", Some("everysec"), Verdict::Warning),
            ("aof_enabled:1\r\n", None, Verdict::Ok),
            ("aof_enabled:0\r\n", Some("always"), Verdict::Failure),
        ] {
            assert_eq!(facts(info, fsync).durability("redis-cli").verdict, verdict, "{info} {fsync:?}");
        }
    }

    #[test]
    fn a_server_that_throws_out_or_soon_refuses_is_told() {
        for (info, verdict) in [
            ("maxmemory:0\nmaxmemory_policy:allkeys-lru", Verdict::Ok),
            ("maxmemory:1000\nmaxmemory_policy:allkeys-lru", Verdict::Failure),
            ("maxmemory:1000\nmaxmemory_policy:volatile-ttl", Verdict::Warning),
            ("maxmemory:1000\nused_memory:100\nmaxmemory_policy:noeviction", Verdict::Ok),
            ("maxmemory:1000\nused_memory:950\nmaxmemory_policy:noeviction", Verdict::Warning),
        ] {
            assert_eq!(facts(info, None).memory("redis-cli").verdict, verdict, "{info}");
        }
        assert!(facts("cluster_enabled:1", None).cluster().is_some());
        assert!(facts("cluster_enabled:0", None).cluster().is_none());
        assert_eq!(facts("aof_last_write_status:err", None).disk().verdict, Verdict::Failure);
        assert_eq!(facts("connected_slaves:1", None).replicas(2).unwrap().verdict, Verdict::Failure);
        assert!(facts("", None).replicas(0).is_none());
    }
}
