//! Verbs that ask a server which runs.

use serde_json::Value;

use crate::cli::folder::{Answer, Folder};
pub(crate) use crate::cli::serving::serve;

/// The same verbs as without a server, by the configured address and the key that lies in the folder.
#[test]
fn verbs_find_the_server_and_its_key_by_themselves() {
    let folder = Folder::new();
    let (mut running, address) = serve(&folder);
    let run = |arguments: &[&str]| -> Answer {
        folder.command(arguments).env("POSTHASTE__SERVER__LISTEN", &address).output().unwrap().into()
    };
    let payload = "{ \"a\" : \"q\\\"q\" }";
    let published = run(&["publish", "--type", "x", "--key", "k", "--data", payload]);
    assert_eq!(published.code, 0, "{}", published.stderr);
    let id = published.text().trim();
    assert_eq!(run(&["event", "show", id, "--payload"]).stdout, payload.as_bytes());
    let by_server = run(&["event", "list", "--output", "json"]).json();
    assert_eq!(by_server["events"][0]["id"], id);
    assert_eq!(by_server, folder.json(&["event", "list"]), "the store answers with the same document");
    assert_eq!(run(&["lane", "list", "--output", "json"]).json()["lanes"], Value::Array(vec![]));
    run(&["event", "show", "nobody"]).assert_failed(6, &["nobody"]);
    running.signal("TERM");
    assert_eq!(running.code(), 0);
}

#[test]
fn a_wrong_key_is_told_what_to_do() {
    let folder = Folder::new();
    let (_running, address) = serve(&folder);
    let server = format!("http://{address}");
    folder.write("wrong.key", "ph_wrong\n");
    let answer = folder.run(&["event", "list", "--server", &server, "--key-file", "wrong.key"]);
    answer.assert_failed(3, &["did not prove that it knows the API key", "POSTHASTE_API_KEY"]);
    assert_eq!(folder.run(&["event", "list", "--server", &server, "--key-file", "posthaste.key"]).code, 0);
    let key = std::fs::read_to_string(folder.path("posthaste.key")).unwrap();
    let by_environment: Answer = folder
        .command(&["event", "list", "--server", &server])
        .env("POSTHASTE_API_KEY", key.trim())
        .output()
        .unwrap()
        .into();
    assert_eq!(by_environment.code, 0);
}

#[test]
fn a_server_that_is_not_there_or_not_understood_is_told() {
    let folder = Folder::new();
    folder
        .run(&["event", "list", "--server", "http://127.0.0.1:9"])
        .assert_failed(4, &["127.0.0.1:9", "posthaste serve"]);
    folder.run(&["event", "list", "--server", "https://127.0.0.1:9"]).assert_failed(2, &["https://"]);
    folder.run(&["event", "list", "--server", "nonsense"]).assert_failed(2, &["http://HOST:PORT"]);
    folder
        .run(&["lane", "pause", "--all", "--server", "http://127.0.0.1:9"])
        .assert_failed(4, &["127.0.0.1:9"]);
    for verb in [&["key", "add", "ops"][..], &["serve"], &["relay", "--to", "null:"]] {
        let answer = folder.run(&[verb, &["--server", "http://127.0.0.1:9"]].concat());
        answer.assert_failed(2, &["--store URL"]);
    }
    assert!(folder.names().is_empty());
}
