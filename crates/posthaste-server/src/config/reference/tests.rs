use super::*;
use crate::config::Config;
use crate::config::tree::Node;
use std::time::Duration;

fn load(variables: &[(&str, &str)]) -> (Result<Config, Vec<Problem>>, Vec<String>) {
    let environment = Environment::of(variables);
    let (mut settings, mut problems) = (defaults(), Vec::new());
    let notes = overlay(&environment, &mut settings, &mut problems);
    let config = Config::read(&settings);
    (if problems.is_empty() { config } else { Err(problems) }, notes)
}

#[test]
fn a_url_is_enough_and_the_rest_is_as_in_the_reference() {
    let (config, notes) = load(&[("STORAGE_URL", "postgres://u@localhost/d")]);
    let config = config.unwrap();
    let lane = config.lanes.values().next().unwrap();
    assert_eq!((lane.window, lane.to.as_str()), (Some(100), "stdout:"));
    assert_eq!(config.relay.lease, Duration::from_secs(180));
    assert_eq!(config.relay.poll_max, Duration::from_millis(500));
    assert_eq!(lane.retry, posthaste::retry::Backoff::open_outbox());
    assert_eq!(config.store.table.unwrap().profile.table.to_string(), "openoutbox_events");
    assert_eq!(config.server.admin_listen, None, "nobody is let in unless a port is named");
    assert_eq!(config.log.format, crate::config::log::LogFormat::Json);
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn every_variable_is_a_setting_or_says_why_not() {
    let (config, notes) = load(&[
        ("STORAGE_URL", "postgres://u@localhost/d"),
        ("STORAGE_TABLE_NAME", "events_2"),
        ("PUBLISHER_TYPE", "null"),
        ("BATCH_SIZE", "1000"),
        ("LEASE_TIMEOUT", "1m30s"),
        ("RETRY_MAX_ATTEMPTS", "7"),
        ("RETRY_JITTER", "0.5"),
        ("KAFKA_ASYNC", "false"),
        ("SERVER_PORT", ":8080"),
        ("STORAGE_TABEL_NAME", "x"),
        ("LEASE_TIMEUOT", "3m"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "30000"),
        ("METRIC_EXPORT_INTERVAL", "60000"),
    ]);
    let config = config.unwrap();
    let lane = config.lanes.values().next().unwrap();
    assert_eq!((lane.window, lane.to.as_str(), lane.retry.attempts_max()), (Some(1000), "null:", 7));
    assert_eq!(config.relay.lease, Duration::from_secs(90));
    assert_eq!(config.store.table.unwrap().profile.table.to_string(), "events_2");
    assert_eq!(config.server.admin_listen, Some("0.0.0.0:8080".parse().unwrap()));
    assert_eq!(notes.len(), 5, "{notes:?}");
    for says in [
        "STORAGE_TABEL_NAME is not a setting",
        "LEASE_TIMEUOT is not a setting",
        "OTEL_BSP_EXPORT_TIMEOUT has no effect: nothing is exported",
        "METRIC_EXPORT_INTERVAL has no effect: nothing is exported",
    ] {
        assert!(notes.iter().any(|note| note.contains(says)), "{says}: {notes:?}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    for (name, value, says) in [
        ("PUBLISHER_TYPE", "carrier-pigeon", "is not one of nats"),
        ("PUBLISHER_TYPE", "kafka", "needs PUBLISHER_URL"),
        ("STORAGE_TYPE", "oracle", "cannot be relayed"),
        ("RETRY_JITTER", "lots", "is not a share"),
        ("SERVER_PORT", "http", "is not a port"),
        ("POLL_INTERVAL", "5 parsecs", "is not a duration"),
    ] {
        let (config, _) = load(&[("STORAGE_URL", "postgres://u@localhost/d"), (name, value)]);
        let problems: Vec<_> = config.unwrap_err().iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|problem| problem.contains(says)), "{problems:?}");
    }
}

/// Where events go and how long an answer may take, whatever brokers this build knows.
fn target(variables: &[(&str, &str)]) -> (String, Option<Duration>, Vec<String>) {
    let (mut settings, mut problems) = (defaults(), Vec::new());
    let notes = overlay(&Environment::of(variables), &mut settings, &mut problems);
    assert_eq!(problems, []);
    let mut lane = &settings;
    for name in ["lanes", "main"] {
        let Node::Table(inner, _) = &lane.0[name] else { panic!("{name} is no table") };
        lane = inner;
    }
    let text = |key: &str| match lane.0.get(key) {
        Some(Node::Leaf(value, _)) => value.as_str().map(str::to_owned),
        _ => None,
    };
    let timeout = text("timeout").map(|span| crate::config::unit::duration(&span).unwrap());
    (text("to").unwrap(), timeout, notes)
}

