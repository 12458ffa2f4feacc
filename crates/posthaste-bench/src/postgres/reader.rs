//! The raw limit: reading the rows of the log by primary key with the driver alone, and doing nothing with them.

use posthaste_terminal::exit::Failure;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::tables::{connect, failed};
use crate::figures::Round;

/// Rows per statement, as many as a relay's window.
const PAGE: i64 = 1_000;

const SELECT: &str = "SELECT seq, event_id, source, event_type, topic, key, subject, schema_version, content_type, headers, \
     occurred_at, available_at, expires_at, created_at, payload \
     FROM bench_events WHERE seq > $1 ORDER BY seq LIMIT $2";

/// Reads every row of the log once, in a task beside its connection as the relay does.
pub(super) async fn read_all(url: &str) -> Result<Round, Failure> {
    let client = connect(url).await?;
    let mut task = JoinSet::new();
    task.spawn(async move { read(&client).await });
    let ended = task.join_next().await.ok_or_else(|| Failure::other("the reader did not start"))?;
    ended.map_err(|error| Failure::other(error.to_string()))?.map_err(failed("read the log for comparison"))
}

async fn read(client: &Client) -> Result<Round, tokio_postgres::Error> {
    let page = client.prepare(SELECT).await?;
    let start = Instant::now();
    let (mut after, mut events) = (0_i64, 0);
    loop {
        let rows = client.query(&page, &[&after, &PAGE]).await?;
        let Some(last) = rows.last() else { break };
        after = last.get(0);
        events += rows.len() as u64;
        std::hint::black_box(&rows);
    }
    Ok(Round { side: "raw", events, took: start.elapsed() })
}
