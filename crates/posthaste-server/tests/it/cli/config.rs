//! Configuration: every mistake at once, each with where it stands, and exit code 3.

use crate::cli::folder::Folder;

#[test]
fn three_mistakes_in_one_file_are_all_reported_with_their_lines() {
    let folder = Folder::new();
    folder.write(
        "posthaste.toml",
        "[relay]\nlease = \"soon\"\n\n[store]\nretain = 7\n[lanes.main]\nto = \"rabbit\"\n",
    );
    let answer = folder.run(&["publish", "--type", "x", "--data", "{}"]);
    answer.assert_failed(
        3,
        &[
            "failed to read the configuration, which has 3 mistakes",
            "posthaste.toml:2: relay.lease = \"soon\" is not a duration",
            "posthaste.toml:5: store.retain = 7 must be a text in quotes",
            "posthaste.toml:7: lanes.main.to names the target \"rabbit\"",
        ],
    );
    assert_eq!(folder.names(), ["posthaste.toml"], "nothing else was touched");
}

#[test]
fn unknown_keys_are_refused_with_what_there_is() {
    let folder = Folder::new();
    folder.write("other.toml", "[server]\nlissten = \"127.0.0.1:1\"\n[surver]\n");
    let answer = folder.run(&["check", "--config", "other.toml"]);
    answer.assert_failed(
        3,
        &[
            "other.toml:2: server.lissten is not a setting; there are",
            "listen,",
            "other.toml:3: surver is not a setting",
        ],
    );
}

#[test]
fn a_mistake_in_the_environment_names_its_variable() {
    let folder = Folder::new();
    let mut command = folder.command(&["check"]);
    command.env("POSTHASTE__STORE__PREFIX", "x'; DROP TABLE events; --").env("POSTHASTE__RELAY__LEESE", "1s");
    let answer: crate::cli::folder::Answer = command.output().unwrap().into();
    answer.assert_failed(
        3,
        &[
            "POSTHASTE__STORE__PREFIX: store.prefix = ",
            "cannot be used",
            "POSTHASTE__RELAY__LEESE: relay.leese is not",
        ],
    );
}

#[test]
fn hostile_prefixes_are_refused() {
    let folder = Folder::new();
    for prefix in ["a\"b", "a;b", "a b", "1a", "", &"a".repeat(200)] {
        let answer: crate::cli::folder::Answer = folder
            .command(&["migrate", "up"])
            .env("POSTHASTE__STORE__PREFIX", prefix)
            .output()
            .unwrap()
            .into();
        answer.assert_failed(3, &["POSTHASTE__STORE__PREFIX", "cannot be used"]);
    }
    assert!(folder.names().is_empty());
}

#[test]
fn a_wrong_url_names_its_flag_and_keeps_its_password() {
    let folder = Folder::new();
    let answer = folder.run(&["event", "list", "--store", "gopher://me:hunter2@host"]);
    answer.assert_failed(3, &["--store: store.url is not the address of a store", "sqlite://FILE"]);
    assert!(!answer.stderr.contains("hunter2"));
    let answer = folder.run(&["relay", "--to", "gopher://me:hunter2@host"]);
    answer.assert_failed(3, &["--to: lanes.main.to is wrong", "null:, stdout:"]);
    assert!(!answer.stderr.contains("hunter2"));
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let folder = Folder::new();
    folder.run(&["check", "--config", "nowhere.toml"]).assert_failed(3, &["nowhere.toml: cannot be read"]);
}

#[test]
fn dotenv_counts_in_development_only() {
    let folder = Folder::new();
    folder.write(".env", "POSTHASTE__RELAY__LEASE=soon\n");
    folder.ok(&["check"]);
    let answer: crate::cli::folder::Answer =
        folder.command(&["check"]).env("POSTHASTE_ENV", "development").output().unwrap().into();
    answer.assert_failed(3, &[".env:1: relay.lease = \"soon\" is not a duration"]);
}

#[test]
fn a_secret_may_come_from_a_file() {
    let folder = Folder::new();
    folder.write("url", "sqlite://from-a-file.db\n");
    folder.write("posthaste.toml", "[store]\nurl_file = \"url\"\n");
    folder.publish("x", "{}");
    assert!(folder.path("from-a-file.db").is_file());
    folder.write("posthaste.toml", "[store]\nurl = \"sqlite://x.db\"\nurl_file = \"url\"\n");
    folder.run(&["check"]).assert_failed(3, &["posthaste.toml:3: url_file and url are both set"]);
}

#[test]
fn the_printed_defaults_are_a_configuration() {
    let folder = Folder::new();
    folder.write("posthaste.toml", "this is [not toml");
    let printed = folder.ok(&["check", "--print"]);
    folder.write("posthaste.toml", &printed.stdout);
    let checked = folder.ok(&["check"]);
    assert!(checked.text().contains("configuration  valid"), "{}", checked.text());
}

