//! What the server refuses is named and told apart: about one stream, or about everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::broker::redis::RedisBroker;
use posthaste::store::Parcel;
use posthaste::target::{Answer, Capabilities, DeliverKind, Target};
use posthaste::{BoxFuture, BoxStream, Result};

use crate::redis_target::broken::Relaying;
use crate::redis_target::stand::{Stand, address, event, send, until};

/// Delivers two events and answers the kind, code and message that both were refused with.
async fn refusal(target: &RedisBroker) -> (DeliverKind, String, String) {
    let answers = send(target, vec![event("1", "t"), event("2", "u")]).await;
    let [first, second] = [&answers[0], &answers[1]].map(|answer| answer.clone().unwrap_err());
    assert_eq!((first.kind, &first.code), (second.kind, &second.code));
    (first.kind, first.code, first.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_and_wrong_credentials_are_named_without_secrets() {
    let Some(stand) = Stand::private("nobody_there_and_wrong_credentials_are_named").await else { return };
    let at = address(&stand.url);
    let _: String = stand.ask(&["ACL", "SETUSER", "writer", "on", ">hunter3", "~*", "+@all"]).await;
    let _: String = stand.ask(&["CONFIG", "SET", "requirepass", "hunter1"]).await;
    for (url, says) in [
        ("redis://u:hunter2@127.0.0.1:1".to_owned(), "127.0.0.1:1"),
        (format!("redis://:hunter2@{at}"), "check both"),
        (format!("redis://writer:hunter2@{at}"), "check both"),
        (format!("redis://{at}"), "NOAUTH"),
        (format!("redis://:hunter1@{at}/9999"), "database 9999"),
    ] {
        let target = RedisBroker::at(&url).unwrap();
        let pinged = target.ping().await.unwrap_err().to_string();
        let (kind, code, message) = refusal(&target).await;
        assert_eq!(kind, DeliverKind::Unavailable, "{code}: {message}");
        for said in [&pinged, &message] {
            assert!(said.contains(says) && !said.contains("hunter"), "{said}");
        }
    }
    let target = RedisBroker::at(&format!("redis://writer:hunter3@{at}")).unwrap();
    assert!(target.ping().await.is_ok() && send(&target, vec![event("1", "t")]).await[0].is_ok());
}

/// A key of another type, and a key that the user may not touch: that stream's events fail, and the others pass.
#[tokio::test(flavor = "multi_thread")]
async fn one_stream_s_fault_stops_no_other() {
    let Some(stand) = Stand::private("one_stream_s_fault_stops_no_other").await else { return };
    let _: String = stand.ask(&["SET", &stand.stream("string"), "x"]).await;
    let pattern = format!("~{}[^f]*", stand.prefix);
    let _: String = stand.ask(&["ACL", "SETUSER", "some", "on", ">p", &pattern, "+@all"]).await;
    let url = stand.url.replace("redis://", "redis://some:p@");
    let target = RedisBroker::at(&format!("{url}?prefix={}", stand.prefix)).unwrap();
    assert!(target.ping().await.is_ok());
    let events = ["a", "string", "b", "forbidden", "c"].map(|topic| event(topic, topic));
    let answers = send(&target, events.to_vec()).await;
    assert!([0, 2, 4].iter().all(|index| answers[*index].is_ok()), "{answers:?}");
    for (index, code, says) in
        [(1, "redis WRONGTYPE", "something else than a stream"), (3, "redis NOPERM", "ACL")]
    {
        let error = answers[index].as_ref().unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Failed, code), "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}

/// A server that is full, that may not write its disk, or that is a replica takes nothing from anybody: the lane waits, the probe
/// says so, and both end with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_unavailable_until_it_does() {
    let Some(stand) = Stand::private("a_server_that_takes_no_writes_is_unavailable").await else { return };
    let target = stand.open("");
    assert!(target.ping().await.is_ok());
    let table: [(&[&str], &str, &[&str]); 3] = [
        (&["CONFIG", "SET", "maxmemory", "1"], "OOM", &["CONFIG", "SET", "maxmemory", "0"]),
        (&["REPLICAOF", "127.0.0.1", "1"], "READONLY", &["REPLICAOF", "NO", "ONE"]),
        (
            &["CONFIG", "SET", "min-replicas-to-write", "1"],
            "NOREPLICAS",
            &["CONFIG", "SET", "min-replicas-to-write", "0"],
        ),
    ];
    for (cause, code, cure) in table {
        let _: String = stand.ask(cause).await;
        let (kind, found, message) = refusal(&target).await;
        assert_eq!((kind, found), (DeliverKind::Unavailable, format!("redis {code}")), "{message}");
        assert!(target.ping().await.unwrap_err().to_string().contains(code));
        let _: String = stand.ask(cure).await;
        assert!(target.ping().await.is_ok());
        assert!(send(&target, vec![event("1", "t")]).await[0].is_ok());
    }
}

/// A server that could not write its snapshot takes no writes: the lane waits and is told to look at the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_write_its_disk_is_unavailable_until_it_can() {
    let name = "a_server_that_cannot_write_its_disk_is_unavailable_until_it_can";
    let Some(mut stand) = Stand::private(name).await else { return };
    let target = stand.open("");
    assert!(send(&target, vec![event("1", "t")]).await[0].is_ok());
    let _: String = stand.ask(&["CONFIG", "SET", "save", "3600 1000000"]).await;
    // A snapshot is written beside, and cannot be put in the place of a folder, not even by root.
    let snapshot = stand.server().folder().join("dump.rdb");
    std::fs::create_dir(&snapshot).unwrap();
    save(&stand, "err").await;
    let (kind, code, message) = refusal(&target).await;
    assert_eq!((kind, code.as_str()), (DeliverKind::Unavailable, "redis MISCONF"), "{message}");
    assert!(message.contains("disk"), "{message}");
    assert!(target.ping().await.unwrap_err().to_string().contains("MISCONF"));
    std::fs::remove_dir(&snapshot).unwrap();
    save(&stand, "ok").await;
    assert!(target.ping().await.is_ok());
    assert!(send(&target, vec![event("2", "t")]).await[0].is_ok());
}

/// Has a snapshot made, again and again until it ends like this.
async fn save(stand: &Stand, status: &str) {
    let (wanted, at_rest) = (format!("rdb_last_bgsave_status:{status}"), "rdb_bgsave_in_progress:0");
    until("the snapshot has ended like that", async || {
        let info: String = stand.ask(&["INFO", "persistence"]).await;
        if info.contains(at_rest) && !info.contains(&wanted) {
            // SCHEDULE: also while the append-only file is rewritten.
            let _: String = stand.ask(&["BGSAVE", "SCHEDULE"]).await;
        }
        info.contains(at_rest) && info.contains(&wanted)
    })
    .await;
}

/// Replicas that are wanted and not there keep an event from counting as delivered.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_waits_for_its_replicas() {
    let Some(stand) = Stand::shared("an_event_waits_for_its_replicas").await else { return };
    let answers = send(&stand.open("replicas=1&answer_timeout=4s"), vec![event("1", "t")]).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!((error.kind, error.code.as_str()), (DeliverKind::Unavailable, "replicas"), "{error}");
    stand.clear().await;
}

