//! A store that cannot be used: a clear sentence, the right code, and nothing half done.

use std::os::unix::fs::MetadataExt as _;

use crate::cli::folder::Folder;
use crate::http_process::disk::Disk;

#[test]
fn a_look_at_a_store_that_is_not_there_makes_none() {
    let folder = Folder::new();
    for verb in [
        &["event", "list"][..],
        &["lane", "list"],
        &["stats"],
        &["prune"],
        &["dead", "list"],
        &["audit"],
        &["migrate", "status"],
    ] {
        folder.run(verb).assert_failed(4, &["posthaste.db is not there", "--store URL"]);
    }
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

/// Nobody, not even root, can make a file in /proc.
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = Folder::new();
    let answer =
        folder.run(&["publish", "--type", "x", "--data", "{}", "--store", "sqlite:///proc/posthaste.db"]);
    answer.assert_failed(3, &["/proc/posthaste.db cannot be made"]);
}

/// Root may write everything, so a folder that may not be written is had by a mount.
#[test]
fn a_read_only_mount_is_named_and_loses_nothing() {
    let Some(disk) = Disk::mount("store::a_read_only_mount_is_named_and_loses_nothing", "4m") else {
        return;
    };
    let folder = Folder::new();
    let store = format!("sqlite://{}", disk.path().join("posthaste.db").display());
    let publish = ["publish", "--type", "x", "--data", "{}", "--store", &store];
    folder.ok(&publish);
    disk.remount("ro");
    for verb in [&publish[..], &["serve", "--store", &store], &["event", "list", "--store", &store]] {
        folder
            .run(verb)
            .assert_failed(3, &["posthaste.db cannot be written", "mounted read-only", "mount it otherwise"]);
    }
    disk.remount("rw");
    let listed = folder.json(&["event", "list", "--store", &store]);
    assert_eq!(listed["events"].as_array().unwrap().len(), 1);
}

/// The locks of a process on a file end when it closes any descriptor of that file. The next process that
/// closes the file then takes itself for the last one and removes the log, into which the first one goes on
/// to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_one_process_opens_twice_keeps_its_log_when_another_closes_it() {
    let folder = Folder::new();
    let url = format!("sqlite://{}", folder.path("posthaste.db").display());
    let store = posthaste::store::open(&url).await.unwrap();
    let _second = posthaste::store::open(&url).await.unwrap();
    let publish = async |id: &str| {
        let mut event = posthaste::envelope::Envelope::new("x", b"{}".to_vec());
        event.id = id.to_owned();
        store.publish(vec![event]).await
    };
    publish("before").await.unwrap();
    let log = folder.path("posthaste.db-wal");
    let number = || std::fs::metadata(&log).map(|log| log.ino()).ok();
    let opened = number();
    let list = ["event", "list", "--store", &url];
    assert_eq!(folder.json(&list)["events"].as_array().unwrap().len(), 1);
    assert!(opened.is_some());
    assert_eq!(number(), opened, "the log is the one that is written");
    publish("after").await.unwrap();
    assert_eq!(folder.json(&list)["events"].as_array().unwrap().len(), 2);
}

#[test]
fn a_full_disk_is_told_and_nothing_is_half_done() {
    let Some(disk) = Disk::mount("store::a_full_disk_is_told_and_nothing_is_half_done", "2m") else { return };
    let folder = Folder::new();
    let store = format!("sqlite://{}", disk.path().join("posthaste.db").display());
    let publish = |payload: &str| {
        folder.run(&[
            "publish",
            "--type",
            "x",
            "--content-type",
            "text/plain",
            "--data",
            payload,
            "--store",
            &store,
        ])
    };
    assert_eq!(publish("small").code, 0);
    std::fs::write(disk.path().join("ballast"), vec![0; 2 * 1024 * 1024]).unwrap_err();
    publish(&"large".repeat(10_000)).assert_failed(4, &["is full; free some space"]);
    std::fs::remove_file(disk.path().join("ballast")).unwrap();
    assert_eq!(publish(&"large".repeat(10_000)).code, 0);
    let listed = folder.json(&["event", "list", "--store", &store]);
    assert_eq!(listed["events"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_that_is_no_database_is_not_touched() {
    let folder = Folder::new();
    let garbage = "this is a letter, not a database\n".repeat(200);
    folder.write("posthaste.db", &garbage);
    let answer = folder.run(&["publish", "--type", "x", "--data", "{}"]);
    assert_ne!(answer.code, 0);
    assert!(answer.stderr.contains("posthaste.db"), "{}", answer.stderr);
    assert_eq!(std::fs::read_to_string(folder.path("posthaste.db")).unwrap(), garbage);
}

#[test]
fn a_schema_that_is_too_new_is_refused() {
    let folder = Folder::new();
    folder.publish("x", "{}");
    folder.sql("UPDATE posthaste_meta SET schema = 900, compatible_from = 900");
    let answer = folder.run(&["publish", "--type", "y", "--data", "{}"]);
    answer.assert_failed(3, &["900"]);
    folder.sql("UPDATE posthaste_meta SET schema = 1, compatible_from = 1");
    assert_eq!(folder.json(&["event", "list"])["events"].as_array().unwrap().len(), 1);
}

/// What is only looked at is not migrated; tables that somebody dropped are not made up for.
#[test]
fn a_schema_that_is_missing_is_told_and_made_by_migrate() {
    let folder = Folder::new();
    rusqlite::Connection::open(folder.path("posthaste.db"))
        .unwrap()
        .execute_batch("CREATE TABLE mine (a)")
        .unwrap();
    let look = ["event", "list", "--store", "sqlite://posthaste.db?mode=ro"];
    folder.run(&look).assert_failed(3, &["failed to list events", "are missing", "posthaste migrate up"]);
    folder.ok(&["migrate", "up"]);
    folder.ok(&look);
    folder.sql("DROP TABLE posthaste_events");
    folder
        .run(&["publish", "--type", "x", "--data", "{}"])
        .assert_failed(3, &["failed to publish", "are missing", "restore a backup"]);
}

#[test]
fn migrate_makes_the_tables_and_says_so() {
    let folder = Folder::new();
    let status = folder.json(&["migrate", "up"]);
    assert_eq!(status["usable"], true, "{status}");
    assert_eq!(folder.json(&["migrate", "status"])["present"], status["wanted"]);
    let printed =
        folder.command(&["migrate", "print"]).env("POSTHASTE__STORE__PREFIX", "shop_").output().unwrap();
    let sql = String::from_utf8(printed.stdout).unwrap();
    assert!(sql.contains("shop_events") && !sql.contains("{prefix}"), "{sql}");
    rusqlite::Connection::open_in_memory().unwrap().execute_batch(&sql).unwrap();
}
