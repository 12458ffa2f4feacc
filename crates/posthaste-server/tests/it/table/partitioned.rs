//! A table in partitions by time, as docs/adopt-a-table.md has it for tables that grow very large.

use serde_json::Value;

use crate::table::relaying::operate;
use crate::table::stand::{Base, Seen, Stand};

/// The statements of a section of the guide.
fn guide(section: &str) -> String {
    let guide = include_str!("../../../../../docs/adopt-a-table.md");
    let section = guide.split(section).nth(1).expect("the guide has that section");
    section.split("```sql").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// Rows of two months are relayed, shown and replayed; an old partition goes without touching the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_in_partitions_is_relayed_like_any_other() {
    let trial = "a_table_in_partitions_is_relayed_like_any_other";
    let Some(stand) = Stand::empty(Base::Postgres, trial).await else { return };
    stand.say(&guide("## Very large tables")).await;
    let insert = |at: &str, rows: u32| {
        format!(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, created_at)
             SELECT gen_random_uuid(), 'order.placed', '{{}}', '{at}' FROM generate_series(1, {rows})"
        )
    };
    stand.say(&insert("2026-01-15", 30)).await;
    stand.say(&insert("2026-02-15", 50)).await;
    let before = stand.immutable().await;
    let seen = Seen::default();
    let relay = stand.lasting_relay(&seen);
    seen.until(80);
    stand.until(80, "status = 'DELIVERED'").await;
    drop(relay);
    stand.assert_once(&seen).await;
    assert_eq!(stand.immutable().await, before);
    let lanes: Value = serde_json::from_str(&operate(&stand, &["lane", "list", "--output", "json"])).unwrap();
    assert_eq!(lanes["lanes"][0]["delivered"], 80);
    operate(&stand, &["replay", "--lane", "main", "--until", "2026-02-01T00:00:00Z"]);
    assert_eq!(stand.count("status = 'PENDING'").await, 30);
    stand.say("DROP TABLE openoutbox_events_2026_01").await;
    assert_eq!(stand.count("true").await, 50);
    stand.end().await;
}
