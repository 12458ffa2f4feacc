//! The server that Debian has, which is older than the one that the other tests run on where that is to be had.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use async_nats::jetstream::stream::Config;
use posthaste_testkit::harness::Settings;
use tempfile::TempDir;

use crate::nats::seen::{Running, Seen, consumer, ids, publish};
use crate::nats::stand::{Stand, event, send, until};

/// A server that ends with the test.
struct Older {
    process: Child,
    home: TempDir,
}

impl Older {
    /// `None`, said on stderr, where it is not installed.
    fn start(trial: &str) -> Option<Self> {
        let folders = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
        let Some(program) =
            folders.map(|folder| folder.join("nats-server")).into_iter().find(|path| path.exists())
        else {
            assert!(!Settings::from_env().all_required, "Debian's nats-server is not installed");
            eprintln!("skipped: {trial}: Debian's nats-server is not installed");
            return None;
        };
        let home = TempDir::new().unwrap();
        let mut command = Command::new(program);
        command.args(["--addr", "127.0.0.1", "--port", "-1", "--jetstream", "--store_dir"]).arg(home.path());
        command.arg("--ports_file_dir").arg(home.path()).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Some(Self { process, home })
    }

    /// Its URL, as soon as it has written down where it listens.
    async fn url(&self) -> String {
        let file = self.home.path().join(format!("nats-server_{}.ports", self.process.id()));
        let read = || {
            let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            Some(ports["nats"][0].as_str()?.to_owned())
        };
        until("the server is there", async || read().is_some()).await;
        read().unwrap()
    }
}

impl Drop for Older {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A missing stream is named, events come to their handlers, and what was sent twice is there once: all as on a current server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_server_carries_events_to_their_handlers_too() {
    let Some(server) = Older::start("an_older_server_carries_events_to_their_handlers_too") else { return };
    let stand = Stand::at(server.url().await, None).await;
    let broker = stand.open("");
    let error = send(&broker, vec![event("1", "t")]).await.remove(0).unwrap_err();
    assert_eq!(error.code, "missing stream", "{error}");
    stand.make(Config::default()).await;
    let (seen, all) = (Seen::default(), ids("e", 20));
    let running = Running::start(consumer(&stand.name, &seen), &broker).await;
    publish(&broker, &all).await;
    publish(&broker, &all).await;
    seen.has(&all).await;
    assert_eq!(stand.ids().await.len(), all.len(), "what was sent twice is there once");
    running.stop().await;
}
