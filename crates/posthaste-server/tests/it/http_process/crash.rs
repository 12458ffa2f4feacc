//! What was acknowledged is there, whatever ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::http_api::client::{Answer, Client, DEADLINE};
use crate::http_process::process::Process;

const CLIENTS: usize = 16;
const ACKNOWLEDGED_BEFORE_THE_KILL: usize = 400;

/// Many clients publish as fast as they can; the process is killed in the middle; after a restart every event whose 201
/// somebody has read is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_event_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    let (acknowledged, mut ids) = mpsc::unbounded_channel();
    let (count, enough) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (asks, acknowledged) = (process.client.clone(), acknowledged.clone());
        let (count, enough) = (Arc::clone(&count), Arc::clone(&enough));
        clients.spawn(async move {
            for n in 0.. {
                let id = format!("{client}-{n}");
                if !publish(&asks, &id).await {
                    return;
                }
                let _ = acknowledged.send(id);
                if count.fetch_add(1, Ordering::SeqCst) == ACKNOWLEDGED_BEFORE_THE_KILL {
                    enough.notify_one();
                }
            }
        });
    }
    drop(acknowledged);
    timeout(DEADLINE, enough.notified()).await.expect("clients publish");
    process.killed().await;
    timeout(DEADLINE, clients.join_all()).await.expect("clients notice");

    let process = Process::start(folder.path()).await;
    let mut checked = 0;
    while let Some(id) = ids.recv().await {
        let found = process.client.get(&format!("/v1/events/{id}")).await;
        assert_eq!(found.status, 200, "{id} was acknowledged and is lost");
        assert_eq!(found.json()["data"]["id"], id.as_str());
        checked += 1;
    }
    assert!(checked > ACKNOWLEDGED_BEFORE_THE_KILL);
    assert_eq!(process.client.get("/readyz").await.status, 200);
    process.killed().await;
}

/// Publishes one event; `false` when no acknowledgement came.
async fn publish(client: &Client, id: &str) -> bool {
    let body = format!(r#"{{"type":"x","id":"{id}","data":{{"id":"{id}"}}}}"#);
    let length = body.len().to_string();
    let head = client.head("POST", "/v1/events", &[("content-length", &length)]);
    let Ok(mut stream) = tokio::net::TcpStream::connect(client.address).await else { return false };
    if stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    // A head that was cut is no acknowledgement.
    Answer::parse(&answer).is_some_and(|answer| answer.status == 201)
}