/// What is wrong with an address is found without a connection, whatever it is the address of.
#[test]
fn check_finds_a_bad_port_without_connecting() {
    let folder = Folder::new();
    for url in ["postgres://me:hunter2@db:99999/shop", "postgres://me:hunter2@db:0/shop"] {
        let answer = folder.run(&["check", "--store", url]);
        assert_eq!(answer.code, 3, "{url}: {}", answer.text());
        assert!(
            answer.text().starts_with("failure  store") && answer.text().contains("PORT"),
            "{}",
            answer.text()
        );
        assert!(!answer.text().contains("hunter2") && !answer.stderr.contains("hunter2"));
    }
    let table = |url: &str| format!("[store]\nengine = \"table\"\nurl = \"{url}\"\n");
    for url in ["mysql://me:hunter2@db:99999/shop", "mysql://me:hunter2@db:0/shop", "postgres://me@db:x/shop"]
    {
        folder.write("posthaste.toml", table(url));
        let answer = folder.run(&["check"]);
        assert!(answer.code == 3 && !answer.text().contains("hunter2"), "{url}: {}", answer.text());
    }
    for url in ["amqp://h:99999", "amqp://h:0", "nats://h:0", "redis://h:port", "redis://h:0", "kafka://h:0"]
    {
        folder.write("posthaste.toml", format!("[targets.t]\nurl = \"{url}\"\n"));
        folder.run(&["check"]).assert_failed(3, &["targets.t.url is wrong", "from 1 to 65535"]);
    }
}

#[test]
fn check_says_what_only_a_connection_can_find() {
    let folder = Folder::new();
    let here = folder.ok(&["check"]);
    assert_eq!(
        here.text(),
        "ok       configuration  valid, 0 lanes, 0 targets\n0 failures, 0 warnings, 1 ok\n"
    );
    folder.write(
        "posthaste.toml",
        "[store]\nengine = \"table\"\nurl = \"postgres://me@127.0.0.1:1/shop\"\n[lanes.main]\nto = \"amqp://127.0.0.1:1\"\n",
    );
    let answer = folder.ok(&["check"]);
    let last = answer.text().lines().last().unwrap().to_owned();
    assert!(
        last.contains("check --connect") && last.contains("every column") && last.contains("targets"),
        "{last}"
    );
    assert_eq!(folder.json(&["check"])["not_checked"].as_array().unwrap().len(), 2);
    let connected = folder.run(&["check", "--connect"]);
    assert_eq!(connected.code, 4, "the store is the first that failed: {}", connected.stderr);
    assert!(connected.text().ends_with("2 failures, 0 warnings, 1 ok\n"), "{}", connected.text());
    let problems = folder.run(&["check", "--connect", "--problems"]);
    let verdicts: Vec<_> = problems.text().lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(verdicts, ["failure", "failure", "2"], "{}", problems.text());
}

/// The file is on this machine, so that its table can be looked at.
#[test]
fn check_finds_the_missing_columns_of_a_table_in_a_file() {
    let folder = Folder::new();
    folder.write("posthaste.toml", "[store]\nengine = \"table\"\nurl = \"sqlite://posthaste.db\"\n");
    folder.ok(&["check"]);
    folder.run(&["check", "--connect"]).code.eq(&4).then_some(()).expect("the file of a table must be there");
    folder.sql("CREATE TABLE openoutbox_events (event_id text PRIMARY KEY, event_type text, payload blob, created_at text)");
    for arguments in [&["check"][..], &["check", "--connect"]] {
        let answer = folder.run(arguments);
        assert_eq!(answer.code, 3, "{}", answer.text());
        for column in ["status", "attempts", "available_at", "locked_by", "locked_at"] {
            assert!(
                answer.text().contains(&format!("\n           no column {column} (")),
                "{}",
                answer.text()
            );
        }
        assert_eq!(answer.text().matches("migrate print").count(), 1, "{}", answer.text());
    }
    let printed = folder.ok(&["migrate", "print", "--profile", "open-outbox"]);
    folder.sql(printed.text());
    folder.ok(&["check"]);
    let again = folder.ok(&["migrate", "print", "--profile", "open-outbox"]);
    assert!(again.text().starts_with("-- The table openoutbox_events has every column"), "{}", again.text());
}

#[test]
fn check_connects_and_leaves_nothing_behind() {
    let folder = Folder::new();
    folder.write(
        "posthaste.toml",
        "[targets.t]\nurl = \"null:\"\n[lanes.a]\nto = \"t\"\n[lanes.b]\nto = \"stdout:\"\n",
    );
    let report = folder.json(&["check", "--connect"]);
    assert_eq!(report["ok"], true);
    assert_eq!(report["checks"].as_array().unwrap().len(), 4, "{report}");
    assert_eq!(folder.names(), ["posthaste.toml"]);
}

#[test]
fn a_broker_that_cannot_be_reached_is_named_and_its_password_is_not() {
    let folder = Folder::new();
    folder.write(
        "posthaste.toml",
        "[targets.t]\nurl = \"amqp://me:hunter2@127.0.0.1:1/shop?exchange=events\"\n[lanes.a]\nto = \"t\"\n",
    );
    let answer = folder.run(&["check", "--connect"]);
    assert!(answer.text().contains("RabbitMQ at 127.0.0.1:1"), "{}", answer.text());
    assert!(!answer.text().contains("hunter2"), "{}", answer.text());
    folder.write(
        "posthaste.toml",
        "[targets.t]\nurl = \"amqp://me:hunter2@h?windows=3\"\n[lanes.a]\nto = \"t\"\n",
    );
    folder.run(&["check"]).assert_failed(3, &["targets.t.url is wrong", "windows"]);
}
