//! Which programs receive the key and the events of a command, and which store a command acts on.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use serde_json::Value;

use crate::cli::fake::Fake;
use crate::cli::folder::{Answer, Folder, Running};
use crate::cli::serving::serve;
use crate::http_process::skip;

const EVENT: &str = r#"{"card":"4111-1111"}"#;
const PUBLISH: [&str; 5] = ["publish", "--type", "order.secret", "--data", EVENT];

/// A user that runs no test.
const STRANGER: u32 = 65_534;

/// Runs the binary as if its server listened here.
fn run_at(folder: &Folder, address: impl ToString, arguments: &[&str], key: Option<&str>) -> Answer {
    let mut command = folder.command(arguments);
    command.env("POSTHASTE__SERVER__LISTEN", address.to_string());
    if let Some(key) = key {
        command.env("POSTHASTE_API_KEY", key);
    }
    command.output().unwrap().into()
}

fn key_of(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path("posthaste.key")).unwrap().trim().to_owned()
}

/// A server in a folder of its own, whose first key may give commands.
fn project() -> (Folder, Running, String) {
    let folder = Folder::new();
    folder.write("posthaste.toml", "[server]\noperators = [\"first\"]\n[lanes.main]\nto = \"null:\"\n");
    let (running, address) = serve(&folder);
    (folder, running, address)
}

