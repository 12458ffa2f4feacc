//! Faults of a RabbitMQ and of the queues of a group.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::options::{
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use posthaste::broker::amqp::AmqpBroker;
use posthaste::broker::{Broker as _, FeedSpec};
use posthaste::envelope::fresh_id;
use posthaste_testservers::{Interrupt, Kind, Run, Server};

use crate::cli::folder::Folder;
use crate::doctor::seen::{Seen, doctor};
use crate::http_process::skip;

/// A name of its own at the broker, and a channel.
struct Place {
    name: String,
    url: String,
    folder: Folder,
    channel: Channel,
    _connection: Connection,
}

impl Place {
    /// `None`: there is no broker, and the trial was said to be skipped.
    async fn new(trial: &str) -> Option<Self> {
        const VARIABLE: &str = "POSTHASTE_TEST_RABBITMQ";
        let Some(server) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
            skip::say(trial, &format!("{VARIABLE} is not set"));
            return None;
        };
        let server = server.into_string().unwrap();
        let connection = Connection::connect(&server, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let name = format!("doctor-{}", fresh_id());
        let url = format!("{server}?exchange={name}");
        let place = Self { name, url, folder: Folder::new(), channel, _connection: connection };
        place.configure("");
        Some(place)
    }

    fn configure(&self, more: &str) {
        self.folder.write("posthaste.toml", format!("[lanes.main]\nto = \"{}{more}\"\n", self.url));
    }

    async fn declare(&self, durable: bool) {
        let options = ExchangeDeclareOptions { durable, ..ExchangeDeclareOptions::default() };
        let name = self.name.as_str();
        self.channel
            .exchange_declare(name.into(), ExchangeKind::Topic, options, FieldTable::default())
            .await
            .unwrap();
    }

    async fn delete(&self) {
        self.channel
            .exchange_delete(self.name.as_str().into(), ExchangeDeleteOptions::default())
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_is_missing_or_not_durable_is_found() {
    let Some(place) = Place::new("rabbitmq::an_exchange_that_is_missing_or_not_durable_is_found").await
    else {
        return;
    };
    let missing = doctor(&place.folder, &[]);
    let command = missing.bad("main: exchange", "failure").command();
    assert_eq!(
        command,
        format!("rabbitmqadmin declare exchange name={} type=topic durable=true", place.name)
    );
    place.declare(false).await;
    let command = doctor(&place.folder, &[]).bad("main: exchange", "failure").command();
    assert!(command.contains("delete exchange") && command.contains("durable=true"), "{command}");
    // What the command does, which need not be installed here.
    place.delete().await;
    place.declare(true).await;
    doctor(&place.folder, &[]).all_ok();
    place.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_loses_events_is_found() {
    let Some(place) = Place::new("rabbitmq::a_setting_that_loses_events_is_found").await else { return };
    place.declare(true).await;
    place.configure("&unrouted=drop");
    let words = doctor(&place.folder, &[]).bad("unrouted events", "warning").words();
    assert!(words.contains("take unrouted=drop out"), "{words}");
    place.configure("");
    doctor(&place.folder, &[]).all_ok();
    place.delete().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_found_and_its_password_kept() {
    let folder = Folder::new();
    folder.write(
        "posthaste.toml",
        "[targets.b]\nurl = \"amqp://me:hunter2@127.0.0.1:9\"\n[lanes.main]\nto = \"b\"\n",
    );
    let seen = doctor(&folder, &[]);
    assert!(seen.text().contains("\"failure\"") && !seen.text().contains("hunter2"), "{}", seen.text());
    seen.ok("configuration");
    seen.ok("store");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_of_a_group_that_are_missing_or_not_durable_are_found() {
    let trial = "rabbitmq::queues_of_a_group_that_are_missing_or_not_durable_are_found";
    let Some(place) = Place::new(trial).await else { return };
    let broker = AmqpBroker::at(&place.url).unwrap();
    let spec = FeedSpec::new(&place.name, vec!["orders".parse().unwrap()]);
    drop(broker.feed(&spec).await.unwrap());
    let look = || doctor(&place.folder, &["--group", &place.name]);
    look().all_ok();
    let queue = format!("{}.orders", place.name);
    place.channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    let words = look().bad(&queue, "failure").words();
    assert!(words.contains("start the consumer"), "{words}");
    // Looking has not made it.
    look().bad(&queue, "failure");
    let gone_with_the_broker = QueueDeclareOptions { durable: false, ..QueueDeclareOptions::default() };
    place
        .channel
        .queue_declare(queue.as_str().into(), gone_with_the_broker, FieldTable::default())
        .await
        .unwrap();
    let words = look().bad(&queue, "failure").words();
    assert!(words.contains(&format!("rabbitmqctl delete_queue {queue}")), "{words}");
    place.channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    drop(broker.feed(&spec).await.unwrap());
    look().all_ok();
    for name in ["", ".dlq", ".retry.0", ".retry.1", ".retry.2"] {
        let name = format!("{queue}{name}");
        place.channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }
    for name in ["topics", "trials"] {
        let name = format!("{}.{name}", place.name);
        place.channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    }
    place.delete().await;
}

#[test]
fn a_broker_that_lacks_disk_is_found() {
    if !Kind::Rabbitmq.is_installed() {
        skip::say("rabbitmq::a_broker_that_lacks_disk_is_found", "RabbitMQ is not installed");
        return;
    }
    let run = Arc::new(Run::private(&Interrupt::default()).unwrap());
    let mut server = Server::new(Kind::Rabbitmq, &run, None).unwrap();
    server.start().unwrap();
    let folder = Folder::new();
    folder.write("posthaste.toml", format!("[lanes.main]\nto = \"{}?exchange=amq.topic\"\n", server.url()));
    doctor(&folder, &[]).ok("confirms");
    server.control(&["set_disk_free_limit", "1000000GB"]).unwrap();
    // The broker raises and clears an alarm in its own time.
    let seen = until(&folder, |seen| seen.text().contains("takes nothing from publishers"));
    assert!(seen.bad("confirms", "failure").words().contains("memory or disk"), "{}", seen.text());
    server.control(&["set_disk_free_limit", "50MB"]).unwrap();
    until(&folder, |seen| !seen.text().contains("\"failure\"")).ok("confirms");
}

/// Asks the doctor until this is so.
fn until(folder: &Folder, is_so: impl Fn(&Seen) -> bool) -> Seen {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let seen = doctor(folder, &[]);
        if is_so(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "waited too long: {}", seen.text());
    }
}
