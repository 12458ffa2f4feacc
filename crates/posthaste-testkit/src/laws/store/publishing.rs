//! An event exists if and only if the transaction that published it committed.

use posthaste_core::ErrorKind;
use posthaste_core::envelope::Envelope;
use posthaste_core::publisher::Published;

use crate::drive::{StoreBench, event, ids, keyed, lane};
use crate::law::{LawResult, Verdict};
use crate::{ensure, ensure_eq};

/// Changes something about an event.
type Change = fn(&mut Envelope);

/// Commits a publish in a producer's own transaction, then claims.
pub async fn a_committed_publish_is_claimed(bench: StoreBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    tx.publish(event("order-1")).await?;
    tx.commit().await?;
    let driver = bench.drive(&lane("main")).await?;
    ensure_eq!(ids(&driver.claim_all().await?), ["order-1"], "what is claimed");
    Ok(())
}

/// Publishes, rolls back, publishes another, and looks: only the other exists, also after a full lease.
pub async fn a_rolled_back_publish_is_never_claimed(bench: StoreBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    tx.publish(event("order-1")).await?;
    tx.rollback().await?;
    bench.publish(&["order-2"]).await?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    ensure_eq!(ids(&driver.claim_all().await?), ["order-2"], "what is claimed");
    bench.pass(main.lease * 2);
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["order-2"], "what is claimed later");
    ensure_eq!(bench.find(&Default::default()).await?.len(), 1, "events found");
    Ok(())
}

/// Publishes around a savepoint that is rolled back to: what was between is not there, and the rest is.
pub async fn what_is_rolled_back_to_a_savepoint_is_never_claimed(bench: StoreBench) -> LawResult {
    let mut tx = bench.rig.begin().await?;
    tx.publish(event("before")).await?;
    tx.savepoint().await?;
    tx.publish(event("between")).await?;
    tx.rollback_to_savepoint().await?;
    tx.publish(event("after")).await?;
    tx.commit().await?;
    let driver = bench.drive(&lane("main")).await?;
    ensure_eq!(driver.drain().await?, ["before", "after"], "what is claimed");
    Ok(())
}

/// Looks while the producer's transaction is open: nothing is claimed or found before the commit.
pub async fn an_uncommitted_publish_is_invisible(bench: StoreBench) -> LawResult {
    let driver = bench.drive(&lane("main")).await?;
    let mut tx = bench.rig.begin().await?;
    tx.publish(event("order-1")).await?;
    ensure!(driver.claim_all().await?.is_empty(), "an uncommitted event was claimed");
    ensure!(bench.find(&Default::default()).await?.is_empty(), "an uncommitted event was found");
    tx.commit().await?;
    ensure_eq!(ids(&driver.claim_all().await?), ["order-1"], "what is claimed after the commit");
    Ok(())
}

/// One transaction publishes and stays open; others publish, commit, are claimed and settled meanwhile. When the first
/// commits at last, its event is claimed too.
pub async fn a_late_commit_is_not_skipped_and_delays_nobody(bench: StoreBench) -> LawResult {
    bench.rig.can().overlap.map_err(Verdict::skipped)?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let mut early = bench.rig.begin().await?;
    early.publish(event("early")).await?;
    for id in ["late-1", "late-2"] {
        let mut tx = bench.rig.begin().await?;
        tx.publish(event(id)).await?;
        tx.commit().await?;
    }
    ensure_eq!(driver.drain().await?, ["late-1", "late-2"], "what is claimed while a transaction is open");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 2, "delivered while a transaction is open");
    early.commit().await?;
    ensure_eq!(driver.drain().await?, ["early"], "what is claimed after the late commit");
    ensure_eq!(bench.stats(&main.name).await?.delivered, 3, "delivered in the end");
    Ok(())
}

/// Commits late, after everything else was delivered: the lane says that something is unread until that is delivered too.
pub async fn what_committed_late_counts_as_unread(bench: StoreBench) -> LawResult {
    bench.rig.can().overlap.map_err(Verdict::skipped)?;
    let main = lane("main");
    let driver = bench.drive(&main).await?;
    let mut late = bench.rig.begin().await?;
    late.publish(event("late")).await?;
    bench.publish(&["early"]).await?;
    ensure_eq!(driver.drain().await?, ["early"], "what is claimed before");
    let before = bench.stats(&main.name).await?;
    ensure_eq!((before.unread, before.oldest_unread_at.is_some()), (0, false), "unread before the commit");
    late.commit().await?;
    let stats = bench.stats(&main.name).await?;
    ensure_eq!((stats.unread, stats.oldest_unread_at.is_some()), (1, true), "unread after the commit");
    ensure_eq!(driver.drain().await?, ["late"], "what is claimed after");
    ensure_eq!(bench.stats(&main.name).await?.unread, 0, "unread in the end");
    Ok(())
}

