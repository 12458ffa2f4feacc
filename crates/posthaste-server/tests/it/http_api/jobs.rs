//! Commands that take longer than a request may: they go on, say how far they are, and are stopped between two steps.

use std::sync::Arc;
use std::time::Duration;

use posthaste::memory::Memory;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use crate::http_api::client::{Client, DEADLINE};
use crate::http_api::faulty::{Faulty, Mood, Switch};
use crate::http_api::stand::{Stand, Times};

/// A server whose store goes on with a command, step by step, until it is stopped.
async fn stand() -> Stand {
    let switch = Switch::default();
    switch.set(Mood::Endless);
    let wrap = |store| Arc::new(Faulty { store, switch }) as Arc<dyn posthaste::schema::Backend>;
    let times = Times { request: Duration::from_millis(400), ..Times::default() };
    Stand::with(Memory::new(), wrap, times).await
}

async fn replay(client: &Client) -> crate::http_api::client::Answer {
    client.ask("POST", "/v1/commands/replay?lane=main", &[], b"").await
}

/// The job, once it is as wanted.
async fn job_becomes(client: &Client, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let job = client.get(path).await.json();
        if is_wanted(&job) {
            return job;
        }
        assert!(begun.elapsed() < DEADLINE, "{path} never becomes what is waited for: {job}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_command_that_takes_long_goes_on_as_a_job_and_is_stopped_by_its_name() {
    let stand = stand().await;
    let given = replay(&stand.operator).await;
    assert_eq!(given.status, 202, "{}", given.text());
    let path = given.header("location").expect("where to ask").to_owned();
    let far = given.json()["applied"]["changed"].as_u64().expect("a number");
    assert_eq!((&given.json()["state"], &given.json()["actor"]), (&"running".into(), &"ops".into()));
    let further = |job: &Value| job["applied"]["changed"].as_u64().is_some_and(|changed| changed > far);
    let running = job_becomes(&stand.client, &path, further).await;
    assert_eq!(stand.client.get("/v1/jobs").await.json()["jobs"][0]["job"], running["job"]);
    stand.client.ask("DELETE", &path, &[], b"").await.problem(403);
    let stopped = stand.operator.ask("DELETE", &path, &[], b"").await.json();
    assert_eq!(
        (&stopped["state"], &stopped["applied"]["stopped"]),
        (&"stopped".into(), &true.into()),
        "{stopped}"
    );
    assert_eq!(stand.client.get(&path).await.json(), stopped, "it stays so");
    stand.client.get("/v1/jobs/nobody").await.problem(404);
    stand.stopped().await;
}

#[tokio::test]
async fn whoever_hangs_up_cuts_no_command_off() {
    let stand = stand().await;
    let head = stand.operator.head("POST", "/v1/commands/replay?lane=main", &[]);
    let mut stream = stand.operator.connect().await;
    stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes()).await.expect("it is read");
    let begun = |page: &Value| page["jobs"][0]["applied"]["changed"].as_u64().is_some_and(|done| done > 0);
    let far = job_becomes(&stand.client, "/v1/jobs", begun).await["jobs"][0].clone();
    drop(stream);
    let path = format!("/v1/jobs/{}", far["job"].as_str().expect("a name"));
    let far = far["applied"]["changed"].as_u64().expect("a number");
    let further = |job: &Value| job["applied"]["changed"].as_u64().is_some_and(|done| done > far + 100);
    assert_eq!(job_becomes(&stand.client, &path, further).await["state"], "running");
    stand.operator.ask("DELETE", &path, &[], b"").await;
    stand.stopped().await;
}

#[tokio::test]
async fn the_end_of_the_process_stops_commands_and_lets_none_begin() {
    let stand = stand().await;
    let path = replay(&stand.operator).await.header("location").expect("where to ask").to_owned();
    stand.commands_ended().await;
    assert_eq!(stand.client.get(&path).await.json()["state"], "stopped");
    replay(&stand.operator).await.problem(503);
    stand.stopped().await;
}
