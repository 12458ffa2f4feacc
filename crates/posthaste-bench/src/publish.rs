//! How fast many clients publish over HTTP, one event per request, each answered after its commit.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste::envelope::Envelope;
use posthaste::schema::Backend;
use posthaste_terminal::exit::Failure;
use posthaste_terminal::output;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::PublishArgs;
use super::client::Client;
use super::figures::{Round, Summary, millis, percentile};

const START_WITHIN: Duration = Duration::from_secs(15);

pub(super) async fn measure(args: &PublishArgs) -> Result<Summary, Failure> {
    match &args.to {
        Some(url) => super::handover::measure(args, url).await,
        None => over_http(args).await,
    }
}

async fn over_http(args: &PublishArgs) -> Result<Summary, Failure> {
    let folder = Folder::make()?;
    let server = Server::start(&folder.0).await?;
    let raw = posthaste::store::open(&format!("sqlite://{}", folder.0.join("raw.db").display())).await?;
    let (mut rounds, mut latencies) = (Vec::new(), Vec::new());
    let bar = output::bar("rounds", u64::from(args.rounds));
    for _ in 0..args.rounds {
        rounds.push(raw_round(&raw, args).await?);
        let (round, spans) = api_round(&server, args).await?;
        rounds.push(round);
        latencies.extend(spans);
        bar.inc(1);
    }
    bar.finish_and_clear();
    latencies.sort();
    let facts = vec![
        ("p50_ms", json!(millis(percentile(&latencies, 0.5)))),
        ("p99_ms", json!(millis(percentile(&latencies, 0.99)))),
        ("store", json!("sqlite, synchronous = full")),
        ("clients", json!(args.clients)),
        ("events", json!(args.events)),
        ("size", json!(args.size)),
    ];
    Ok(Summary { bench: "publish", sides: ["api", "raw"], rounds, facts })
}

/// The same number of callers hand the same events to a store in this process: no HTTP, no JSON.
async fn raw_round(store: &Arc<dyn Backend>, args: &PublishArgs) -> Result<Round, Failure> {
    let left = Arc::new(AtomicU64::new(args.events));
    let size = usize::try_from(args.size).unwrap_or(1024);
    let mut callers = JoinSet::new();
    let start = Instant::now();
    for _ in 0..args.clients {
        let (store, left) = (Arc::clone(store), Arc::clone(&left));
        callers.spawn(async move {
            while take_one(&left) {
                store.publish(vec![Envelope::new("bench.event", vec![b'x'; size])]).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    join(&mut callers).await?;
    Ok(Round { side: "raw", events: args.events, took: start.elapsed() })
}

async fn api_round(server: &Server, args: &PublishArgs) -> Result<(Round, Vec<Duration>), Failure> {
    let left = Arc::new(AtomicU64::new(args.events));
    let body: Arc<str> =
        format!(r#"{{"type":"bench.event","data":"{}"}}"#, "x".repeat(args.size as usize)).into();
    let mut clients = JoinSet::new();
    let start = Instant::now();
    for _ in 0..args.clients {
        let mut client = Client::connect(&server.address, &server.key).await?;
        let (left, body) = (Arc::clone(&left), Arc::clone(&body));
        clients.spawn(async move {
            let mut spans = Vec::new();
            while take_one(&left) {
                let sent = Instant::now();
                client.publish(&body).await?;
                spans.push(sent.elapsed());
            }
            Ok::<_, Failure>(spans)
        });
    }
    let spans = join(&mut clients).await?;
    Ok((
        Round { side: "api", events: args.events, took: start.elapsed() },
        spans.into_iter().flatten().collect(),
    ))
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

async fn join<T: 'static>(tasks: &mut JoinSet<Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let mut answers = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        answers.push(ended.map_err(|error| Failure::other(error.to_string()))??);
    }
    Ok(answers)
}

/// A server of the bench's own: this binary, on an empty folder.
struct Server {
    process: Child,
    address: String,
    key: String,
}

impl Server {
    async fn start(folder: &Path) -> Result<Self, Failure> {
        let address = free_address()?;
        let binary =
            std::env::current_exe().map_err(|error| Failure::other(format!("find this binary: {error}")))?;
        let log = std::fs::File::create(folder.join("serve.log"))
            .map_err(|error| cannot("write", folder, &error))?;
        let process = Command::new(binary)
            .arg("serve")
            .current_dir(folder)
            .env("POSTHASTE__SERVER__LISTEN", &address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::other(format!("start a server: {error}")))?;
        let mut server = Self { process, address, key: String::new() };
        server.key = server.wait_for_key(folder).await?;
        Ok(server)
    }

    async fn wait_for_key(&mut self, folder: &Path) -> Result<String, Failure> {
        let start = Instant::now();
        loop {
            let key = std::fs::read_to_string(folder.join("posthaste.key")).unwrap_or_default();
            if !key.trim().is_empty() && tokio::net::TcpStream::connect(&self.address).await.is_ok() {
                return Ok(key.trim().to_owned());
            }
            let ended = self.process.try_wait().ok().flatten();
            if ended.is_some() || start.elapsed() > START_WITHIN {
                let log = std::fs::read_to_string(folder.join("serve.log")).unwrap_or_default();
                return Err(Failure::other(format!(
                    "start a server for the bench: it did not come up: {log}"
                )));
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its folder goes next: there is nothing it should finish.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener
        .map(|address| address.to_string())
        .map_err(|error| Failure::other(format!("find a free port: {error}")))
}

/// A folder in the current one (so that its disk is measured), removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, Failure> {
        let here = std::env::current_dir()
            .map_err(|error| Failure::other(format!("find the current folder: {error}")))?;
        let path = here.join(format!("posthaste-bench-{:08x}", fastrand::u32(..)));
        std::fs::create_dir(&path).map_err(|error| cannot("make", &path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::other(format!("{what} {}: {error}", path.display()))
}
