//! What is wrong with a table is said at the start, with what to do.

use crate::table::stand::{Base, Seen, Stand, on_every_database};

on_every_database! { empty: a_table_that_comes_later_is_waited_for, what_is_missing_is_said_with_its_column_type_or_grant }

async fn what_is_missing_is_said_with_its_column_type_or_grant(stand: Stand) {
    stand.make_table().await;
    let once =
        |url: &str| stand.folder.run(&["relay", "--storage-url", url, "--publisher", "null:", "--once"]);
    let user = stand.url_of("table_stranger");
    match stand.base {
        Base::Postgres => {
            let make = "DO $$ BEGIN CREATE ROLE table_stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$";
            stand.say(make).await;
            once(&user).assert_failed(3, &["GRANT SELECT, UPDATE (\"status\"", "ON \"openoutbox_events\""]);
        }
        Base::Mariadb => {
            let name = stand.name();
            stand
                .say(&format!(
                    "CREATE USER IF NOT EXISTS table_stranger; GRANT CREATE TEMPORARY TABLES ON {name}.* TO table_stranger"
                ))
                .await;
            once(&user).assert_failed(3, &["GRANT SELECT, UPDATE ON it"]);
            stand.say("GRANT SELECT ON openoutbox_events TO table_stranger").await;
            once(&user).assert_failed(3, &["GRANT UPDATE (status, attempts"]);
        }
    }
    stand.say("GRANT SELECT, UPDATE ON openoutbox_events TO table_stranger").await;
    assert_eq!(once(&user).code, 0, "these two rights are enough");
    stand.say("REVOKE SELECT, UPDATE ON openoutbox_events FROM table_stranger").await;
    let (strict, lax) = match stand.base {
        Base::Postgres => ("ALTER COLUMN locked_by SET NOT NULL", "ALTER COLUMN locked_by DROP NOT NULL"),
        Base::Mariadb => ("MODIFY locked_by varchar(255) NOT NULL", "MODIFY locked_by varchar(255)"),
    };
    stand.say(&format!("ALTER TABLE openoutbox_events {strict}")).await;
    once(&stand.url()).assert_failed(3, &["the column locked_by is NOT NULL", "while no relay has the row"]);
    stand.say(&format!("ALTER TABLE openoutbox_events {lax}")).await;
    let other_type = stand.base.either("ALTER COLUMN attempts TYPE text", "MODIFY attempts text");
    stand.say(&format!("ALTER TABLE openoutbox_events DROP COLUMN locked_at, {other_type}")).await;
    once(&stand.url()).assert_failed(3, &["no column locked_at", "attempts has the type text"]);
    if stand.base == Base::Mariadb {
        stand.say("DROP TABLE openoutbox_events").await;
        stand.make_table().await;
        stand.say("ALTER TABLE openoutbox_events ENGINE = Aria").await;
        once(&stand.url()).assert_failed(3, &["has no transactions"]);
        once("mysql://nobody:secret@127.0.0.1:1/x").assert_failed(4, &["the database is away"]);
    }
    stand.end().await;
}

async fn a_table_that_comes_later_is_waited_for(stand: Stand) {
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
