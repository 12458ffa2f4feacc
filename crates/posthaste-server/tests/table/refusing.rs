//! What is wrong with a table is said at the start, with what to do.

use crate::stand::{Seen, Stand};

#[tokio::test]
async fn what_is_missing_is_said_with_its_column_type_or_grant() {
    let Some(stand) = Stand::empty("what_is_missing_is_said_with_its_column_type_or_grant").await else {
        return;
    };
    stand.make_table().await;
    let user = stand.url_of("table_stranger");
    let once =
        |url: &str| stand.folder.run(&["relay", "--storage-url", url, "--publisher", "null:", "--once"]);
    let make =
        "DO $$ BEGIN CREATE ROLE table_stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    stand.client.batch_execute(make).await.unwrap();
    once(&user).assert_failed(3, &["GRANT SELECT, UPDATE (\"status\"", "ON \"openoutbox_events\""]);
    stand.client.batch_execute("GRANT SELECT, UPDATE ON openoutbox_events TO table_stranger").await.unwrap();
    assert_eq!(once(&user).code, 0, "these two rights are enough");
    let change = "ALTER TABLE openoutbox_events DROP COLUMN locked_at, ALTER COLUMN attempts TYPE text";
    stand.client.batch_execute(change).await.unwrap();
    once(&stand.url()).assert_failed(3, &["no column locked_at", "attempts has the type text"]);
    stand.client.batch_execute("REVOKE ALL ON openoutbox_events FROM table_stranger").await.unwrap();
    stand.end().await;
}

#[tokio::test]
async fn a_table_that_comes_later_is_waited_for() {
    let Some(stand) = Stand::empty("a_table_that_comes_later_is_waited_for").await else { return };
    let url = stand.url();
    let once = stand.folder.run(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    once.assert_failed(4, &["there is no table openoutbox_events"]);
    let seen = Seen::default();
    let mut relay = stand.relay(&seen);
    stand.make_table().await;
    stand.insert(5).await;
    seen.until(5);
    relay.signal("TERM");
    assert_eq!(relay.code(), 0);
    stand.end().await;
}
