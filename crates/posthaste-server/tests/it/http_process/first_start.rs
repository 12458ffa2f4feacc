//! What a newcomer sees.

use std::os::unix::fs::PermissionsExt as _;

use tokio::process::Command;

use crate::http_process::process::Process;
use crate::http_process::skip;

#[tokio::test]
async fn the_first_start_gives_a_key_and_a_line_that_works_when_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let key = process.client.key.clone().expect("posthaste.key is there");
    assert!(process.welcome.contains(&key), "{}", process.welcome);
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
