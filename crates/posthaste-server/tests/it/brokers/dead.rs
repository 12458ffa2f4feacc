//! `posthaste dead … --broker`: a poison event is listed with its reason, counted, shown, and brought back; with the broker's URL, by
//! the name of a target, and through a server.

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt as _;
use posthaste::broker::{Broker, Feed, FeedSpec, Reason};
use posthaste::envelope::{Envelope, fresh_id};
use posthaste::store::Parcel;
use posthaste::time::Timestamp;
use serde_json::Value;

use crate::cli::folder::{Answer, Folder, Running};
use crate::cli::serving;
use crate::http_process::skip;

const OPERATORS: &str = "[server]\noperators = [\"first\"]\n";

struct Group {
    url: String,
    name: String,
    folder: Folder,
    /// Its tasks work for the feed.
    _broker: Arc<dyn Broker>,
}

impl Group {
    /// Of this broker, as it is named on the command line.
    fn command(&self, broker: &str, verb: &[&str]) -> Command {
        let at = ["--broker", broker, "--group", &self.name];
        self.folder.command(&[&["dead"], verb, &at].concat())
    }

    fn dead(&self, verb: &[&str]) -> Output {
        self.command(&self.url, verb).output().unwrap()
    }

    fn json(&self, verb: &[&str]) -> Value {
        self.json_at(&self.url, verb)
    }

    fn json_at(&self, broker: &str, verb: &[&str]) -> Value {
        let answer = self.command(broker, &[verb, &["--output", "json"]].concat()).output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        serde_json::from_slice(&answer.stdout).unwrap()
    }

    /// A server that knows the broker as its target `mail`, and its address.
    fn serve(&self) -> (Running, String) {
        let target = format!("{OPERATORS}[targets.mail]\nurl = \"{}\"\n", self.url);
        self.folder.write("posthaste.toml", target);
        serving::serve(&self.folder)
    }
}

/// A broker, and what to write after its URL so that nobody else's events are found there.
struct Place {
    variable: &'static str,
    settings: fn(name: &str) -> String,
    /// Whether what is published before somebody reads is nobody's.
    forgets: bool,
}

const RABBITMQ: Place =
    Place { variable: "POSTHASTE_TEST_RABBITMQ", settings: |name| format!("exchange={name}"), forgets: true };

const NATS: Place = Place {
    variable: "POSTHASTE_TEST_NATS",
    settings: |name| format!("prefix={name}&stream={name}&create_stream=true"),
    forgets: false,
};

const REDIS: Place =
    Place { variable: "POSTHASTE_TEST_REDIS", settings: |name| format!("prefix={name}:"), forgets: false };

#[cfg(feature = "kafka")]
const KAFKA: Place = Place {
    variable: "POSTHASTE_TEST_KAFKA",
    settings: |name| format!("prefix={name}.&create_topics=1"),
    forgets: false,
};

/// A group with these events dead, and its feed; `None`, said on stderr, where there is no broker.
async fn group_of_dead(trial: &str, place: &Place, ids: &[String]) -> Option<(Group, Box<dyn Feed>)> {
    let Some(server) = std::env::var_os(place.variable).filter(|url| !url.is_empty()) else {
        // Of all servers only this one need not be there.
        if place.variable == "POSTHASTE_TEST_KAFKA" {
            eprintln!("skipped: {trial}: {} is not set", place.variable);
        } else {
            skip::say(trial, &format!("{} is not set", place.variable));
        }
        return None;
    };
    let name = format!("t-{}", fresh_id());
    let url = format!("{}?{}", server.into_string().unwrap(), (place.settings)(&name));
    let broker = posthaste::broker::open(&url).await.unwrap();
    let spec = FeedSpec::new(&name, vec!["orders".parse().unwrap()]).prefetch(1_000);
    let mut feed = None;
    if place.forgets {
        feed = Some(broker.feed(&spec).await.unwrap());
    }
    publish(&url, ids).await;
    let mut feed = match feed {
        Some(feed) => feed,
        None => broker.feed(&spec).await.unwrap(),
    };
    bury(&mut *feed, ids.len()).await;
    Some((Group { url, name, folder: Folder::new(), _broker: broker }, feed))
}

async fn publish(url: &str, ids: &[String]) {
    let target = posthaste::target::open(url).unwrap();
    let parcels = ids.iter().map(|id| {
        let mut event = Envelope::new("order.placed", "{\"order\":7}");
        (event.id, event.topic) = (id.clone(), "orders".to_owned());
        Parcel::new(Arc::new(event), 1, false, Timestamp::default())
    });
    let answers: Vec<_> = target.deliver(parcels.collect()).collect().await;
    assert!(answers.iter().all(|answer| answer.result.is_ok()), "{answers:?}");
}

async fn bury(feed: &mut dyn Feed, mut left: usize) {
    while left > 0 {
        let deliveries = feed.next(left).await.unwrap();
        left -= deliveries.len();
        let burials = deliveries.into_iter().map(|delivery| {
            let reason = Reason::new("smell", format!("{} smells", delivery.envelope.id));
            delivery.receipt.bury(reason)
        });
        futures_util::future::try_join_all(burials).await.unwrap();
    }
}