/// The same, but the lane is given up and taken anew between the settle and the late commit: the stored place must know
/// what it has not passed.
pub async fn a_late_commit_is_not_skipped_by_a_later_lease(bench: StoreBench) -> LawResult {
    bench.rig.can().overlap.map_err(Verdict::skipped)?;
    let main = lane("main");
    let mut early = bench.rig.begin().await?;
    early.publish(event("early")).await?;
    bench.publish(&["late"]).await?;
    let driver = bench.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["late"], "what is claimed while a transaction is open");
    driver.give_up().await?;
    early.commit().await?;
    let driver = bench.again().await?.drive(&main).await?;
    ensure_eq!(driver.drain().await?, ["early"], "what the next lease claims");
    Ok(())
}

/// Publishes the same event twice, in two calls and in one: `Before`, and one record.
pub async fn the_same_event_twice_is_stored_once(bench: StoreBench) -> LawResult {
    ensure_eq!(bench.store.publish(vec![event("a")]).await?, [Published::Now], "the first publish");
    bench.pass(std::time::Duration::from_secs(60));
    ensure_eq!(bench.store.publish(vec![event("a")]).await?, [Published::Before], "the second publish");
    let both = bench.store.publish(vec![event("b"), event("b")]).await?;
    ensure_eq!(both, [Published::Now, Published::Before], "one call with the same event twice");
    let mut elsewhere = event("a");
    elsewhere.source = "/elsewhere".to_owned();
    ensure_eq!(
        bench.store.publish(vec![elsewhere]).await?,
        [Published::Now],
        "the same id of another source"
    );
    ensure_eq!(bench.drive(&lane("main")).await?.drain().await?, ["a", "b", "a"], "what is claimed");
    Ok(())
}

/// Changes each attribute that is compared, one at a time: each time `Conflict`, and what was stored stays as it was.
pub async fn the_same_id_with_other_contents_is_a_conflict_and_stores_nothing(
    bench: StoreBench,
) -> LawResult {
    bench.publish_all(vec![event("a")]).await?;
    let changes: [(&str, Change); 8] = [
        ("payload", |event| event.payload = b"other".to_vec()),
        ("type", |event| event.event_type = "other".to_owned()),
        ("topic", |event| event.topic = "other".to_owned()),
        ("key", |event| event.key = Some("other".to_owned())),
        ("subject", |event| event.subject = Some("other".to_owned())),
        ("version", |event| event.version = 2),
        ("content type", |event| event.content_type = "text/plain".to_owned()),
        ("headers", |event| drop(event.headers.insert("x".to_owned(), "other".to_owned()))),
    ];
    for (what, change) in changes {
        let mut other = event("a");
        change(&mut other);
        let kind = bench.store.publish(vec![other]).await.map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Conflict), "publishing with another {what}");
    }
    let found = bench.find(&Default::default()).await?;
    ensure_eq!(found.len(), 1, "events found");
    ensure_eq!(found[0].envelope.payload, event("a").payload, "the payload");
    Ok(())
}

/// The last event of a batch conflicts, or is too large: none of the batch is stored.
pub async fn a_batch_is_all_or_nothing(bench: StoreBench) -> LawResult {
    bench.publish(&["there"]).await?;
    let mut other = event("there");
    other.payload = b"other".to_vec();
    let mut huge = event("huge");
    huge.payload = vec![0; posthaste_core::limits::PAYLOAD_BYTES_MAX + 1];
    for bad in [other, huge] {
        let batch = vec![event("a"), event("b"), bad];
        ensure!(bench.store.publish(batch).await.is_err(), "a bad batch was taken");
    }
    let driver = bench.drive(&lane("main")).await?;
    ensure_eq!(driver.drain().await?, ["there"], "what is claimed");
    bench.publish(&["a", "b"]).await?;
    ensure_eq!(driver.drain().await?, ["a", "b"], "what is claimed after a good batch");
    Ok(())
}

