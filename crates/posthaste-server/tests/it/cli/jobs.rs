//! Commands that take longer than a request to the server may: they are watched to their end, and stopped by a signal.

use std::process::Child;

use serde_json::Value;

use crate::cli::folder::{Answer, Folder, Running, eventually};
use crate::cli::server::serve;

const EVENTS: usize = 12;

/// A server on a folder whose lane `main` has delivered some events; no request may take longer than three seconds there.
fn delivered() -> (Folder, Running, String) {
    let folder = Folder::new();
    for n in 0..EVENTS {
        folder.publish("x", &n.to_string());
    }
    folder.ok(&["relay", "--once", "--to", "null:"]);
    folder.write("posthaste.toml", "[server]\nrequest_timeout = \"3s\"\noperators = [\"first\"]\n");
    let (running, address) = serve(&folder);
    (folder, running, format!("http://{address}"))
}

fn replay(folder: &Folder, server: &str, rate: &str) -> Running {
    let verb = ["replay", "--lane", "main", "--rate", rate, "--output", "json"];
    let through = ["--server", server];
    Running(folder.command(&[&verb[..], &through].concat()).spawn().unwrap())
}

fn answer(running: Running) -> Answer {
    let mut running = running;
    running.code();
    let child: &mut Child = &mut running.0;
    let (mut stdout, mut stderr) = (Vec::new(), String::new());
    std::io::Read::read_to_end(child.stdout.as_mut().unwrap(), &mut stdout).unwrap();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut stderr).unwrap();
    Answer { code: child.wait().unwrap().code().unwrap(), stdout, stderr }
}

fn records(folder: &Folder) -> Vec<Value> {
    folder.json(&["audit", "--verb", "replay"])["entries"].as_array().unwrap().clone()
}

#[test]
fn a_replay_that_takes_longer_than_a_request_is_done_through_the_server() {
    let (folder, mut server, address) = delivered();
    let said = answer(replay(&folder, &address, "4/s"));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = said.json();
    assert_eq!((&said["changed"], &said["stopped"]), (&EVENTS.into(), &false.into()), "{said}");
    let changed: u64 = records(&folder).iter().map(|entry| entry["changed"].as_u64().unwrap()).sum();
    assert_eq!(changed, EVENTS as u64, "each once");
    server.signal("TERM");
    assert_eq!(server.code(), 0);
}

/// Somebody stops it, and then the server itself is stopped: both are in the record, with how far it came.
#[test]
fn a_replay_through_the_server_is_stopped_by_a_signal_to_either() {
    let (folder, mut server, address) = delivered();
    let begun =
        |more_than: usize| eventually("it has begun", || (records(&folder).len() > more_than).then_some(()));
    let stopped = replay(&folder, &address, "1/s");
    begun(0);
    stopped.signal("INT");
    let said = answer(stopped);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let said = said.json();
    assert_eq!(said["stopped"], true, "{said}");
    assert!(said["changed"].as_u64().is_some_and(|changed| (1..EVENTS as u64).contains(&changed)), "{said}");
    let before = records(&folder);
    assert_eq!(before[0]["filter"]["stopped"], true, "{before:?}");

    let cut = replay(&folder, &address, "1/s");
    begun(before.len());
    server.signal("TERM");
    assert_eq!(server.code(), 0, "it does not wait for the command");
    let last = records(&folder).remove(0);
    assert_eq!((&last["filter"]["stopped"], &last["actor"]), (&true.into(), &"first".into()), "{last}");
    assert!(last["via"].as_str().is_some_and(|via| via == "rest 127.0.0.1"), "{last}");
    drop(cut);
}
