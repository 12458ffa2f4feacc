//! An application that publishes: one plain INSERT and commit per event, on a few connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste::envelope::Envelope;
use posthaste::publisher::{Published, Publisher};
use posthaste::{BoxFuture, Error, Result};
use posthaste_terminal::exit::Failure;
use tokio_postgres::{Client, Statement};

use super::tables::{connect, failed};

const CONNECTIONS: usize = 4;
const INSERT: &str = "INSERT INTO bench_events (event_id, source, event_type, key, content_type, payload) \
    VALUES ($1, $2, $3, $4, $5, $6)";

pub(super) struct Producer {
    connections: Vec<(Client, Statement)>,
    turn: AtomicUsize,
}

impl Producer {
    pub(super) async fn connect(url: &str) -> std::result::Result<Self, Failure> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(url).await?;
            let insert = client.prepare(INSERT).await.map_err(failed("prepare to publish"))?;
            connections.push((client, insert));
        }
        Ok(Self { connections, turn: AtomicUsize::new(0) })
    }
}

impl Publisher for Producer {
    fn publish(&self, events: Vec<Envelope>) -> BoxFuture<'_, Result<Vec<Published>>> {
        let (client, insert) =
            &self.connections[self.turn.fetch_add(1, Ordering::Relaxed) % self.connections.len()];
        Box::pin(async move {
            for event in &events {
                let Envelope { id, source, event_type, key, content_type, payload, .. } = event;
                client
                    .execute(insert, &[id, source, event_type, key, content_type, payload])
                    .await
                    .map_err(|error| Error::unavailable("an event could not be inserted").because(error))?;
            }
            Ok(events.iter().map(|_| Published::Now).collect())
        })
    }
}
