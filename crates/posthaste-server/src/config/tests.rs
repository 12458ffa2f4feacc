//! The layers, the mistakes, and the default file.

use std::time::Duration;

use posthaste::lane::{OnDead, Order, Start};
use posthaste::retry::{Backoff, Jitter};
use secrecy::ExposeSecret;

use super::*;
use environment::overlay_dotenv;
use log::LogFormat;
use posthaste::store::Synchronous;
use tree::Origin;

fn file(text: &str) -> Table {
    let mut problems = Vec::new();
    let table = Table::parse(text, Layer::File, "posthaste.toml", &mut problems);
    assert_eq!(problems, []);
    table
}

fn problems(settings: &Table) -> Vec<String> {
    Config::read(settings).expect_err("it has mistakes").iter().map(ToString::to_string).collect()
}

#[test]
fn the_default_file_says_what_the_binary_does() {
    let config = Config::defaults();
    assert_eq!(config.store.url.expose_secret(), "sqlite://posthaste.db");
    assert_eq!(config.store.prefix.as_str(), "posthaste_");
    assert_eq!(config.store.retain, Duration::from_secs(7 * 86_400));
    assert_eq!(config.store.retain_max, Duration::from_secs(30 * 86_400));
    assert_eq!(config.store.synchronous, Synchronous::Full);
    assert_eq!(config.relay.lease, Duration::from_secs(10));
    assert_eq!(config.relay.poll_max, Duration::from_millis(100));
    assert_eq!(config.relay.grace, Duration::from_secs(10));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:7070");
    assert_eq!(config.server.admin_listen, None);
    assert_eq!(config.server.payload_max, posthaste::limits::PAYLOAD_BYTES_MAX);
    assert_eq!((config.server.json_depth_max, config.server.body_rate_min), (128, 16 << 10));
    assert_eq!(config.server.source, "/posthaste");
    assert_eq!(config.server.roles, [server::Role::Api, server::Role::Relay]);
    assert_eq!(config.log.format, LogFormat::Auto);
    assert_eq!(config.prune.interval, Duration::from_secs(3_600));
    assert!(config.lanes.is_empty() && config.targets.is_empty());
}

/// Every key of the schema is asked for with its default at hand, and a missing one would panic; so reading one lane and
/// one target on top of the defaults proves that the file is complete, and no problem proves that it has nothing more.
#[test]
fn the_default_file_has_every_key_of_the_schema_and_no_other() {
    let config = Config::read(&file("[targets.t]\nurl = \"null:\"\n[lanes.main]\nto = \"t\"")).unwrap();
    let lane = config.lanes.values().next().unwrap();
    assert_eq!(lane.topics.iter().map(ToString::to_string).collect::<Vec<_>>(), ["#"]);
    assert_eq!((lane.order, lane.on_dead, lane.start), (Order::PerKey, OnDead::GoOn, Start::Beginning));
    assert_eq!((lane.window, lane.window_bytes), (None, 16 << 20), "the target proposes one");
    assert_eq!(lane.timeout, Duration::from_secs(5));
    assert_eq!(lane.retry, Backoff::default());
}

#[test]
fn a_role_that_does_not_exist_and_no_role_at_all_are_mistakes() {
    let unknown = problems(&file("[server]\nroles = [\"worker\"]"));
    assert!(unknown[0].contains("there is no role \"worker\""), "{unknown:?}");
    let none = problems(&file("[server]\nroles = []"));
    assert!(none[0].contains("names nothing to do"), "{none:?}");
    let api = Config::read(&file("[server]\nroles = [\"api\"]")).unwrap();
    assert_eq!(api.server.roles, [server::Role::Api]);
}

#[test]
fn later_layers_win_key_by_key() {
    let mut settings = file(
        "[store]\nurl = \"sqlite://file.db\"\nretain = \"1d\"\n[relay]\nlease = \"20s\"\n\
         [lanes.my-lane]\nto = \"null:\"\nwindow = 5\nretry = { first = \"2s\" }",
    );
    let mut environment = Environment::of(&[
        ("POSTHASTE__RELAY__LEASE", "40s"),
        ("POSTHASTE__LANES__MY_LANE__WINDOW", "7"),
        ("POSTHASTE__LANES__MY_LANE__TOPICS", "orders, stock.*"),
        ("POSTHASTE__LANES__MY_LANE__RETRY__FACTOR", "3"),
        ("POSTHASTE_OTHER", "ignored"),
    ]);
    let dotenv = "# comment\nexport POSTHASTE__RELAY__LEASE=\"30s\"\nPOSTHASTE__RELAY__GRACE='3s'\nPOSTHASTE_API_KEY=ph_x\nPATH=/x";
    let mut mistakes = Vec::new();
    overlay_dotenv(dotenv, &mut settings, &mut environment, &mut mistakes);
    environment.overlay(&mut settings, &mut mistakes);
    settings.put(
        &["store".into(), "url".into()],
        "sqlite://flag.db".into(),
        Origin::new(Layer::Flag, "--store"),
    );
    assert_eq!(mistakes, []);
    let config = Config::read(&settings).unwrap();
    assert_eq!(config.store.url.expose_secret(), "sqlite://flag.db");
    assert_eq!(config.store.retain, Duration::from_secs(86_400));
    assert_eq!(config.relay.lease, Duration::from_secs(40), "the environment covers .env");
    assert_eq!(config.relay.grace, Duration::from_secs(3), ".env covers the file");
    assert_eq!(environment.api_key(), Some("ph_x"));
    let lane = &config.lanes[&"my-lane".parse().unwrap()];
    assert_eq!(lane.window, Some(7));
    assert_eq!(lane.topics.iter().map(ToString::to_string).collect::<Vec<_>>(), ["orders", "stock.*"]);
    let retry = Backoff::exponential(Duration::from_secs(2)).factor(3.0).jitter(Jitter::Full);
    assert_eq!(lane.retry, retry, "tables are joined key by key");
}

