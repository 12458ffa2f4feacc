//! `posthaste produce`: so many events, or again and again until a signal, into the store and through a server.

use serde_json::Value;

use crate::cli::folder::{Folder, Running, eventually};
use crate::cli::server::serve;

/// How many events there are.
fn count(folder: &Folder) -> usize {
    let page = folder.json(&["event", "list", "--limit", "1000"]);
    page["events"].as_array().unwrap().len()
}

#[test]
fn so_many_events_are_made_in_batches_with_keys_and_of_a_size() {
    let folder = Folder::new();
    let produce = ["produce", "--count", "250", "--batch", "100", "--size", "300B", "--keys", "3"];
    let answer = folder.ok(&[&produce[..], &["--type", "load.test"]].concat());
    assert!(answer.text().starts_with("produce: 250 events in "), "{}", answer.text());
    assert_eq!(count(&folder), 250);
    let of_key = folder.json(&["event", "list", "--limit", "1000", "--key", "key-0", "--type", "load.test"]);
    let of_key = of_key["events"].as_array().unwrap();
    assert_eq!(of_key.len(), 84, "numbers 0, 3, … 249");
    let id = of_key.last().unwrap()["id"].as_str().unwrap();
    let payload = folder.ok(&["event", "show", id, "--payload"]).stdout;
    assert_eq!(payload.len(), 300);
    assert_eq!(serde_json::from_slice::<Value>(&payload).unwrap()["number"], 0);
}

#[test]
fn again_and_again_until_a_signal() {
    let folder = Folder::new();
    folder.ok(&["migrate", "up"]);
    let produce = ["produce", "--every", "100ms", "--batch", "2", "--output", "json"];
    let mut running = Running(folder.command(&produce).spawn().unwrap());
    eventually("a few batches were published", || (count(&folder) >= 6).then_some(()));
    running.signal("TERM");
    assert_eq!(running.code(), 0);
    let told: Value = serde_json::from_reader(running.0.stdout.take().unwrap()).unwrap();
    assert_eq!(told["published"], count(&folder), "what it says and what is there");
}

#[test]
fn through_a_server_and_what_is_too_large_is_refused_before_anything_is_published() {
    let folder = Folder::new();
    folder.ok(&["migrate", "up"]);
    folder.run(&["produce", "--size", "100MiB"]).assert_failed(2, &["payload"]);
    assert_eq!(count(&folder), 0);
    let (mut running, address) = serve(&folder);
    let server = format!("http://{address}");
    // All of them together are more than a request may be.
    let produce =
        ["produce", "--count", "50", "--size", "60KiB", "--server", &server, "--key-file", "posthaste.key"];
    assert_eq!(folder.json(&produce)["published"], 50);
    assert_eq!(count(&folder), 50);
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}
