//! What is wrong with a table is said at the start, with what to do.

use crate::stand::Stand;

#[tokio::test]
async fn what_is_missing_is_said_with_its_column_type_or_grant() {
    let Some(stand) = Stand::empty("mariadb::what_is_missing_is_said_with_its_column_type_or_grant").await
    else {
        return;
    };
    stand.make_table().await;
    let name = stand.name();
    let user = stand.url().replace("posthaste@", "stranger@");
    let once =
        |url: &str| stand.folder.run(&["relay", "--storage-url", url, "--publisher", "null:", "--once"]);
    stand
        .say(&format!(
            "CREATE USER IF NOT EXISTS stranger; GRANT CREATE TEMPORARY TABLES ON {name}.* TO stranger"
        ))
        .await;
    once(&user).assert_failed(3, &["GRANT SELECT, UPDATE ON it"]);
    stand.say(&format!("GRANT SELECT ON {name}.openoutbox_events TO stranger")).await;
    once(&user).assert_failed(3, &["GRANT UPDATE (status, attempts"]);
    stand.say(&format!("GRANT UPDATE ON {name}.openoutbox_events TO stranger")).await;
    assert_eq!(once(&user).code, 0, "these two rights are enough");
    stand.say("ALTER TABLE openoutbox_events DROP COLUMN locked_at, MODIFY attempts text").await;
    once(&stand.url()).assert_failed(3, &["no column locked_at", "attempts has the type text"]);
    stand.say("CREATE TABLE other LIKE openoutbox_events; DROP TABLE openoutbox_events").await;
    stand.make_table().await;
    stand.say("ALTER TABLE openoutbox_events ENGINE = Aria").await;
    once(&stand.url()).assert_failed(3, &["has no transactions"]);
    once("mysql://nobody:secret@127.0.0.1:1/x").assert_failed(4, &["the database is away"]);
    stand.end().await;
}

#[tokio::test]
async fn a_table_that_comes_later_is_waited_for() {
    let Some(stand) = Stand::empty("mariadb::a_table_that_comes_later_is_waited_for").await else { return };
    let url = stand.url();
    let once = stand.folder.run(&["relay", "--storage-url", &url, "--publisher", "null:", "--once"]);
    once.assert_failed(4, &["there is no table openoutbox_events"]);
    let mut relay = stand.relay();
    stand.make_table().await;
    stand.insert(5).await;
    stand.until_seen(5).await;
    relay.signal("TERM");
    assert_eq!(relay.code(), 0);
    stand.end().await;
}
