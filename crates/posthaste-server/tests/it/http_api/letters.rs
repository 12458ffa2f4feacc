//! Brokers' dead letters over REST: by the name of a target, in the words that there are for a lane's.

use std::sync::Arc;

use futures_util::StreamExt as _;
use posthaste::admin::Admin;
use posthaste::broker::{Broker as _, FeedSpec, LocalBroker, Reason};
use posthaste::envelope::Envelope;
use posthaste::store::Parcel;
use posthaste::target::Target as _;
use posthaste::time::Timestamp;
use posthaste_server::http::Letters;
use serde_json::Value;

use crate::http_api::client::Client;
use crate::http_api::stand::Stand;

/// A server that knows a broker as its target `mail`, whose group `stock` has two dead letters.
async fn stand() -> Stand {
    let broker = LocalBroker::new();
    let spec = FeedSpec::new("stock", vec!["orders".parse().expect("a pattern")]).prefetch(10);
    let mut feed = broker.feed(&spec).await.expect("it needs nothing");
    let parcels = ["poison", "rubbish"].map(|id| {
        let mut event = Envelope::new("order.placed", "{\"order\":7}");
        (event.id, event.topic) = (id.to_owned(), "orders".to_owned());
        Parcel::new(Arc::new(event), 1, false, Timestamp::default())
    });
    let answers: Vec<_> = broker.deliver(parcels.into()).collect().await;
    assert!(answers.iter().all(|answer| answer.result.is_ok()));
    for _ in 0..2 {
        let delivery = feed.next(1).await.expect("it answers").remove(0);
        let reason = Reason::new("smell", format!("{} smells", delivery.envelope.id));
        delivery.receipt.bury(reason).await.expect("it is buried");
    }
    drop(feed);
    let letters: Arc<dyn Admin> = Arc::new(broker);
    Stand::beside([("mail".to_owned(), letters)].into_iter().collect::<Letters>()).await
}

async fn give(client: &Client, command: &str) -> crate::http_api::client::Answer {
    client.ask("POST", &format!("/v1/commands/{command}"), &[], b"").await
}

/// A record in short.
fn told_of(entry: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (broker, group) = (word(&entry["filter"]["broker"]), word(&entry["filter"]["group"]));
    format!("{} {} at {broker} of {group}", word(&entry["verb"]), entry["changed"])
}

#[tokio::test]
async fn dead_letters_of_a_target_are_listed_counted_shown_redriven_and_discarded() {
    let stand = stand().await;
    let at = "broker=mail&group=stock";
    let listed = stand.client.get(&format!("/v1/dead?{at}&error=SMELLS")).await.json();
    assert_eq!(listed["events"].as_array().map(Vec::len), Some(2), "{listed}");
    let codes = stand.client.get(&format!("/v1/dead/codes?{at}")).await.json();
    assert_eq!((&codes["codes"][0]["code"], &codes["codes"][0]["events"]), (&"smell".into(), &2.into()));
    let shown = stand.client.get(&format!("/v1/events/poison?{at}")).await.json();
    assert_eq!(
        (&shown["data"]["order"], &shown["lanes"][0]["last_error"]),
        (&7.into(), &"poison smells".into())
    );
    assert!(shown["history"].to_string().contains("dead"), "{shown}");
    stand.client.get(&format!("/v1/events/nobody?{at}")).await.problem(404);

    give(&stand.client, &format!("redrive?{at}&yes=true")).await.problem(403);
    let counted = give(&stand.operator, &format!("redrive?{at}&id=poison&dry_run=true")).await.json();
    assert_eq!(
        (&counted["matched"], &counted["sample"][0]["id"]),
        (&1.into(), &"poison".into()),
        "{counted}"
    );
    let unasked = give(&stand.operator, &format!("redrive?{at}&id=poison")).await;
    assert!(unasked.problem(428).contains("yes=true"), "handlers would run again");
    let redriven = give(&stand.operator, &format!("redrive?{at}&id=poison&rate=100/s&yes=true")).await.json();
    assert_eq!(redriven["changed"], 1, "{redriven}");
    let discarded = give(&stand.operator, &format!("discard?{at}&reason=left&yes=true")).await.json();
    assert_eq!(discarded["changed"], 1, "{discarded}");
    let record = stand.client.get("/v1/audit").await.json();
    let told: Vec<_> = record["entries"].as_array().into_iter().flatten().map(told_of).collect();
    assert_eq!(told, ["discard 1 at mail of stock", "redrive 1 at mail of stock"], "{record}");
    let left = stand.client.get(&format!("/v1/dead?{at}")).await.json();
    assert_eq!(left["events"].as_array().map(Vec::len), Some(0), "{left}");
    stand.stopped().await;
}

#[tokio::test]
async fn a_target_that_is_not_there_and_half_a_place_are_refused() {
    let stand = stand().await;
    for path in ["/v1/dead?", "/v1/dead/codes?", "/v1/events/poison?"] {
        let unknown = stand.client.get(&format!("{path}broker=other&group=stock")).await;
        assert!(unknown.problem(404).contains("mail"), "{}", unknown.text());
        stand.client.get(&format!("{path}broker=mail")).await.problem(400);
        stand.client.get(&format!("{path}group=stock")).await.problem(400);
    }
    stand.client.get("/v1/dead?broker=mail&group=stock&lane=main").await.problem(400);
    stand.stopped().await;
}

/// The same list without a broker: what died in the store.
#[tokio::test]
async fn without_a_broker_the_dead_are_those_of_the_store() {
    let stand = stand().await;
    stand.client.publish(r#"{"type":"x"}"#).await;
    let listed = stand.client.get("/v1/dead").await.json();
    assert_eq!(listed["events"].as_array().map(Vec::len), Some(0), "{listed}");
    stand.client.get("/v1/dead?state=pending").await.problem(400);
    stand.stopped().await;
}
