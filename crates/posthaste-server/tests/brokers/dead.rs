//! `posthaste dead … --broker`: a poison event is listed with its reason, counted, shown, and brought back.

use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use futures_util::StreamExt as _;
use posthaste::broker::amqp::AmqpBroker;
use posthaste::broker::{Broker as _, Feed, FeedSpec, Reason};
use posthaste::envelope::{Envelope, fresh_id};
use posthaste::store::Parcel;
use posthaste::target::Target as _;
use posthaste::time::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

struct Group {
    url: String,
    name: String,
    /// Without a configuration in it.
    folder: TempDir,
}

impl Group {
    fn command(&self, verb: &[&str]) -> Command {
        let mut posthaste = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        posthaste.current_dir(self.folder.path()).arg("dead").args(verb);
        posthaste.args(["--broker", &self.url, "--group", &self.name]);
        posthaste
    }

    fn dead(&self, verb: &[&str]) -> Output {
        self.command(verb).output().unwrap()
    }

    fn json(&self, verb: &[&str]) -> Value {
        let answer = self.dead(&[verb, &["--output", "json"]].concat());
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        serde_json::from_slice(&answer.stdout).unwrap()
    }
}

/// A group with these events dead, and its feed; `None`, said on stderr, where there is no broker.
#[expect(clippy::disallowed_methods, reason = "tests learn from the environment where their servers are")]
async fn group_of_dead(trial: &str, ids: &[String]) -> Option<(Group, Box<dyn Feed>)> {
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let Ok(server) = std::env::var("POSTHASTE_TEST_RABBITMQ") else {
        assert!(!ci, "POSTHASTE_TEST_RABBITMQ is not set");
        eprintln!("skipped: {trial}: POSTHASTE_TEST_RABBITMQ is not set");
        return None;
    };
    let name = format!("t-{}", fresh_id());
    let group =
        Group { url: format!("{server}?exchange={name}"), name, folder: tempfile::tempdir().unwrap() };
    let broker = AmqpBroker::at(&group.url).unwrap();
    let spec = FeedSpec::new(&group.name, vec!["orders".parse().unwrap()]).prefetch(1_000);
    let mut feed = broker.feed(&spec).await.unwrap();
    let parcels = ids.iter().map(|id| {
        let mut event = Envelope::new("order.placed", "{\"order\":7}");
        (event.id, event.topic) = (id.clone(), "orders".to_owned());
        Parcel::new(Arc::new(event), 1, false, Timestamp::default())
    });
    let answers: Vec<_> = broker.deliver(parcels.collect()).collect().await;
    assert!(answers.iter().all(|answer| answer.result.is_ok()));
    let mut left = ids.len();
    while left > 0 {
        let deliveries = feed.next(left).await.unwrap();
        left -= deliveries.len();
        let burials = deliveries.into_iter().map(|delivery| {
            let reason = Reason::new("smell", format!("{} smells", delivery.envelope.id));
            delivery.receipt.bury(reason)
        });
        futures_util::future::try_join_all(burials).await.unwrap();
    }
    Some((group, feed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_of_a_group_are_listed_shown_redriven_and_discarded() {
    let dead = ["poison", "rubbish"].map(str::to_owned);
    let Some((group, mut feed)) = group_of_dead("dead_letters_of_a_group", &dead).await else { return };

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
    let wrong = Group { url: "amqp://127.0.0.1:1".to_owned(), ..group }.dead(&["list"]);
    assert_eq!(wrong.status.code(), Some(5), "{}", String::from_utf8_lossy(&wrong.stderr));
}

/// A redrive of many is stopped by a signal as soon as the first came back: it says how far it came, and everything is either back
/// in its queue or still dead, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_that_is_stopped_says_how_far_it_came_and_leaves_the_rest_dead() {
    let all: Vec<String> = (0..2_000).map(|number| format!("e-{number:04}")).collect();
    let Some((group, mut feed)) = group_of_dead("a_redrive_that_is_stopped", &all).await else { return };
    let mut redrive = group.command(&["redrive", "--yes", "--output", "json"]);
    let redrive = redrive.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let first = feed.next(1).await.unwrap();
    let kill = Command::new("kill").args(["-INT", &redrive.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let answer = tokio::task::block_in_place(|| redrive.wait_with_output()).unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let said: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&said["matched"], &said["stopped"]), (&2_000.into(), &true.into()), "{said}");
    let changed = usize::try_from(said["changed"].as_u64().unwrap()).unwrap();
    assert!(changed > 0 && changed < 2_000, "{said}");
    let (mut back, mut deliveries) = (Vec::new(), first);
    loop {
        for delivery in deliveries {
            back.push(delivery.envelope.id.clone());
            delivery.receipt.ack().await.unwrap();
        }
        if back.len() >= changed {
            break;
        }
        deliveries = feed.next(1_000).await.unwrap();
    }
    assert_eq!(back, all[..changed], "the oldest came back, each once");
    let left = group.json(&["discard", "--dry-run"])["matched"].as_u64().unwrap();
    assert_eq!(left, 2_000 - changed as u64, "the others are dead as before");
}