/// Counts how often it is asked whether it would take events.
struct Probed(RedisBroker, Arc<AtomicUsize>);

impl Target for Probed {
    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn deliver(&self, burst: Vec<Parcel>) -> BoxStream<'_, Answer> {
        self.0.deliver(burst)
    }

    fn ping(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let pong = self.0.ping().await;
            self.1.fetch_add(1, Ordering::SeqCst);
            pong
        })
    }
}

/// While a replica is away nothing counts as delivered, and nothing is added a second time either; when it is there, all of it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_replica_does_not_fill_the_stream() {
    let trial = "a_missing_replica_does_not_fill_the_stream";
    let (Some(stand), Some(replica)) = (Stand::private(trial).await, Stand::private(trial).await) else {
        return;
    };
    let probes = Arc::new(AtomicUsize::new(0));
    let target = Probed(stand.open("replicas=1&answer_timeout=4s"), Arc::clone(&probes));
    let relaying = Relaying::start(target).await;
    relaying.publish((0..20).map(|n| event(n.to_string(), "t"))).await;
    until("it was asked several times", async || probes.load(Ordering::SeqCst) >= 3).await;
    let stream = stand.stream("t");
    assert_eq!(stand.ask::<usize>(&["XLEN", &stream]).await, 20, "each was added once");
    let at = address(&stand.url);
    let _: String = replica.ask(&["REPLICAOF", &at.ip().to_string(), &at.port().to_string()]).await;
    until("everything is delivered", async || relaying.delivered().await == 20).await;
    assert_eq!(stand.ask::<usize>(&["XLEN", &stream]).await, 40, "and once more when that was of use");
    relaying.stop().await;
}
