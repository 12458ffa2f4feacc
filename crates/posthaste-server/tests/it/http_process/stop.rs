//! How the server ends.

use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http_api::client::read_all;
use crate::http_process::process::Process;

#[tokio::test]
async fn a_signal_ends_it_cleanly() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().unwrap();
        let process = Process::start(folder.path()).await;
        assert_eq!(process.client.publish(r#"{"type":"x"}"#).await.status, 201);
        process.signal(signal).await;
        assert_eq!(process.ended().await.code(), Some(0), "after SIG{signal}");
    }
}

/// A request that is half sent holds the first signal's end; the second signal does not wait for it.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let patient = "[relay]\ngrace = \"1h\"\n[server]\nbody_timeout = \"1h\"\nrequest_timeout = \"1h\"\n";
    std::fs::write(folder.path().join("posthaste.toml"), patient).unwrap();
    let process = Process::start(folder.path()).await;
    let mut half = process.client.connect().await;
    let wanted = [("content-length", "100"), ("expect", "100-continue")];
    let head = process.client.head("POST", "/v1/events", &wanted);
    half.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut sign = [0; 12];
    half.read_exact(&mut sign).await.expect("100 Continue says that the handler is reading");
    let mut idle = process.client.connect().await;
    process.signal("TERM").await;
    assert_eq!(read_all(&mut idle).await, b"", "the first signal was heard");
    process.signal("TERM").await;
    assert_eq!(process.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_port_that_is_taken_is_said_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Process::command(folder.path());
    let output =
        command.env("POSTHASTE__SERVER__LISTEN", &address).stderr(Stdio::piped()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("listen on {address}")) && said.contains("server.listen"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was made");
}

/// Several times, because whoever forgets to close the store often does so by accident.
#[tokio::test]
async fn a_clean_stop_leaves_everything_in_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("posthaste.toml"), "[lanes.main]\nto = \"null:\"\n").unwrap();
    for n in 0..5 {
        let process = Process::start(folder.path()).await;
        assert_eq!(process.client.publish(format!(r#"{{"type":"x","id":"{n}"}}"#)).await.status, 201);
        process.signal("TERM").await;
        assert!(process.ended().await.success());
        assert!(
            !folder.path().join("posthaste.db-wal").exists(),
            "something is not in the file after stop {n}"
        );
    }
}
