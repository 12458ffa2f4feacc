//! What a doctor finds in a table on MariaDB, and how it is mended.

use crate::doctor::seen::doctor;
use crate::table::stand::{Base, Stand};

#[tokio::test]
async fn a_doctor_finds_an_index_that_is_missing_and_says_how_it_is_made() {
    let trial = "doctoring::a_doctor_finds_an_index_that_is_missing_and_says_how_it_is_made";
    let Some(stand) = Stand::new(Base::Mariadb, trial).await else { return };
    stand.folder.write(
        "posthaste.toml",
        "[store]\nengine = \"table\"\n[lanes.main]\nto = \"null:\"\norder = \"key\"\n",
    );
    let url = stand.url();
    let look = || doctor(&stand.folder, &["--store", &url]);
    for (index, check) in [("pickup", "index of what is due"), ("order", "index of keys")] {
        look().ok(check);
        stand.say(&format!("DROP INDEX openoutbox_events_{index} ON openoutbox_events")).await;
        for statement in look().bad(check, "warning").sql() {
            stand.say(&statement).await;
        }
        look().ok(check);
    }
    look().ok("innodb_flush_log_at_trx_commit");
    stand.end().await;
}
