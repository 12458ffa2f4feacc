//! What a newcomer sees.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::cli::folder::eventually;
use crate::http_process::process::Process;
use crate::http_process::skip;

#[tokio::test]
async fn the_first_start_gives_a_key_and_a_line_that_works_when_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let key = process.client.key.clone().expect("posthaste.key is there");
    assert!(!process.welcome.contains(&key), "stderr is not a terminal: {}", process.welcome);
    assert!(process.welcome.contains("kept in posthaste.key"), "{}", process.welcome);
    assert!(process.welcome.contains("posthaste.db"), "{}", process.welcome);
    let mode = std::fs::metadata(folder.path().join("posthaste.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(process.client.get("/readyz").await.status, 200);

    let pasted = process.welcome.split("try it").nth(1).expect("the welcome has a line to try").trim();
    match Command::new("sh").args(["-c", pasted]).current_dir(folder.path()).output().await {
        Ok(ran) if ran.status.code() != Some(127) => {
            let answer = String::from_utf8(ran.stdout).unwrap();
            assert!(answer.starts_with(r#"{"id":""#), "{pasted}\n{answer}");
            let list = process.client.get("/v1/events?type=hello").await.json();
            assert_eq!(list["events"].as_array().unwrap().len(), 1);
        }
        _ => {
            let trial = "first_start::the_first_start_gives_a_key_and_a_line_that_works_when_pasted";
            skip::say(trial, "curl is missing, so the printed line was not tried");
        }
    }
    process.signal("TERM").await;
    assert!(process.ended().await.success());
}

#[tokio::test]
async fn a_later_start_keeps_the_key_and_does_not_show_it() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::start(folder.path()).await;
    assert_eq!(first.client.publish(r#"{"type":"x","id":"1"}"#).await.status, 201);
    first.signal("TERM").await;
    assert!(first.ended().await.success());
    let second = Process::start(folder.path()).await;
    let key = second.client.key.clone().expect("posthaste.key is there");
    assert!(!second.welcome.contains(&key), "{}", second.welcome);
    assert_eq!(second.client.get("/v1/events/1").await.status, 200);
    second.killed().await;
}

#[tokio::test]
async fn configured_lanes_run_inside_the_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("posthaste.toml"), "[lanes.main]\nto = \"stdout:\"\n").unwrap();
    let mut process = Process::start(folder.path()).await;
    assert_eq!(process.client.publish(r#"{"type":"x","id":"carried"}"#).await.status, 201);
    let line = process.line().await.expect("the lane delivers to stdout");
    assert!(line.contains(r#""id":"carried""#), "{line}");
    process.signal("TERM").await;
    assert!(process.ended().await.success());
}

/// Stdout holds the lines of the lane only, and the key is in its file only.
#[tokio::test]
async fn stdout_has_nothing_but_what_a_lane_delivers_and_the_key_is_in_no_log() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("posthaste.toml"), "[lanes.main]\nto = \"stdout:\"\n").unwrap();
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let mut command = Process::command(folder.path());
    command.stdout(std::fs::File::create(&stdout).unwrap()).stderr(std::fs::File::create(&stderr).unwrap());
    let mut child = command.spawn().unwrap();
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    eventually("it says hello", || read(&stderr).contains("try it").then_some(()));
    let publish = ["publish", "--type", "x", "--data", "{}", "--store", "sqlite://posthaste.db"];
    let published = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(publish)
        .current_dir(folder.path())
        .output()
        .await
        .unwrap();
    assert!(published.status.success(), "{published:?}");
    eventually("the lane delivers to stdout", || read(&stdout).ends_with('\n').then_some(()));
    child.kill().await.unwrap();
    for line in read(&stdout).lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
    let key = read(&folder.path().join("posthaste.key"));
    let log = read(&stderr);
    assert!(!log.contains(key.trim()), "{log}");
    assert!(log.contains("kept in posthaste.key"), "{log}");
}

/// If stdout is redirected, the key is not shown on the terminal of stderr either.
#[tokio::test]
async fn a_terminal_shows_the_key() {
    let trial = "first_start::a_terminal_shows_the_key";
    for (redirected, is_shown) in [("", true), (" >out", false)] {
        let folder = tempfile::tempdir().unwrap();
        let binary = env!("CARGO_BIN_EXE_posthaste");
        let line = format!("{binary} serve --listen 127.0.0.1:0{redirected}");
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--flush", "--return", "--command", &line, "typescript"])
            .current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let Ok(mut child) = command.spawn() else {
            skip::say(trial, "script (of util-linux) is missing, so there is no terminal");
            return;
        };
        let screen = || std::fs::read_to_string(folder.path().join("typescript")).unwrap_or_default();
        eventually("it says hello", || screen().contains("/v1/events").then_some(()));
        let key = std::fs::read_to_string(folder.path().join("posthaste.key")).unwrap();
        let shown = screen();
        child.kill().await.unwrap();
        assert_eq!(shown.contains(key.trim()), is_shown, "{shown}");
        assert!(shown.contains("kept in posthaste.key"), "{shown}");
    }
}
