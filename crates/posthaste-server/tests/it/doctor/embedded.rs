//! Faults of an embedded store, of an outbox table in a SQLite file, of files and of the configuration.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::cli::folder::Folder;
use crate::doctor::seen::{doctor, of};
use crate::http_process::disk::Disk;

/// A folder with a store that was used once.
fn used() -> Folder {
    let folder = Folder::new();
    folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\n");
    folder.publish("order.placed", "{}");
    folder.ok(&["relay", "--once"]);
    folder
}

/// Its bytes and those of whatever lies beside it, but for the index of the log, which readers share.
fn contents(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let mut names = folder.names();
    names.retain(|name| !name.ends_with("-shm"));
    names.sort();
    names.into_iter().map(|name| (name.clone(), std::fs::read(folder.path(&name)).unwrap())).collect()
}

#[test]
fn a_healthy_store_is_well_and_nothing_is_changed_by_looking() {
    let empty = Folder::new();
    doctor(&empty, &[]).all_ok();
    assert!(empty.names().is_empty(), "{:?}", empty.names());
    let folder = used();
    let before = contents(&folder);
    doctor(&folder, &[]).all_ok();
    let after = contents(&folder);
    assert!(before.iter().all(|file| after.contains(file)), "a look changes nothing");
    let table = folder.ok(&["doctor"]);
    assert!(table.text().contains("ok       configuration"), "{}", table.text());
    assert!(table.text().contains("\n0 failures, 0 warnings, "), "{}", table.text());
    assert_eq!(folder.ok(&["doctor", "--problems"]).text().lines().count(), 1, "only the line that sums up");
}

