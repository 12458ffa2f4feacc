//! `posthaste serve` on Postgres.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use crate::cli::folder::{Answer, Folder};
use crate::cli::trust::through;
use crate::http_process::process::Process;
use crate::postgres::stand::Stand;

/// There is no file beside which the key could lie: it is in the folder in which the server was started.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_leaves_its_key_in_the_current_folder_and_the_line_goes_through() {
    let trial = "serving::the_first_start_leaves_its_key_in_the_current_folder_and_the_line_goes_through";
    let Some(stand) = Stand::new(trial).await else { return };
    let folder = TempDir::new().unwrap();
    let settings =
        format!("[store]\nurl = {:?}\n[lanes.main]\nto = \"stdout:\"\n", stand.url("program_server"));
    std::fs::write(folder.path().join("posthaste.toml"), settings).unwrap();
    let mut process = Process::start(folder.path()).await;
    let key = process.client.key.clone().expect("posthaste.key is there");
    assert!(process.welcome.contains("kept in posthaste.key"), "{}", process.welcome);
    let mode = std::fs::metadata(folder.path().join("posthaste.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(process.client.get("/readyz").await.status, 200);
    assert_eq!(process.client.publish(r#"{"type":"x","id":"carried"}"#).await.status, 201);
    assert_eq!(process.client.publish(r#"{"type":"x","id":"carried"}"#).await.status, 200, "the same again");
    let line = process.line().await.expect("the lane delivers to stdout");
    assert!(line.contains(r#""id":"carried""#), "{line}");
    process.signal("TERM").await;
    assert!(process.ended().await.success());
    let again = Process::start(folder.path()).await;
    assert!(!again.welcome.contains(&key), "{}", again.welcome);
    assert_eq!(again.client.get("/v1/events/carried").await.status, 200);
    again.killed().await;
    stand.end().await;
}

/// The server is asked for the very tables that it has, by whatever user, and for no others.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_in_place_of_its_own_tables_only() {
    let trial = "serving::a_server_is_asked_in_place_of_its_own_tables_only";
    let (Some(stand), Some(other)) = (Stand::new(trial).await, Stand::new(trial).await) else { return };
    let folder = TempDir::new().unwrap();
    let settings = format!("[store]\nurl = {:?}\n", stand.url("program_server"));
    std::fs::write(folder.path().join("posthaste.toml"), settings).unwrap();
    let process = Process::start(folder.path()).await;
    let (key, address) = (process.client.key.clone().unwrap(), process.client.address);
    let here = Folder::new();
    let prefixed = |command: &mut std::process::Command| {
        command.env("POSTHASTE__STORE__PREFIX", "shop_");
    };
    let nothing = |_: &mut std::process::Command| {};
    let run = |url: String, verb: &[&str], change: &dyn Fn(&mut std::process::Command)| {
        let mut command = here.command(verb);
        command.env("POSTHASTE__SERVER__LISTEN", address.to_string()).env("POSTHASTE_API_KEY", &key);
        change(command.env("POSTHASTE__STORE__URL", url));
        let answer = Answer::from(command.output().unwrap());
        assert_eq!(answer.code, 0, "{verb:?}: {}", answer.stderr);
        through(&answer, address)
    };
    let look = ["event", "list"];
    assert_eq!(run(stand.url("program_server"), &look, &nothing), 1);
    assert_eq!(run(stand.url("program_operator"), &look, &nothing), 1);
    assert_eq!(run(other.url("program_server"), &look, &nothing), 0, "another database");
    run(stand.url("postgres"), &["migrate", "up"], &prefixed);
    assert_eq!(run(stand.url("postgres"), &look, &prefixed), 0, "other tables");
    let publish = ["publish", "--type", "x", "--data", "{}"];
    assert_eq!(run(stand.url("program_server"), &publish, &nothing), 1);
    assert_eq!(run(other.url("program_server"), &publish, &nothing), 0);
    let listed = process.client.get("/v1/events").await.json();
    assert_eq!(listed["events"].as_array().unwrap().len(), 1);
    process.killed().await;
    stand.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used_ends_every_verb_with_what_to_do() {
    let trial = "serving::a_database_that_cannot_be_used_ends_every_verb_with_what_to_do";
    let Some(stand) = Stand::new(trial).await else { return };
    let folder = Folder::new();
    let (shop, mut server) = (stand.url("program_shop"), stand.url("program_server"));
    let looks =
        [&["lane", "list"][..], &["event", "list"], &["relay", "--once", "--to", "null:"], &["serve"]];
    for verb in looks {
        folder
            .run(&[verb, &["--store", &shop]].concat())
            .assert_failed(3, &["lacks a right", "migrate print --roles"]);
    }
    folder
        .run(&["migrate", "up", "--store", &stand.url("program_nobody")])
        .assert_failed(3, &["refuses the login"]);
    folder
        .run(&["migrate", "print", "--roles", "--store", "sqlite://x.db"])
        .assert_failed(2, &["an embedded store has none"]);
    server.push_str("?sslmode=prefer");
    folder.run(&["lane", "list", "--store", &server]).assert_failed(3, &["sslmode=require"]);
    let elsewhere = folder
        .command(&["lane", "list", "--store", &stand.url("program_server")])
        .env("POSTHASTE__STORE__PREFIX", "shop_")
        .output()
        .unwrap();
    crate::cli::folder::Answer::from(elsewhere)
        .assert_failed(3, &["tables are missing", "posthaste migrate up"]);
    stand.end().await;
}
