//! `posthaste relay`: delivers, waits, and ends when asked to.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::cli::folder::{Folder, Running, eventually};

#[test]
fn without_a_lane_there_is_nothing_to_drive() {
    Folder::new().run(&["relay"]).assert_failed(3, &["no lane is configured", "--to URL"]);
}

#[test]
fn once_delivers_what_is_due_and_ends() {
    let folder = Folder::new();
    folder.publish("x", r#"{"a":"q\"q"}"#);
    folder.ok(&["publish", "--type", "later", "--data", "{}", "--in", "1h"]);
    let answer = folder.ok(&["relay", "--once", "--to", "stdout:"]);
    let line: Value = serde_json::from_str(answer.text()).expect("one line for one event");
    assert_eq!((&line["type"], &line["data"]["a"]), (&Value::from("x"), &Value::from("q\"q")));
    assert!(answer.stderr.contains("delivered 1"), "{}", answer.stderr);
    assert_eq!(folder.ok(&["relay", "--once", "--to", "stdout:"]).text(), "", "nothing twice");
}

#[test]
fn a_target_that_takes_nothing_is_code_five_and_nothing_is_lost() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        folder.command(&["relay", "--once", "--to", "stdout:"]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(folder.json(&["relay", "--once", "--to", "null:"])["delivered"], 1);
}

#[test]
fn it_runs_until_a_signal_and_ends_cleanly() {
    for signal in ["TERM", "INT"] {
        let folder = Folder::new();
        let mut running = Running(folder.command(&["relay", "--to", "stdout:"]).spawn().unwrap());
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        folder.publish("x", "{}");
        assert!(
            lines.next().unwrap().unwrap().contains("\"type\":\"x\""),
            "published by another process, and seen"
        );
        running.signal(signal);
        assert_eq!(running.code(), 0);
        let lane = folder.json(&["lane", "list"])["lanes"][0].clone();
        assert_eq!(
            (&lane["delivered"], &lane["owner"]),
            (&Value::from(1), &Value::Null),
            "settled and given up"
        );
    }
}

/// Events of a log, and rows of a table whose owner said for how long they are kept.
#[test]
fn what_is_delivered_and_old_goes_while_it_runs() {
    for engine in ["log", "table"] {
        let folder = Folder::new();
        folder.write(
            "posthaste.toml",
            format!(
                "[store]\nurl = \"sqlite://posthaste.db\"\nengine = \"{engine}\"\nretain = \"1s\"\n[prune]\ninterval = \"1s\"\n\
                 [lanes.main]\nto = \"null:\"\n"
            ),
        );
        if engine == "table" {
            let ddl = folder.ok(&[
                "migrate",
                "print",
                "--profile",
                "open-outbox",
                "--store",
                "sqlite://posthaste.db",
            ]);
            folder.sql(ddl.text());
            folder.sql(
                "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES ('a', 'x', x'7b7d')",
            );
        } else {
            folder.publish("x", "{}");
        }
        let mut running = Running(folder.command(&["relay"]).spawn().unwrap());
        let list = || folder.json(&["event", "list"])["events"].as_array().unwrap().len();
        eventually("the event went", || (list() == 0).then_some(()));
        running.signal("TERM");
        assert_eq!(running.code(), 0);
        if engine == "log" {
            let entry = folder.json(&["audit", "--verb", "prune"])["entries"][0].clone();
            assert_eq!((&entry["via"], &entry["changed"]), (&Value::from("relay"), &Value::from(1)));
            assert_eq!(folder.json(&["lane", "show", "main"])["delivered"], 1, "what went still counts");
        }
    }
}

#[test]
fn logs_are_json_and_never_on_stdout() {
    let folder = Folder::new();
    let mut running = Running(folder.command(&["relay", "--to", "null:"]).spawn().unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    let mut stdout = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!(stdout, "");
}

/// A relay whose target does not answer: nobody reads the pipe, and one event is larger than the pipe.
fn stuck(folder: &Folder, grace: &str) -> (Running, std::io::PipeReader) {
    folder.write("posthaste.toml", format!("[relay]\ngrace = {grace:?}\n"));
    let large = format!("\"{}\"", "x".repeat(200_000));
    folder.run_with_stdin(&["publish", "--type", "x"], large.as_bytes());
    let (mut reader, writer) = std::io::pipe().unwrap();
    let running = Running(folder.command(&["relay", "--to", "stdout:"]).stdout(writer).spawn().unwrap());
    reader.read_exact(&mut [0]).expect("the event is on its way, and cannot arrive");
    (running, reader)
}

#[test]
fn a_target_that_hangs_does_not_hold_a_stop_longer_than_the_grace_period() {
    let folder = Folder::new();
    let (mut running, _pipe) = stuck(&folder, "100ms");
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    let lane = folder.json(&["lane", "list"])["lanes"][0].clone();
    assert_eq!(
        (&lane["delivered"], &lane["dead"]),
        (&Value::from(0), &Value::from(0)),
        "it waits for the next relay"
    );
}

/// The grace period is an hour, so only the second signal can be what ends it.
#[test]
fn a_second_signal_stops_at_once_and_loses_nothing() {
    let folder = Folder::new();
    let (mut running, _pipe) = stuck(&folder, "1h");
    // Two different ones, because the system joins two of the same that come quickly.
    running.signal("INT");
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    assert_eq!(folder.json(&["lane", "list"])["lanes"][0]["dead"], 0);
}