#[test]
fn failures_come_first_and_are_in_colour_on_a_terminal() {
    let folder = used();
    folder.ok(&["lane", "pause", "main"]);
    folder.sql("CREATE TRIGGER hush BEFORE INSERT ON posthaste_events BEGIN SELECT RAISE(IGNORE); END");
    let answer = folder.run(&["doctor"]);
    let verdicts: Vec<_> = answer.text().lines().filter(|line| !line.starts_with(' ')).collect();
    let verdicts: Vec<_> = verdicts.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(&verdicts[..3], ["failure", "warning", "ok"], "{}", answer.text());
    assert!(!answer.text().contains('\u{1b}'), "{}", answer.text());
    let last = answer.text().lines().last().unwrap();
    assert!(last.starts_with("1 failure, 1 warning, ") && last.ends_with(" ok"), "{last}");
    let problems = folder.run(&["doctor", "--problems", "--output", "json"]).json();
    let named: Vec<_> = problems["findings"].as_array().unwrap().iter().map(|one| &one["verdict"]).collect();
    assert_eq!(named, ["failure", "warning"], "{problems:#}");
    let trial = "embedded::failures_come_first_and_are_in_colour_on_a_terminal";
    let Some(shown) = folder.on_terminal(trial, &["doctor", "--problems"]) else { return };
    assert!(shown.starts_with("\u{1b}[31mfailure"), "{shown:?}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_a_failure_like_any_other() {
    let folder = used();
    folder.write("posthaste.toml", "[lanes.main]\nto = \"nowhere\"\nwindow = 100001\n");
    let answer = folder.run(&["doctor", "--output", "json"]);
    let seen = of(&answer);
    assert!(seen.bad("configuration", "failure").words().contains("check --print"));
    assert_eq!(answer.json()["failures"], 2, "every mistake is told: {}", seen.text());
    folder.write("posthaste.toml", "[lanes.main]\nto = \"null:\"\n");
    doctor(&folder, &[]).all_ok();
}

#[test]
fn a_key_that_others_can_read_is_found() {
    let folder = used();
    folder.write("posthaste.key", "ph_0\n");
    let rights = |mode| {
        std::fs::set_permissions(folder.path("posthaste.key"), std::fs::Permissions::from_mode(mode)).unwrap()
    };
    rights(0o644);
    let seen = doctor(&folder, &[]);
    assert!(!seen.text().contains("ph_0"), "{}", seen.text());
    seen.bad("key file", "failure").run(&folder, "");
    doctor(&folder, &[]).ok("key file");
}

#[test]
fn a_journal_that_makes_readers_and_writers_wait_is_found() {
    let folder = used();
    folder.sql("PRAGMA journal_mode = DELETE");
    let mend = doctor(&folder, &[]).bad("journal", "warning").sql();
    // Looking again finds it again: the doctor itself did not mend it.
    doctor(&folder, &[]).bad("journal", "warning");
    mend.iter().for_each(|statement| folder.sql(statement));
    doctor(&folder, &[]).all_ok();
}

#[test]
fn a_trigger_that_changes_events_is_found() {
    let folder = used();
    folder.sql("CREATE TRIGGER \"hu sh\" BEFORE INSERT ON posthaste_events BEGIN SELECT RAISE(IGNORE); END");
    let mend = doctor(&folder, &[]).bad("triggers", "failure").sql();
    mend.iter().for_each(|statement| folder.sql(statement));
    doctor(&folder, &[]).all_ok();
}

#[test]
fn tables_that_are_missing_are_found() {
    let folder = Folder::new();
    folder.sql("CREATE TABLE other (a)");
    let mend = doctor(&folder, &[]).bad("schema", "failure");
    mend.run(&folder, "");
    doctor(&folder, &[]).ok("schema");
}

#[test]
fn a_lane_that_nobody_drives_and_that_holds_the_log_back_is_found() {
    let folder = used();
    folder.write("posthaste.toml", "[lanes.other]\nto = \"null:\"\n");
    folder.publish("order.placed", "{}");
    folder.ok(&["relay", "--once"]);
    let seen = doctor(&folder, &[]);
    seen.ok("lane other");
    seen.bad("lane main", "warning").run(&folder, "");
    doctor(&folder, &[]).all_ok();
}

#[test]
fn a_lane_that_somebody_paused_is_found() {
    let folder = used();
    folder.ok(&["lane", "pause", "main"]);
    doctor(&folder, &[]).bad("lane main", "warning").run(&folder, "");
    doctor(&folder, &[]).all_ok();
}

#[test]
fn a_disk_that_is_nearly_full_is_found() {
    let trial = "embedded::a_disk_that_is_nearly_full_is_found";
    let Some(disk) = Disk::mount(trial, "8m") else { return };
    let folder = Folder::new();
    let store = format!("sqlite://{}", disk.path().join("posthaste.db").display());
    folder.ok(&["publish", "--type", "a", "--data", "{}", "--store", &store]);
    let words = doctor(&folder, &["--store", &store]).bad("disk", "failure").words();
    assert!(words.contains("give the disk more"), "{words}");
    disk.remount("size=2g");
    doctor(&folder, &["--store", &store]).ok("disk");
}

/// An outbox table whose rows carry states and indexes of its owner.
#[test]
fn a_table_without_its_index_and_with_strange_states_is_found() {
    let folder = Folder::new();
    folder.write("posthaste.toml", "[store]\nengine = \"table\"\nurl = \"sqlite://posthaste.db\"\n[lanes.main]\nto = \"null:\"\norder = \"key\"\n");
    let ddl =
        folder.ok(&["migrate", "print", "--profile", "open-outbox", "--store", "sqlite://posthaste.db"]);
    let bare = ddl.text().replace("CREATE INDEX", "-- CREATE INDEX");
    folder.sql("PRAGMA journal_mode = WAL");
    folder.sql(&bare.replace("CHECK (\"status\" IN", "CHECK (\"status\" NOT NULL OR \"status\" IN"));
    let seen = doctor(&folder, &[]);
    for check in ["index of what is due", "index of keys"] {
        seen.bad(check, "warning").sql().iter().for_each(|statement| folder.sql(statement));
    }
    doctor(&folder, &[]).all_ok();
    folder.sql("INSERT INTO openoutbox_events (event_id, event_type, payload, status) VALUES ('a', 't', x'00', 'SENT')");
    let words = doctor(&folder, &[]).bad("lane main", "warning").words();
    assert!(!words.is_empty());
    folder.sql("UPDATE openoutbox_events SET status = 'DELIVERED'");
    doctor(&folder, &[]).all_ok();
    folder.sql("DROP TABLE openoutbox_events");
    let gone = doctor(&folder, &[]);
    assert!(gone.text().contains("there is no table"), "{}", gone.text());
    assert!(Path::new(&folder.path("posthaste.db")).exists());
}

#[test]
fn a_certificate_whose_time_is_over_is_found() {
    let folder = used();
    let configured = |name: &str| {
        let (target, ca) = ("null:", folder.path(name));
        folder.write("posthaste.toml", format!("[store]\ntls_ca = {ca:?}\n[lanes.main]\nto = {target:?}\n"));
    };
    folder.write("expired.pem", include_str!("certificates/expired.pem"));
    folder.write("lasting.pem", include_str!("certificates/lasting.pem"));
    configured("expired.pem");
    assert!(doctor(&folder, &[]).bad("store: certificate", "failure").words().contains("the new CA"));
    configured("lasting.pem");
    doctor(&folder, &[]).all_ok();
}
