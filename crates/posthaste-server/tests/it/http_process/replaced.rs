//! A server whose database file is deleted or restored while it runs refuses, and loses nothing that it
//! acknowledged.

use std::path::Path;

use crate::http_process::process::Process;

const PARTS: [&str; 3] = ["posthaste.db", "posthaste.db-wal", "posthaste.db-shm"];

/// Moves the files of a database from one folder to another.
fn move_all(from: &Path, to: &Path) {
    for part in PARTS.iter().filter(|part| from.join(part).exists()) {
        std::fs::rename(from.join(part), to.join(part)).unwrap();
    }
}

#[tokio::test]
async fn a_database_that_is_restored_under_a_running_server_takes_nothing_until_it_is_restarted() {
    let (folder, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let process = Process::start(folder.path()).await;
    let publish = async |process: &Process, id: &str| {
        process.client.publish(format!(r#"{{"type":"x","id":"{id}","data":1}}"#)).await
    };
    assert_eq!(publish(&process, "in the backup").await.status, 201);
    process.signal("TERM").await;
    assert!(process.ended().await.success());
    for part in PARTS.iter().filter(|part| folder.path().join(part).exists()) {
        std::fs::copy(folder.path().join(part), backup.path().join(part)).unwrap();
    }

    let process = Process::start(folder.path()).await;
    assert_eq!(publish(&process, "later").await.status, 201);
    let away = tempfile::tempdir().unwrap();
    move_all(folder.path(), away.path());
    for state in ["deleted", "replaced"] {
        let detail = publish(&process, state).await.problem(503);
        assert!(detail.contains("later, with the same ids"), "{state}: {detail}");
        let ready = process.client.get("/readyz").await;
        assert_eq!(ready.status, 503, "{state}");
        assert_eq!(process.client.get("/healthz").await.status, 200, "{state}");
        if state == "deleted" {
            move_all(backup.path(), folder.path());
        }
    }
    process.killed().await;

    let process = Process::start(folder.path()).await;
    assert_eq!(publish(&process, "since").await.status, 201);
    let list = process.client.get("/v1/events?limit=10").await.json();
    let ids: Vec<_> = list["events"].as_array().unwrap().iter().map(|event| &event["id"]).collect();
    assert_eq!(ids, ["since", "in the backup"]);
}
