//! What publishing in a driver's transaction promises.

use std::sync::Arc;
use std::time::Duration;

use posthaste_core::ErrorKind;
use posthaste_core::admin::{Filter, Page, Record};
use posthaste_core::outbox::Outbox;
use posthaste_core::publish::Publish;
use posthaste_core::publisher::Published;
use posthaste_core::time::{Clock, Moment, SystemClock};
use posthaste_sql::Statement;

use crate::driver::{DriverRig, DriverTx};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

/// A driver under the laws, on a database of its own.
pub struct TxBench {
    /// The database.
    pub rig: Arc<dyn DriverRig>,
    outbox: Outbox,
}

impl TxBench {
    /// Publishes through this driver.
    pub fn new(rig: Arc<dyn DriverRig>) -> Self {
        let outbox = rig.outbox();
        Self { rig, outbox }
    }

    /// What is stored, the oldest first.
    async fn stored(&self) -> Result<Vec<Record>, Verdict> {
        let (store, mut page, mut records) = (self.rig.store(), Page::first(1_000), Vec::new());
        page.with_payload = true;
        loop {
            let found = store.find(&Filter::default(), page.clone()).await?;
            records.extend(found.records);
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        records.reverse();
        Ok(records)
    }

    async fn stored_ids(&self) -> Result<Vec<String>, Verdict> {
        Ok(self.stored().await?.into_iter().map(|record| record.envelope.id).collect())
    }

    async fn publish(&self, tx: &mut Box<dyn DriverTx>, id: &str) -> Result<Published, Verdict> {
        Ok(self.outbox.publish(tx.tx(), order(id)).await?.published)
    }
}

fn order(id: &str) -> Publish {
    Publish::raw("order.placed", format!("{{\"id\":\"{id}\"}}")).id(id)
}

async fn say(tx: &mut Box<dyn DriverTx>, sql: &'static str) -> LawResult {
    tx.tx().execute(Statement::new(sql, Vec::new())).await.map_err(Verdict::broken)?;
    Ok(())
}

/// Publishes and looks before and after the commit.
pub async fn an_event_is_there_with_the_commit_and_not_before(bench: TxBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    ensure_eq!(bench.publish(&mut tx, "a").await?, Published::Now, "what a publish says");
    ensure!(bench.stored().await?.is_empty(), "an uncommitted event is seen");
    tx.commit().await?;
    let stored = bench.stored().await?;
    ensure_eq!(stored.len(), 1, "events stored");
    ensure_eq!(stored[0].envelope.source, "/law", "the source");
    Ok(())
}

/// Publishes and rolls back, or drops the transaction: nothing is there, and the id is free.
pub async fn what_is_rolled_back_or_dropped_never_was(bench: TxBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    bench.publish(&mut tx, "a").await?;
    tx.rollback().await?;
    let mut tx = bench.rig.begin().await?;
    bench.publish(&mut tx, "a").await?;
    drop(tx);
    let mut tx = bench.rig.begin().await?;
    ensure_eq!(bench.publish(&mut tx, "a").await?, Published::Now, "publishing a rolled back id");
    tx.commit().await?;
    ensure_eq!(bench.stored_ids().await?, ["a"], "what is stored");
    Ok(())
}

/// Rolls back to a savepoint: what was published since is not there, the rest is.
pub async fn a_savepoint_takes_back_what_came_after_it(bench: TxBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    bench.publish(&mut tx, "before").await?;
    say(&mut tx, "SAVEPOINT law").await?;
    bench.publish(&mut tx, "between").await?;
    say(&mut tx, "ROLLBACK TO SAVEPOINT law").await?;
    bench.publish(&mut tx, "after").await?;
    tx.commit().await?;
    ensure_eq!(bench.stored_ids().await?, ["before", "after"], "what is stored");
    Ok(())
}

/// Publishes 1,234 events in one call: all are there, in their order.
pub async fn a_batch_keeps_its_order(bench: TxBench) -> LawResult {
    let expected: Vec<String> = (0..1_234).map(|n| format!("e{n:04}")).collect();
    let mut tx = bench.rig.begin().await?;
    let entries = bench.outbox.publish_all(tx.tx(), expected.iter().map(|id| order(id))).await?;
    ensure_eq!(entries.stored, 1_234, "events that the outbox says are stored");
    ensure!(entries.ids == expected, "the ids are in another order");
    tx.commit().await?;
    ensure!(bench.stored_ids().await? == expected, "the log is in another order");
    Ok(())
}

/// Publishes an id twice with `once`: the second says that it was there, changes nothing, and the transaction lives on.
pub async fn once_says_that_an_event_was_there_before(bench: TxBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    bench.publish(&mut tx, "a").await?;
    tx.commit().await?;
    let mut tx = bench.rig.begin().await?;
    let again = Publish::raw("other.type", "other").id("a").once();
    ensure_eq!(
        bench.outbox.publish(tx.tx(), again).await?.published,
        Published::Before,
        "the second publish"
    );
    let both = [order("a").once(), order("b").once()];
    ensure_eq!(bench.outbox.publish_all(tx.tx(), both).await?.stored, 1, "stored of one old and one new");
    tx.commit().await?;
    ensure_eq!(bench.stored_ids().await?, ["a", "b"], "what is stored");
    ensure_eq!(bench.stored().await?[0].envelope.event_type, "order.placed", "the type of the first");
    Ok(())
}

/// Publishes an id twice without `once`: `Conflict`, and what was there stays as it was.
pub async fn a_duplicate_id_is_a_conflict(bench: TxBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    bench.publish(&mut tx, "a").await?;
    tx.commit().await?;
    let mut tx = bench.rig.begin().await?;
    let kind = bench.outbox.publish(tx.tx(), order("a")).await.map_err(|error| error.kind());
    ensure_eq!(kind.err(), Some(ErrorKind::Conflict), "the second publish");
    tx.rollback().await?;
    ensure_eq!(bench.stored_ids().await?, ["a"], "what is stored");
    Ok(())
}

/// Publishes null and empty attributes, odd bytes, a megabyte and emoji: all come back as they were.
pub async fn values_come_back_as_they_were_published(bench: TxBench) -> LawResult {
    let payloads: [Vec<u8>; 5] = [
        Vec::new(),
        b"\0\xff\xfe'\"\\;--".to_vec(),
        "🐎 ключ 対象".into(),
        (0..1_048_576_u32).map(|n| (n % 251) as u8).collect(),
        b"{}".to_vec(),
    ];
    let mut tx = bench.rig.begin().await?;
    for (n, payload) in payloads.iter().enumerate() {
        bench.outbox.publish(tx.tx(), Publish::raw("t", payload.clone()).id(format!("e{n}"))).await?;
    }
    let full = Publish::raw("заказ", "x")
        .id("full 🐎")
        .topic("orders.eu")
        .key("it's \"k\" \\ 🗝")
        .subject("対象")
        .version(9)
        .content_type("text/plain; charset=utf-8")
        .header("a", "")
        .header("b", "quote \" backslash \\ 🐎")
        .occurred_at("2020-02-29T00:00:00.000001Z".parse()?)
        .source("/other");
    let mut sent = Publish::raw("заказ", "x").into_envelope()?;
    bench.outbox.publish(tx.tx(), full).await?;
    tx.commit().await?;
    let stored = bench.stored().await?;
    for (record, payload) in stored.iter().zip(&payloads) {
        ensure!(record.envelope.payload == *payload, "payload of {} changed", record.envelope.id);
        ensure_eq!(record.envelope.key, None, "the key of {}", record.envelope.id);
        ensure_eq!(record.envelope.topic, "t", "the topic of {}", record.envelope.id);
    }
    sent.id = "full 🐎".to_owned();
    sent.topic = "orders.eu".to_owned();
    sent.key = Some("it's \"k\" \\ 🗝".to_owned());
    sent.subject = Some("対象".to_owned());
    sent.version = 9;
    sent.content_type = "text/plain; charset=utf-8".to_owned();
    sent.headers =
        [("a", ""), ("b", "quote \" backslash \\ 🐎")].map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    sent.occurred_at = Some("2020-02-29T00:00:00.000001Z".parse()?);
    sent.source = "/other".to_owned();
    ensure_eq!(stored[payloads.len()].envelope, sent, "the full event");
    Ok(())
}

/// Publishes with a delay and an end: the database's clock fixes both when it takes the event in.
pub async fn a_delay_is_counted_on_the_databases_clock(bench: TxBench) -> LawResult {
    let hour = Duration::from_secs(3_600);
    let mut tx = bench.rig.begin().await?;
    bench.outbox.publish(tx.tx(), order("a").after(hour).expires_after(hour * 2)).await?;
    tx.commit().await?;
    let envelope = bench.stored().await?.remove(0).envelope;
    let now = SystemClock.now();
    for (moment, expected) in [(envelope.available, now.after(hour)), (envelope.expires, now.after(hour * 2))]
    {
        let Some(Moment::At(at)) = moment else {
            return Err(Verdict::broken(format_args!("{moment:?} is not a time")));
        };
        let off = at.since(expected).max(expected.since(at));
        ensure!(off < Duration::from_secs(60), "{at} is {off:?} off");
    }
    Ok(())
}
