//! A database that was copied: the relay refuses it and says what to run, and after that the line goes on.

use crate::postgres::stand::{Stand, insert};

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_database_is_refused_until_it_is_rebased() {
    let trial = "moved::a_copied_database_is_refused_until_it_is_rebased";
    let Some(stand) = Stand::new(trial).await else { return };
    let shop = stand.session("program_shop").await;
    shop.batch_execute(&insert("before")).await.unwrap();
    let carrier = stand.url("program_carrier");
    let relay = ["relay", "--to", "stdout:", "--once", "--store", &carrier];
    assert!(stand.folder.ok(&relay).text().contains("\"before\""));
    // What `CREATE DATABASE … TEMPLATE` leaves: the tables of another database.
    let admin = stand.session("postgres").await;
    admin.batch_execute("UPDATE posthaste_meta SET database_oid = database_oid + 1").await.unwrap();
    shop.batch_execute(&insert("after")).await.unwrap();
    let refused = stand.folder.run(&relay);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("posthaste lane rebase --yes"), "{}", refused.stderr);
    assert!(refused.text().is_empty(), "{}", refused.text());

    let deployer = stand.url("program_deployer");
    let rebase = |consent: &[&str]| {
        stand.folder.run(&[&["lane", "rebase", "--store", &deployer, "--output", "json"], consent].concat())
    };
    assert_ne!(rebase(&[]).code, 0, "nothing is rewritten without a yes");
    let would = rebase(&["--dry-run"]);
    assert_eq!(would.code, 0, "{}", would.stderr);
    assert_ne!(stand.folder.run(&relay).code, 0, "a dry run changes nothing");
    let done = rebase(&["--yes"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(would.json()["matched"], done.json()["matched"]);
    let relayed = stand.folder.ok(&relay);
    assert!(
        relayed.text().contains("\"after\"") && !relayed.text().contains("\"before\""),
        "{}",
        relayed.text()
    );
    stand.end().await;
}