/// Sends null bytes, bytes that are no UTF-8, nothing, every byte, and 1 MiB through the store: the same bytes come out.
pub async fn payload_bytes_are_exact(bench: StoreBench) -> LawResult {
    let payloads: Vec<Vec<u8>> = vec![
        b"a\0b\0".to_vec(),
        vec![0xff, 0xfe, 0xc3, 0x28],
        Vec::new(),
        (0..=255).collect(),
        "{\"emoji\":\"🐎\",\"quote\":\"\\\"\"}".into(),
        (0..posthaste_core::limits::PAYLOAD_BYTES_MAX).map(|n| (n * 31 % 251) as u8).collect(),
    ];
    for (n, payload) in payloads.iter().enumerate() {
        let mut event = event(&format!("e{n}"));
        event.payload = payload.clone();
        bench.publish_all(vec![event]).await?;
    }
    let claimed = bench.drive(&lane("main")).await?.claim_all().await?;
    ensure_eq!(claimed.len(), payloads.len(), "events claimed");
    for (claimed, payload) in claimed.iter().zip(&payloads) {
        ensure!(
            claimed.parcel.envelope.payload == *payload,
            "payload of {} changed",
            claimed.parcel.envelope.id
        );
    }
    for (record, payload) in bench.find(&Default::default()).await?.iter().rev().zip(&payloads) {
        ensure!(record.envelope.payload == *payload, "payload of {} is found changed", record.envelope.id);
        ensure_eq!(record.payload_bytes, Some(payload.len() as u64), "bytes of {}", record.envelope.id);
    }
    Ok(())
}

/// Publishes an event with every attribute set, with letters from far away: all of it is claimed and found again.
pub async fn every_attribute_arrives_as_it_was_published(bench: StoreBench) -> LawResult {
    let mut sent = keyed("ид-1", "ключ 🗝 \"'; DROP TABLE");
    sent.source = "/shop/Ωrders".to_owned();
    sent.event_type = "order.plaçed".to_owned();
    sent.topic = "orders.eu".to_owned();
    sent.subject = Some("対象".to_owned());
    sent.version = 7;
    sent.content_type = "application/x-protobuf".to_owned();
    sent.headers.insert("traceparent".to_owned(), "00-abc-def-01".to_owned());
    sent.headers.insert("grüße".replace("ü", "u").replace("ß", "ss"), "схема \\ \" '".to_owned());
    sent.occurred_at = Some("2020-02-29T12:00:00.123456Z".parse()?);
    bench.publish_all(vec![sent.clone(), event("plain")]).await?;
    let claimed = bench.drive(&lane("main")).await?.claim_all().await?;
    ensure_eq!(*claimed[0].parcel.envelope, sent, "the claimed envelope");
    ensure_eq!(
        claimed[1].parcel.envelope.occurred_at,
        Some(bench.rig.now()),
        "when it happened, unless it says"
    );
    let found = bench.find(&Default::default()).await?;
    ensure_eq!(found[1].envelope, sent, "the found envelope");
    Ok(())
}

/// Breaks each limit: an error of the right kind that names the field, and nothing is stored.
pub async fn what_is_over_a_limit_is_refused_and_not_stored(bench: StoreBench) -> LawResult {
    let breaks: [(&str, ErrorKind, Change); 6] = [
        ("payload", ErrorKind::TooLarge, |event| event.payload = vec![0; 1024 * 1024 + 1]),
        ("key", ErrorKind::TooLarge, |event| event.key = Some("k".repeat(256))),
        ("type", ErrorKind::Rejected, |event| event.event_type.clear()),
        ("id", ErrorKind::TooLarge, |event| event.id = "i".repeat(256)),
        ("headers", ErrorKind::TooLarge, |event| {
            event.headers = (0..65).map(|n| (format!("h{n}"), String::new())).collect();
        }),
        ("header", ErrorKind::Rejected, |event| {
            drop(event.headers.insert("ce-id".to_owned(), String::new()))
        }),
    ];
    for (what, expected, change) in breaks {
        let mut bad = event("bad");
        change(&mut bad);
        match bench.store.publish(vec![bad]).await {
            Ok(_) => return Err(Verdict::broken(format_args!("a bad {what} was taken"))),
            Err(error) => {
                ensure_eq!(error.kind(), expected, "the kind for {what}");
                ensure!(error.to_string().contains(what), "{error} does not name the {what}");
            }
        }
    }
    ensure!(bench.find(&Default::default()).await?.is_empty(), "something was stored");
    Ok(())
}