#[test]
fn what_all_lanes_share_is_said_once() {
    let settings = file("[lanes.\"*\"]\nto = \"null:\"\nwindow = 9\n[lanes.a]\n[lanes.b]\nwindow = 3");
    let config = Config::read(&settings).unwrap();
    assert_eq!(config.lanes.values().map(|lane| lane.window).collect::<Vec<_>>(), [Some(9), Some(3)]);
}

#[test]
fn every_mistake_is_reported_with_where_it_stands() {
    let mut settings = file(
        "[store]\nprefix = \"x;drop table\"\nretian = \"7d\"\n[relay]\nlease = 10\n\n[lanes.main]\nto = \"rabbit\"\n[nonsense]\na = 1",
    );
    Environment::of(&[("POSTHASTE__SERVER__PAYLOAD_MAX", "lots"), ("POSTHASTE__STORE__RETAIN_MAX", "1h")])
        .overlay(&mut settings, &mut Vec::new());
    let found = problems(&settings);
    let expected = [
        "posthaste.toml:2: store.prefix = \"x;drop table\" is wrong: the table prefix",
        "posthaste.toml:3: store.retian is not a setting; there are columns, engine, idle_timeout,",
        "posthaste.toml:5: relay.lease = 10 must be a text in quotes",
        "posthaste.toml:8: lanes.main.to names the target \"rabbit\", which is not there",
        "posthaste.toml:9: nonsense is not a setting; there are lanes, log, prune,",
        "POSTHASTE__SERVER__PAYLOAD_MAX: server.payload_max = \"lots\" is not a size",
        "POSTHASTE__STORE__RETAIN_MAX: store.retain_max = \"1h\" is shorter than retain",
    ];
    for text in expected {
        assert!(found.iter().any(|problem| problem.starts_with(text)), "{text}\nnot in {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn each_wrong_value_is_refused() {
    let table = [
        ("[relay]\nlease = \"500ms\"", "relay.lease = \"500ms\" must be between 1s and 1h"),
        (
            "[relay]\nlease = \"2s\"\n[lanes.a]\nto = \"null:\"",
            "posthaste.toml:3: lanes.a.timeout = \"5s\" (the default) must be shorter than relay.lease (2s)",
        ),
        ("[lanes.a]\ntopics = []\nto = \"null:\"", "names no topic"),
        ("[lanes.a]\ntopics = [\"a.b*\"]\nto = \"null:\"", "is not a topic pattern"),
        ("[lanes.a]", "lanes.a.to is missing"),
        ("[lanes.a]\nto = \"gopher://x\"", "there is no target for gopher:"),
        ("[lanes.\"a b\"]\nto = \"null:\"", "the lane name \"a b\" cannot be used"),
        ("[lanes.a]\nto = \"null:\"\nwindow = -1", "must be a whole number from 0 to"),
        ("[lanes.a]\nto = \"null:\"\norder = \"total\"", "write \"key\" or \"none\""),
        ("[lanes.a]\nto = \"null:\"\nstart = \"monday\"", "is not a start"),
        (
            "[lanes.a]\nto = \"null:\"\nretry = { preset = \"mine\" }",
            "is not a preset; there are open-outbox",
        ),
        (
            "[lanes.a]\nto = \"null:\"\nretry = { preset = \"axcom\", first = \"1s\" }",
            "cannot stand beside preset",
        ),
        ("[lanes.a]\nto = \"null:\"\nretry = { jitter = \"additive:2\" }", "is not a jitter"),
        ("[lanes.a]\nto = \"null:\"\nretry = \"fast\"", "lanes.a.retry must be a table"),
        ("[targets.t]", "targets.t.url is missing"),
        ("[store]\nurl = \"oracle://me:hunter2@host/db\"", "store.url is not the address of a store"),
        ("[store]\nengine = \"tables\"", "write \"log\" or \"table\""),
        ("[server]\nlisten = \"7070\"", "is not an address"),
        ("[log]\nlevel = \"loud=very\"", "is not a level"),
        ("[log]\nlevel = \"verbose\"", "is not a level"),
    ];
    for (text, expected) in table {
        let found = problems(&file(text));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{text}\n{found:#?}");
        assert!(!found.iter().any(|problem| problem.contains("hunter2")), "{found:#?}");
    }
}

#[test]
fn a_preset_is_a_policy() {
    let settings = file("[lanes.a]\nto = \"null:\"\nretry = { preset = \"lerian\" }");
    assert_eq!(Config::read(&settings).unwrap().lanes.values().next().unwrap().retry, Backoff::lerian());
}

#[test]
fn mistakes_of_syntax_are_reported_with_their_line() {
    let mut found = Vec::new();
    Table::parse("[store]\nurl = \n[relay\n", Layer::File, "posthaste.toml", &mut found);
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(found.iter().any(|problem| problem.starts_with("posthaste.toml:2:")), "{found:#?}");
}

#[test]
fn the_key_lies_beside_the_database() {
    let at = |url: &str| {
        let config = Config::read(&file(&format!("[store]\nurl = {url:?}"))).unwrap();
        config.store.key_file().unwrap().display().to_string()
    };
    assert_eq!(at("sqlite://posthaste.db"), "posthaste.key");
    assert_eq!(at("sqlite:data/x.db?mode=ro"), "data/posthaste.key");
    assert_eq!(at("sqlite:///var/lib/x.db"), "/var/lib/posthaste.key");
}
