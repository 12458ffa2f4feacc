//! A Kafka behind a proxy, for tests of several brokers.

#[path = "../kafka/behind.rs"]
pub(crate) mod behind;
#[expect(dead_code, unused_imports, reason = "shared with the tests of Kafka, which need more of it")]
#[path = "../kafka/stand.rs"]
pub(crate) mod stand;
