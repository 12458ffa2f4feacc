//! A server whose disk is full refuses, and goes on when there is room.

use futures_util::future::join_all;

use crate::http_api::client::Answer;
use crate::http_process::disk::Disk;
use crate::http_process::process::Process;

const CLIENTS: usize = 8;

/// Several clients publish until the disk is full. What was acknowledged is there and nothing else, while it is full, with
/// more room, and after a kill; the server answers all the time.
#[tokio::test]
async fn a_full_disk_is_told_and_survived_and_loses_nothing() {
    let trial = "full_disk::a_full_disk_is_told_and_survived_and_loses_nothing";
    let Some(disk) = Disk::mount(trial, "3m") else { return };
    let process = Process::start(disk.path()).await;
    let mut acknowledged = Vec::new();
    let refused = 'full: loop {
        assert!(acknowledged.len() < 1_000, "3 MiB cannot hold that");
        let ids: Vec<String> = (0..CLIENTS).map(|n| format!("{}-{n}", acknowledged.len())).collect();
        let answers = join_all(ids.iter().map(|id| publish(&process, id))).await;
        let mut failure = None;
        for (id, answer) in ids.into_iter().zip(answers) {
            if answer.status == 201 { acknowledged.push(id) } else { failure = Some(answer) }
        }
        if let Some(answer) = failure {
            break 'full answer;
        }
    };
    let detail = refused.problem(503);
    assert!(detail.contains("with the same ids") && detail.contains("log"), "{detail}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(process.client.get("/healthz").await.status, 200);
    acknowledged.sort();
    assert_eq!(stored(&process).await, acknowledged, "all that was acknowledged and nothing else");

    disk.remount("size=16m");
    assert_eq!(publish(&process, "with more room").await.status, 201);
    acknowledged.push("with more room".to_owned());
    assert_eq!(stored(&process).await, acknowledged);
    process.killed().await;
    let process = Process::start(disk.path()).await;
    assert_eq!(stored(&process).await, acknowledged, "also after a kill");
    process.signal("TERM").await;
    assert!(process.ended().await.success());
}

async fn publish(process: &Process, id: &str) -> Answer {
    let data = "a".repeat(10_000);
    process.client.publish(format!(r#"{{"type":"x","id":"{id}","data":"{data}"}}"#)).await
}

/// The ids of all events, sorted.
async fn stored(process: &Process) -> Vec<String> {
    let list = process.client.get("/v1/events?limit=1000").await.json();
    let ids = list["events"].as_array().expect("a page has events").iter();
    let mut ids: Vec<String> =
        ids.map(|event| event["id"].as_str().expect("an event has an id").to_owned()).collect();
    ids.sort();
    ids
}