/// The ids of all events, as the store itself says.
fn ids(folder: &Folder) -> Vec<String> {
    let page = folder.json(&["event", "list", "--store", "sqlite://posthaste.db"]);
    page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// How often a command said that it went through this server.
pub(crate) fn through(answer: &Answer, address: impl ToString) -> usize {
    let line = format!("through http://{}", address.to_string());
    answer.stderr.lines().filter(|said| **said == line).count()
}

#[test]
fn a_fake_server_never_sees_the_key_or_the_event() {
    let (folder, server, _) = project();
    drop(server);
    let key = key_of(&folder);
    let fake = Fake::start();
    let secrets = [key.as_str(), "4111-1111", "NDExMS0xMTEx", "order.secret"];
    // The store is here, so it takes the event.
    let published = run_at(&folder, fake.address, &PUBLISH, None);
    assert_eq!(published.code, 0, "{}", published.stderr);
    assert_eq!(ids(&folder), [published.text().trim()]);
    assert_eq!(through(&published, fake.address), 0, "{}", published.stderr);
    fake.assert_never_saw(&secrets);
    for verb in
        [&PUBLISH[..], &["event", "list"], &["lane", "pause", "main"], &["event", "show", "secret-id"]]
    {
        // Without a store here the command fails, and does not create one.
        let elsewhere = Folder::new();
        run_at(&elsewhere, fake.address, verb, Some(&key)).assert_failed(
            3,
            &["did not prove that it knows the API key", "POSTHASTE_API_KEY", "--store URL"],
        );
        assert!(elsewhere.names().is_empty(), "{:?}", elsewhere.names());
        // The same with a server that is named.
        folder
            .run(&[verb, &["--server", &fake.url()]].concat())
            .assert_failed(3, &["did not prove that it knows the API key"]);
    }
    fake.assert_never_saw(&[&secrets[..], &["secret-id"]].concat());
}

#[test]
fn a_program_that_passes_requests_on_to_the_server_is_refused() {
    let (folder, _server, address) = project();
    let key = key_of(&folder);
    let between = Fake::before(&address);
    for verb in [&PUBLISH[..], &["event", "list"], &["lane", "pause", "main"]] {
        folder
            .run(&[verb, &["--server", &between.url()]].concat())
            .assert_failed(3, &["on another address", "https is needed", "where the server runs"]);
        run_at(&Folder::new(), between.address, verb, Some(&key)).assert_failed(3, &["https is needed"]);
    }
    between.assert_never_saw(&[&key, "4111-1111", "NDExMS0xMTEx", "order.secret"]);
    assert!(between.heard().contains("GET /v1/proof?"), "{}", between.heard());
    assert!(ids(&folder).is_empty());
    let straight = folder.run(&[&PUBLISH[..], &["--server", &format!("http://{address}")]].concat());
    assert_eq!((straight.code, through(&straight, &address)), (0, 1), "{}", straight.stderr);
}

#[test]
fn a_program_that_does_not_answer_ends_the_command_with_an_error() {
    let folder = Folder::new();
    let silent = Fake::silent();
    let key = "ph_0000000000000000000000000000000000000000000";
    let answer = run_at(&folder, silent.address, &PUBLISH, Some(key));
    answer.assert_failed(4, &["did not prove itself in time", "--store URL"]);
    assert!(folder.names().is_empty());
    silent.assert_never_saw(&[key, "4111-1111"]);
}

/// Two projects of one machine have the same default address.
#[test]
fn the_server_of_another_project_is_never_asked_in_place_of_a_store() {
    let (theirs, _server, address) = project();
    let their_key = key_of(&theirs);
    let ours = Folder::new();
    let first = ours.publish("ours", "{}");
    // With a key of its own, without one, and with theirs; the default store and one that is named.
    let (mine, server, _) = project();
    drop(server);
    std::fs::copy(mine.path("posthaste.key"), ours.path("posthaste.key")).unwrap();
    for key in [None, Some(their_key.as_str())] {
        for store in [None, Some(format!("sqlite://{}", ours.path("posthaste.db").display()))] {
            let run = |verb: &[&str]| -> Answer {
                let mut command = ours.command(verb);
                command.env("POSTHASTE__SERVER__LISTEN", &address);
                command.envs(key.map(|key| ("POSTHASTE_API_KEY", key)));
                command.envs(store.as_ref().map(|store| ("POSTHASTE__STORE__URL", store)));
                command.output().unwrap().into()
            };
            let published = run(&["publish", "--type", "ours", "--data", "{}"]);
            assert_eq!((published.code, through(&published, &address)), (0, 0), "{}", published.stderr);
            let listed = run(&["event", "list", "--type", "ours", "--output", "json"]);
            assert!(ids(&ours).contains(&published.text().trim().to_owned()));
            assert_eq!(listed.json()["events"].as_array().unwrap().len(), ids(&ours).len());
            run(&["lane", "pause", "main"]).assert_failed(6, &["main"]);
        }
    }
    assert!(ids(&ours).contains(&first));
    assert_eq!(ids(&ours).len(), 5);
    assert!(ids(&theirs).is_empty());
    assert_eq!(
        theirs.json(&["lane", "list", "--store", "sqlite://posthaste.db"])["lanes"][0]["state"],
        "active"
    );
}

/// Every verb acts on the same store, also where there is none but the server's.
#[test]
fn without_a_store_every_verb_asks_the_server_that_knows_the_key_and_says_so() {
    let (theirs, _server, address) = project();
    let key = key_of(&theirs);
    let here = Folder::new();
    let run = |verb: &[&str]| {
        let answer = run_at(&here, &address, verb, Some(&key));
        assert_eq!(answer.code, 0, "{verb:?}: {}", answer.stderr);
        assert_eq!(through(&answer, &address), 1, "{verb:?}: {}", answer.stderr);
        answer
    };
    let id = run(&PUBLISH).text().trim().to_owned();
    assert_eq!(ids(&theirs), [id.as_str()]);
    assert_eq!(run(&["event", "list", "--output", "json"]).json()["events"][0]["id"], id.as_str());
    run(&["produce", "--count", "3", "--batch", "1"]);
    run(&["lane", "pause", "main"]);
    let lanes = run(&["lane", "list", "--output", "json"]).json();
    assert_eq!(lanes["lanes"][0]["state"], "paused");
    run(&["dead", "list"]);
    run(&["audit"]);
    assert!(here.names().is_empty(), "{:?}", here.names());
    // Without a key the command cannot check the server.
    let keyless = run_at(&here, &address, &["event", "list"], None);
    keyless.assert_failed(3, &["without an API key", "POSTHASTE_API_KEY"]);
}

#[test]
fn a_server_that_serves_this_very_store_is_asked_by_every_name_of_its_file() {
    let (theirs, _server, address) = project();
    let here = Folder::new();
    std::os::unix::fs::symlink(theirs.path("posthaste.db"), here.path("linked.db")).unwrap();
    let key = key_of(&theirs);
    for file in [theirs.path("posthaste.db"), here.path("linked.db")] {
        here.write("posthaste.toml", format!("[store]\nurl = \"sqlite://{}\"\n", file.display()));
        let published = run_at(&here, &address, &PUBLISH, Some(&key));
        assert_eq!((published.code, through(&published, &address)), (0, 1), "{}", published.stderr);
    }
    assert_eq!(ids(&theirs).len(), 2);
    // The same file, and other tables in it.
    let mut other = here.command(&PUBLISH);
    other.env("POSTHASTE__SERVER__LISTEN", &address).env("POSTHASTE_API_KEY", &key);
    let other = Answer::from(other.env("POSTHASTE__STORE__PREFIX", "shop_").output().unwrap());
    assert_eq!((other.code, through(&other, &address)), (0, 0), "{}", other.stderr);
    assert_eq!(ids(&theirs).len(), 2);
    // A copy is another store.
    let copy = format!("sqlite://{}", here.path("copy.db").display());
    rusqlite::Connection::open(theirs.path("posthaste.db"))
        .unwrap()
        .execute("VACUUM INTO ?1", [here.path("copy.db").to_str().unwrap()])
        .unwrap();
    here.write("posthaste.toml", format!("[store]\nurl = {copy:?}\n"));
    let copied = run_at(&here, &address, &PUBLISH, Some(&key));
    assert_eq!((copied.code, through(&copied, &address)), (0, 0), "{}", copied.stderr);
    assert_eq!(ids(&theirs).len(), 2);
}

/// A new file at the path of a file that the server still has open, as after a restore.
#[test]
fn a_file_that_took_the_place_of_the_servers_is_another_store() {
    let (folder, _server, address) = project();
    let key = key_of(&folder);
    std::fs::rename(folder.path("posthaste.db"), folder.path("old.db")).unwrap();
    for beside in ["posthaste.db-wal", "posthaste.db-shm"] {
        std::fs::rename(folder.path(beside), folder.path(&beside.replace("posthaste", "old"))).unwrap();
    }
    folder.ok(&["migrate", "up"]);
    let published = run_at(&folder, &address, &PUBLISH, Some(&key));
    assert_eq!((published.code, through(&published, &address)), (0, 0), "{}", published.stderr);
    assert_eq!(ids(&folder), [published.text().trim()]);
}

#[test]
fn a_further_key_works_through_the_server_at_once() {
    let (folder, _server, address) = project();
    let server = format!("http://{address}");
    folder.ok(&["event", "list", "--server", &server]);
    for name in ["a", "b", "c"] {
        let key = folder.ok(&["key", "add", name]).text().trim().to_owned();
        let listed = folder
            .command(&["event", "list", "--server", &server])
            .env("POSTHASTE_API_KEY", key)
            .output()
            .unwrap();
        let listed = Answer::from(listed);
        assert_eq!((listed.code, through(&listed, &address)), (0, 1), "{}", listed.stderr);
    }
}

#[test]
fn a_store_that_is_locked_beside_an_unproven_server_says_what_to_do() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    let (_theirs, _server, address) = project();
    let holder = rusqlite::Connection::open(folder.path("posthaste.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let key = "ph_0000000000000000000000000000000000000000000";
    run_at(&folder, &address, &PUBLISH, Some(key)).assert_failed(
        4,
        &[&format!("a server listens on {address}"), "--key-file", "POSTHASTE_API_KEY", "stop it"],
    );
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(run_at(&folder, &address, &PUBLISH, Some(key)).code, 0);
}

fn give_away(file: &Path, trial: &str) -> bool {
    let given = chown(file, Some(STRANGER), None).is_ok();
    if !given {
        skip::say_of_optional(trial, "only root can give a file away");
    }
    given
}

/// The user who wrote the file knows the key, and could run a fake server that proves it.
#[test]
fn a_key_file_of_another_user_is_not_used_and_says_why() {
    let (folder, _server, address) = project();
    let file = folder.path("posthaste.key");
    if !give_away(&file, "trust::a_key_file_of_another_user_is_not_used_and_says_why") {
        return;
    }
    let published = run_at(&folder, &address, &PUBLISH, None);
    assert_eq!((published.code, through(&published, &address)), (0, 0), "the store takes it");
    assert!(published.stderr.contains("belongs to user 65534"), "{}", published.stderr);
    assert_eq!(ids(&folder), [published.text().trim()]);
    let named = ["event", "list", "--server", &format!("http://{address}"), "--key-file", "posthaste.key"];
    folder.run(&named).assert_failed(2, &["posthaste.key", "belongs to user 65534"]);
    let doctor = folder.run(&["doctor"]);
    assert!(doctor.text().contains("belongs to user 65534"), "{}", doctor.text());
}

/// A start does not adopt it either.
#[test]
fn a_start_does_not_take_over_the_key_of_another_user() {
    let (folder, server, _) = project();
    drop(server);
    let theirs = key_of(&folder);
    if !give_away(&folder.path("posthaste.key"), "trust::a_start_does_not_take_over_the_key_of_another_user")
    {
        return;
    }
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.path(&format!("posthaste.db{suffix}")));
    }
    let (_server, address) = serve(&folder);
    std::fs::write(folder.path("mine.key"), &theirs).unwrap();
    std::fs::set_permissions(folder.path("mine.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    folder
        .run(&["event", "list", "--server", &format!("http://{address}"), "--key-file", "mine.key"])
        .assert_failed(3, &["did not prove that it knows the API key"]);
    // The store makes a key that is known.
    let key = folder.ok(&["key", "add", "ops", "--output", "json"]).json();
    let listed =
        run_at(&Folder::new(), &address, &["event", "list", "--output", "json"], key["key"].as_str());
    assert_eq!(listed.json()["events"], Value::Array(vec![]), "{}", listed.stderr);
}
