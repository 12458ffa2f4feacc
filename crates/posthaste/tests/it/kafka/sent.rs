//! What was delivered is there, where it belongs and in order.

use std::sync::Arc;

use posthaste::memory::Memory;
use posthaste::publisher::Publisher;
use posthaste::relay::{Lane, Relay};
use rdkafka::message::Message as _;

use crate::kafka::stand::{PARTITIONS, Stand, event, send};

/// As Java's client does it.
fn murmur2(key: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ u32::try_from(key.len()).unwrap();
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (place, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * place);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^= hash >> 15;
    i32::try_from(hash & 0x7fff_ffff).unwrap()
}

/// A relay delivers many keys at once: each is in the partition where Java's client would look for it, in its order, and nothing
/// is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_in_its_partition_and_its_order_holds() {
    let Some(stand) = Stand::shared("a_key_is_in_its_partition_and_its_order_holds") else { return };
    let store = Arc::new(Memory::new());
    let events = (0..2_000_u32).map(|n| {
        let mut event = event(format!("{n:06}"), "t");
        event.key = Some(format!("kéy-{}", n % 97));
        event
    });
    store.publish(events.collect()).await.unwrap();
    let target = Arc::new(stand.open(&format!("create_topics={PARTITIONS}")));
    let relay = Relay::new(store).lane(Lane::named("main").unwrap().to(target));
    assert_eq!(relay.once().await.unwrap().delivered, 2_000);
    let messages = stand.messages("t");
    assert_eq!(messages.len(), 2_000);
    for message in &messages {
        assert_eq!(message.partition(), murmur2(message.key().unwrap()) % PARTITIONS);
    }
    let ids: Vec<u32> = stand.ids("t").iter().map(|id| id.parse().unwrap()).collect();
    for key in 0..97 {
        assert!(ids.iter().filter(|n| *n % 97 == key).is_sorted(), "key {key}");
    }
}

/// Every compression, and every acknowledgement that one can ask for.
#[tokio::test(flavor = "multi_thread")]
async fn batches_are_compressed_and_acknowledged_as_asked() {
    let Some(stand) = Stand::shared("batches_are_compressed_and_acknowledged_as_asked") else { return };
    stand.make("t", &[]).await;
    let ways = [
        "",
        "compression=gzip",
        "compression=snappy",
        "compression=lz4",
        "compression=zstd",
        "acks=1",
        "acks=0",
    ];
    for way in ways {
        let mut event = event(way, "t");
        event.payload = vec![b'x'; 10_000];
        assert_eq!(send(&stand.open(&format!("linger=0ms&{way}")), vec![event]).await, [Ok(())], "{way}");
    }
    // Nobody was waited for with acks=0.
    crate::kafka::stand::until("all of them are there", async || stand.ids("t").len() == ways.len()).await;
    assert!(stand.messages("t").iter().all(|message| message.payload() == Some(&[b'x'; 10_000])));
}