/// Listed, counted, shown, brought back and given up: by the URL, by the name of a target, and through a server.
async fn operated(trial: &str, place: &Place) {
    let ids = ["poison", "rubbish", "waste", "slow-1", "slow-2", "slow-3", "slow-4"].map(str::to_owned);
    let Some((group, mut feed)) = group_of_dead(trial, place, &ids).await else { return };
    let listed = String::from_utf8(group.dead(&["list"]).stdout).unwrap();
    assert!(
        listed.contains("poison") && listed.contains("smell") && listed.contains("rubbish smells"),
        "{listed}"
    );
    let shown = String::from_utf8(group.dead(&["show", "poison"]).stdout).unwrap();
    assert!(shown.contains("{\"order\":7}") && shown.contains("poison smells"), "{shown}");
    assert!(
        shown.contains("history") && shown.contains(&format!("dead in {}: smell", group.name)),
        "{shown}"
    );
    let counted = group.json(&["redrive", "--id", "poison", "--dry-run"]);
    assert_eq!((&counted["matched"], &counted["changed"]), (&1.into(), &0.into()), "{counted}");
    assert_eq!(counted["partial"], false, "{counted}");
    let unasked = group.dead(&["redrive", "--id", "poison"]);
    assert_eq!(unasked.status.code(), Some(2), "without --yes nothing is done");
    assert_eq!(group.json(&["redrive", "--id", "poison", "--yes"])["changed"], 1);
    let back = feed.next(1).await.unwrap().remove(0);
    assert_eq!(back.envelope.id, "poison", "it came back");
    back.receipt.ack().await.unwrap();

    // Four at two a second: the first step is at once, the others wait.
    let begun = Instant::now();
    let slow = ["slow-1", "slow-2", "slow-3", "slow-4"].map(|id| ["--id", id]).concat();
    assert_eq!(group.json(&[&["redrive", "--yes", "--rate", "2/s"], &slow[..]].concat())["changed"], 4);
    assert!(begun.elapsed().as_millis() >= 1_500, "{:?}", begun.elapsed());
    let mut left = 4;
    while left > 0 {
        for delivery in feed.next(left).await.unwrap() {
            left -= 1;
            delivery.receipt.ack().await.unwrap();
        }
    }

    let (mut server, address) = group.serve();
    let by_name = group.json_at("mail", &["list"]);
    assert_eq!(by_name["events"].as_array().unwrap().len(), 2, "{by_name:#}");
    let through = ["--server", &format!("http://{address}")];
    let ask = |verb: &[&str]| group.json_at("mail", &[verb, &through].concat());
    assert_eq!(ask(&["list"])["events"], by_name["events"]);
    assert_eq!(ask(&["list", "--by", "code"])["codes"][0]["events"], 2);
    assert_eq!(ask(&["show", "rubbish"])["data"]["order"], 7);
    assert_eq!(ask(&["redrive", "--dry-run"])["matched"], 2);
    assert_eq!(ask(&["discard", "--id", "waste", "--yes"])["changed"], 1);
    let by_url = group.command(&group.url, &[&["list"], &through[..]].concat()).output().unwrap();
    Answer::from(by_url).assert_failed(2, &["names of its targets"]);
    server.signal("TERM");
    assert_eq!(server.code(), 0);
    let unknown = group.command("post", &["list"]).output().unwrap();
    Answer::from(unknown).assert_failed(3, &["there is no target \"post\""]);

    assert_eq!(group.json_at("mail", &["discard", "--yes"])["changed"], 1);
    assert_eq!(group.json(&["list"])["events"], Value::Array(Vec::new()));
    assert_eq!(group.dead(&["redrive", "--yes"]).status.code(), Some(6), "nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_operated_in_rabbitmq() {
    operated("dead_letters_are_operated_in_rabbitmq", &RABBITMQ).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_operated_in_nats() {
    operated("dead_letters_are_operated_in_nats", &NATS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_operated_in_redis() {
    operated("dead_letters_are_operated_in_redis", &REDIS).await;
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_operated_in_kafka() {
    operated("dead_letters_are_operated_in_kafka", &KAFKA).await;
}

#[test]
fn a_broker_that_is_away_is_no_store_that_is_away() {
    let folder = Folder::new();
    let away = ["dead", "list", "--broker", "amqp://127.0.0.1:1", "--group", "g"];
    // The client may have said before that it goes on trying.
    let answer = folder.run(&away);
    assert_eq!(answer.code, 5, "{}", answer.stderr);
    assert!(answer.stderr.contains("error: failed to list dead events"), "{}", answer.stderr);
}

/// A look has its limits: what it counted is told as a part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_that_stops_at_its_limit_says_so() {
    let ids: Vec<String> = (0..10_001).map(|number| format!("e-{number:05}")).collect();
    let trial = "a_count_that_stops_at_its_limit_says_so";
    let Some((group, _feed)) = group_of_dead(trial, &REDIS, &ids).await else { return };
    let counted = group.json(&["discard", "--dry-run"]);
    assert_eq!((&counted["matched"], &counted["partial"]), (&10_000.into(), &true.into()), "{counted:.200}");
    let asked = Answer::from(group.dead(&["discard"]));
    asked.assert_failed(2, &["discard at least 10000 dead events"]);
    assert_eq!(group.json(&["discard", "--yes"])["changed"], 10_001);
}

/// A redrive of many is stopped by a signal as soon as the first came back: it says how far it came, and everything is either back
/// in its queue or still dead, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_that_is_stopped_says_how_far_it_came_and_leaves_the_rest_dead() {
    let all: Vec<String> = (0..2_000).map(|number| format!("e-{number:04}")).collect();
    let Some((group, mut feed)) = group_of_dead("a_redrive_that_is_stopped", &RABBITMQ, &all).await else {
        return;
    };
    let mut redrive = group.command(&group.url, &["redrive", "--yes", "--output", "json"]);
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
