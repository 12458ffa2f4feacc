//! `posthaste dead … --broker`: a poison event is listed with its reason, counted, shown, and brought back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what its functions share")]

use std::process::{Command, Output};
use std::sync::Arc;

use futures_util::StreamExt as _;
use posthaste::broker::amqp::AmqpBroker;
use posthaste::broker::{Broker as _, FeedSpec, Reason};
use posthaste::envelope::{Envelope, fresh_id};
use posthaste::store::Parcel;
use posthaste::target::Target as _;
use posthaste::time::Timestamp;
use serde_json::Value;

struct Group {
    url: String,
    name: String,
}

impl Group {
    fn dead(&self, verb: &[&str]) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let mut posthaste = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        posthaste.current_dir(folder.path()).arg("dead").args(verb);
        posthaste.args(["--broker", &self.url, "--group", &self.name]).output().unwrap()
    }

    fn json(&self, verb: &[&str]) -> Value {
        let answer = self.dead(&[verb, &["--output", "json"]].concat());
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        serde_json::from_slice(&answer.stdout).unwrap()
    }
}

#[expect(clippy::disallowed_methods, reason = "tests learn from the environment where their servers are")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_a_group_are_listed_shown_redriven_and_discarded() {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let Ok(server) = std::env::var("POSTHASTE_TEST_RABBITMQ") else {
        assert!(!ci, "POSTHASTE_TEST_RABBITMQ is not set");
        eprintln!("skipped: dead_letters_of_a_group: POSTHASTE_TEST_RABBITMQ is not set");
        return;
    };
    let name = format!("t-{}", fresh_id());
    let group = Group { url: format!("{server}?exchange={name}"), name };
    let broker = AmqpBroker::at(&group.url).unwrap();
    let spec = FeedSpec::new(&group.name, vec!["orders".parse().unwrap()]);
    let mut feed = broker.feed(&spec).await.unwrap();
    for id in ["poison", "rubbish"] {
        let mut event = Envelope::new("order.placed", "{\"order\":7}");
        (event.id, event.topic) = (id.to_owned(), "orders".to_owned());
        let parcel = Parcel::new(Arc::new(event), 1, false, Timestamp::default());
        assert!(broker.deliver(vec![parcel]).next().await.unwrap().result.is_ok());
        let delivery = feed.next(1).await.unwrap().remove(0);
        delivery.receipt.bury(Reason::new("smell", format!("{id} smells"))).await.unwrap();
    }

    let listed = String::from_utf8(group.dead(&["list"]).stdout).unwrap();
    assert!(
        listed.contains("poison") && listed.contains("smell") && listed.contains("rubbish smells"),
        "{listed}"
    );
    let shown = String::from_utf8(group.dead(&["show", "poison"]).stdout).unwrap();
    assert!(shown.contains("{\"order\":7}") && shown.contains("poison smells"), "{shown}");
    let counted = group.json(&["redrive", "--id", "poison", "--dry-run"]);
    assert_eq!((&counted["matched"], &counted["changed"]), (&1.into(), &0.into()), "{counted}");
    let unasked = group.dead(&["redrive", "--id", "poison"]);
    assert_eq!(unasked.status.code(), Some(2), "without --yes nothing is done");
    assert_eq!(group.json(&["redrive", "--id", "poison", "--yes"])["changed"], 1);
    assert_eq!(feed.next(1).await.unwrap().remove(0).envelope.id, "poison", "it came back");
    assert_eq!(group.json(&["discard", "--yes"])["changed"], 1);
    assert_eq!(group.json(&["list"])["events"], Value::Array(Vec::new()));
    assert_eq!(group.dead(&["redrive", "--yes"]).status.code(), Some(6), "nothing is left");
    let wrong = Group { url: "amqp://127.0.0.1:1".to_owned(), name: "g".to_owned() }.dead(&["list"]);
    assert_eq!(wrong.status.code(), Some(5), "{}", String::from_utf8_lossy(&wrong.stderr));
}
