//! The incident of the docs, as it stands there: a queue is deleted, events die, an operator finds out why, mends it and brings
//! them back. Only the broker's address, the exchange and the queue are other ones.

pub(crate) mod page;

use std::time::{Duration, Instant};

use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use posthaste::envelope::fresh_id;
use serde_json::Value;

use crate::cli::folder::{Folder, Running};
use page::Page;

/// How long the relay may take for what it does by itself.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_incident_answers_what_the_page_says() {
    const VARIABLE: &str = "POSTHASTE_TEST_RABBITMQ";
    let trial = "every_command_of_the_incident_answers_what_the_page_says";
    let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
        return crate::http_process::skip::say(trial, &format!("{VARIABLE} is not set"));
    };
    let server = server.into_string().unwrap();
    let connection = Connection::connect(&server, ConnectionProperties::default()).await.unwrap();
    let shop =
        Shop { channel: connection.create_channel().await.unwrap(), name: format!("shop-{}", fresh_id()) };
    shop.open().await;

    let folder = Folder::new();
    let mut page = Page::read(&shop.name);
    let config = page
        .block("toml")
        .replace("amqp://localhost?exchange=shop", &format!("{server}?exchange={}", shop.name));
    folder.write("posthaste.toml", config);
    let mut relay = Running(folder.command(&["relay"]).spawn().unwrap());

    order(&folder, 1..=3);
    until(&folder, |mail| mail["delivered"] == 3);
    shop.delete_queue().await;
    order(&folder, 4..=7);
    until(&folder, |mail| mail["dead"] == 4 && mail["unread"] == 0 && mail["waiting"] == 0);

    page.answers_as_it_says(&folder, "");
    let codes = page.answers_as_it_says(&folder, "");
    let example = codes.split_whitespace().last().unwrap();
    page.answers_as_it_says(&folder, example);

    page.answers_as_it_says(&folder, "");
    until(&folder, |mail| mail["owner"].is_null());
    order(&folder, 8..=9);
    page.answers_as_it_says(&folder, "");
    shop.make_queue().await;
    page.answers_as_it_says(&folder, "");

    page.answers_as_it_says(&folder, "");
    until(&folder, |mail| mail["delivered"] == 9);
    page.answers_as_it_says(&folder, "");
    page.answers_as_it_says(&folder, "");
    page.ends();

    relay.signal("TERM");
    assert_eq!(relay.code(), 0);
    // The first three went with the queue; every later order is in the new one, once.
    assert_eq!(shop.orders().await, [4, 5, 6, 7, 8, 9]);
    shop.close().await;
}

fn order(folder: &Folder, numbers: std::ops::RangeInclusive<u32>) {
    for number in numbers {
        folder.publish("order.placed", &format!("{{\"order\":{number}}}"));
    }
}

/// Waits until this is so of the lane.
#[track_caller]
fn until(folder: &Folder, is_so: impl Fn(&Value) -> bool) {
    let end = Instant::now() + DEADLINE;
    loop {
        let lanes = folder.json(&["lane", "list"]);
        if is_so(&lanes["lanes"][0]) {
            return;
        }
        assert!(Instant::now() < end, "waited too long: {lanes:#}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// The exchange of a shop, and its queue of the same name.
struct Shop {
    channel: Channel,
    name: String,
}

impl Shop {
    async fn open(&self) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let name = self.name.as_str();
        self.channel
            .exchange_declare(name.into(), ExchangeKind::Topic, options, FieldTable::default())
            .await
            .unwrap();
        self.make_queue().await;
    }

    async fn make_queue(&self) {
        let name = self.name.as_str();
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.into(), durable, FieldTable::default()).await.unwrap();
        let (options, none) = (QueueBindOptions::default(), FieldTable::default());
        self.channel.queue_bind(name.into(), name.into(), "order.#".into(), options, none).await.unwrap();
    }

    async fn delete_queue(&self) {
        self.channel.queue_delete(self.name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// The numbers of the orders in the queue, sorted.
    async fn orders(&self) -> Vec<u64> {
        let mut orders = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(message) = self.channel.basic_get(self.name.as_str().into(), options).await.unwrap() {
            let order: Value = serde_json::from_slice(&message.delivery.data).unwrap();
            orders.push(order["order"].as_u64().unwrap());
        }
        orders.sort_unstable();
        orders
    }

    async fn close(&self) {
        self.delete_queue().await;
        let options = ExchangeDeleteOptions::default();
        self.channel.exchange_delete(self.name.as_str().into(), options).await.unwrap();
    }
}
