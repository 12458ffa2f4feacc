//! Consumers in the place of files: a lane delivers straight into a handler whose effect is a row in the same database.
//!
//! Nothing keeps an effect from being there twice but the inbox.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use posthaste::consumer::{Consumer, Cx, Failure as Verdict};
use posthaste::envelope::Envelope;
use posthaste::sql::{Statement, Tx as _, Value};
use posthaste::target::{DeliverKind, Target};

use crate::Result;
use crate::journal::Pen;
use crate::lanes::Which;
use crate::relay::{delivered_file, stumble};
use crate::truth::Direct;

pub(crate) const TABLE: &str = "CREATE TABLE nemesis_effects (nth bigserial, consumer text NOT NULL, id text NOT NULL, \
    key text NOT NULL, number text NOT NULL, process text NOT NULL)";
const INSERT: &str =
    "INSERT INTO nemesis_effects (consumer, id, key, number, process) VALUES ($1, $2, $3, $4, $5)";
/// Where a consumer that ends itself does so: before the effect, after it, after the commit and before the answer.
pub(crate) const POINTS: [&str; 3] = ["consumer: entered", "consumer: before commit", "consumer: committed"];

const WORKERS: usize = 8;
/// Shorter than the lease, so that a handler that hears nothing any more ends before somebody else begins.
const TIMEOUT: Duration = Duration::from_millis(2_500);
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Who handles.
#[derive(Clone)]
struct Hand {
    which: Which,
    process: String,
}

type Pool = deadpool_postgres::Pool;

/// A consumer as the lane's target; its connections go the way of the relay's.
pub(crate) fn target(url: &str, which: Which, process: &str) -> Result<Arc<dyn Target>> {
    let mut config: tokio_postgres::Config = url.parse()?;
    config.connect_timeout(CONNECT_WITHIN).tcp_user_timeout(TIMEOUT);
    let manager = deadpool_postgres::Manager::new(config, tokio_postgres::NoTls);
    let pool = Pool::builder(manager)
        .max_size(WORKERS)
        .runtime(deadpool_postgres::Runtime::Tokio1)
        .wait_timeout(Some(CONNECT_WITHIN))
        .create_timeout(Some(CONNECT_WITHIN))
        .build()?;
    let hand = Hand { which, process: process.to_owned() };
    let consumer = Consumer::new(which.name(), pool, hand).on_any(take).workers(WORKERS).timeout(TIMEOUT);
    Ok(consumer.target()?)
}

async fn take(cx: &mut Cx<Pool, Hand>, envelope: Arc<Envelope>) -> std::result::Result<(), Verdict> {
    let Hand { which, process } = cx.state().clone();
    match stumble(which, &envelope, cx.attempt()).await {
        Some(DeliverKind::Rejected) => return Err(Verdict::reject("as it was to be")),
        Some(_) => Err("as it was to be")?,
        None => {}
    }
    let key = envelope.key.clone().unwrap_or_else(|| "-".to_owned());
    let number = String::from_utf8_lossy(&envelope.payload).into_owned();
    let values = [which.name().to_owned(), envelope.id.clone(), key, number, process];
    let values = values.into_iter().map(|value| Value::Text(Some(value))).collect();
    cx.tx().execute(Statement::new(INSERT, values)).await?;
    Ok(())
}

/// Writes the effects into the files in which deliveries are looked for, in the order in which they were made.
pub(crate) async fn write_down(direct: &Direct, folder: &Path) -> Result<()> {
    let all = "SELECT consumer, id, key, number, process FROM nemesis_effects ORDER BY nth";
    let rows = direct.client.query_typed(all, &[]).await?;
    for which in Which::ALL {
        let pen = Pen::append_to(&delivered_file(folder, which))?;
        for row in rows.iter().filter(|row| row.get::<_, &str>(0) == which.name()) {
            let [id, key, number, process] = [1, 2, 3, 4].map(|column| row.get::<_, &str>(column));
            pen.write(&format!("{id} {key} {number} {process}"))?;
        }
    }
    Ok(())
}