#[test]
fn events_go_to_brokers_as_the_reference_writes_them() {
    let (to, timeout, notes) =
        target(&[("PUBLISHER_TYPE", "nats"), ("PUBLISHER_URL", "nats://a,nats://b:1")]);
    assert_eq!((to.as_str(), timeout.unwrap().as_secs()), ("nats://a,b:1?format=raw", 5));
    assert!(notes.is_empty(), "{notes:?}");
    let (to, timeout, _) = target(&[("PUBLISHER_URL", "redis://h/0?format=structured")]);
    assert_eq!((to.as_str(), timeout.unwrap().as_secs()), ("redis://h/0?format=structured", 1));
    let (to, timeout, _) = target(&[("PUBLISHER_TYPE", "kafka"), ("PUBLISHER_URL", "h:9092")]);
    assert_eq!(
        (to.as_str(), timeout.unwrap().as_secs()),
        ("kafka://h:9092?format=raw&compression=snappy", 10)
    );
    let (to, ..) = target(&[("PUBLISHER_URL", "kafka://h?topic=all")]);
    assert_eq!(to, "kafka://h?topic=all", "one topic for all is no wire of the reference");
}

#[test]
fn what_is_for_a_broker_counts_for_that_broker_alone() {
    let (to, timeout, notes) = target(&[
        ("PUBLISHER_TYPE", "kafka"),
        ("PUBLISHER_URL", "h"),
        ("KAFKA_COMPRESSION", "LZ4"),
        ("KAFKA_REQUIRED_ACKS", "one"),
        ("KAFKA_BATCH_TIMEOUT", "2500us"),
        ("KAFKA_BATCH_BYTES", "65536"),
        ("KAFKA_CONNECTION_TIMEOUT", "10ms"),
        ("KAFKA_WRITE_TIMEOUT", "1.5s"),
        ("NATS_PUBLISH_TIMEOUT", "7s"),
        ("REDIS_WRITE_TIMEOUT", "9s"),
    ]);
    let expected = "kafka://h?batch_bytes=65536&linger=3ms&ack_timeout=1500ms&connect_timeout=1000ms&compression=lz4&acks=1&format=raw";
    assert_eq!((to.as_str(), timeout.unwrap().as_millis()), (expected, 1_500));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("has no effect: nothing is published to")), "{notes:?}");
    let (_, timeout, notes) = target(&[("PUBLISHER_TYPE", "stdout"), ("KAFKA_WRITE_TIMEOUT", "1s")]);
    assert_eq!(timeout, None, "the lane's own default");
    assert_eq!(notes.len(), 1, "{notes:?}");
}

#[test]
fn durations_are_written_as_in_go() {
    for (text, millis) in [
        ("500ms", "500ms"),
        ("1.5s", "1500ms"),
        ("1m30s", "90000ms"),
        ("1h0.5m", "3630000ms"),
        ("2500us", "3ms"),
        ("1ns", "1ms"),
        ("0", "0ms"),
        ("24h", "86400000ms"),
        ("1d", "86400000ms"),
    ] {
        assert_eq!(variables::span(text), Ok(millis.to_owned()), "{text}");
    }
    for text in ["", "5", "s", "-1s", "1.2.3s", "1 s x", "99999999999999h"] {
        assert!(variables::span(text).is_err(), "{text:?}");
    }
}

#[test]
fn variables_that_do_not_count_are_worth_one_note() {
    let note = |variables: &[(&str, &str)]| not_counted(&Environment::of(variables));
    let said = note(&[("BATCH_SIZE", "10"), ("LEASE_TIMEOUT", "1m"), ("SERVER_PORT", "80")]).unwrap();
    assert!(said.starts_with("BATCH_SIZE, LEASE_TIMEOUT do not count without STORAGE_URL"), "{said}");
    assert_eq!(note(&[("SERVER_PORT", "80"), ("ENVIRONMENT", "production")]), None);
    assert_eq!(note(&[("BATCH_SIZE", "10"), ("STORAGE_URL", "sqlite://x")]), None);
}
