//! The guide's commands, as they stand in it: only the database's address is another one.

use crate::cli::folder::Folder;
use crate::table::stand::{Base, Seen, Stand};

const GUIDE: &str = include_str!("../../../../../docs/adopt-a-table.md");
/// The address in the guide.
const ADDRESS: &str = "postgres://relay@db/shop";
/// The part of the guide about a table that says nothing of how far a row is.
const ORDINARY: &str = "\n## A table without a status, step by step\n";

/// The part about an ordinary table, and everything else.
fn parts() -> (&'static str, String) {
    let (before, rest) = GUIDE.split_once(ORDINARY).unwrap();
    let end = rest.find("\n## ").unwrap();
    (&rest[..end], format!("{before}{}", &rest[end..]))
}

/// The contents of the code blocks of a text in this language.
fn blocks_of(text: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let after_begin = text.split(&begin).skip(1);
    after_begin.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Those of the guide, but for the part about an ordinary table.
fn blocks(language: &str) -> Vec<String> {
    blocks_of(&parts().1, language)
}

/// The words of a command, without what is said about it.
fn words(line: &str) -> Vec<&str> {
    line.split(" #").next().unwrap().split_whitespace().collect()
}

#[tokio::test]
async fn every_command_of_the_guide_does_what_it_says() {
    let Some(stand) = Stand::empty(Base::Postgres, "every_command_of_the_guide_does_what_it_says").await
    else {
        return;
    };
    let url = stand.url();
    let commands: Vec<String> =
        blocks("sh").iter().flat_map(|block| block.lines()).map(|line| line.replace(ADDRESS, &url)).collect();
    let [make, once, on, conform, keep, audit] = &commands[..] else {
        panic!("other commands than this test knows: {commands:?}")
    };

    let run = async |line: &str| {
        let (print, into) = line.split_once(" | ").unwrap();
        assert_eq!(words(into), ["psql", &url]);
        stand.say(stand.folder.ok(&words(print)[1..]).text()).await;
    };
    run(make).await;
    // A table in partitions has a test of its own.
    let [insert, _] = &blocks("sql")[..] else { panic!("the guide has other blocks of SQL") };
    stand.say(insert).await;
    assert_eq!(stand.folder.ok(&words(once)[1..]).text().matches("\"type\":\"order.placed\"").count(), 1);

    stand.say(insert).await;
    let seen = Seen::default();
    let mut relay = stand.start(&words(on)[1..], &seen);
    seen.until(1);
    relay.signal("TERM");
    assert_eq!(relay.code(), 0);

    // One requirement is enough here: all of them have trials of their own.
    let report = stand.folder.ok(&[&words(conform)[1..], &["--only", "L3"]].concat());
    assert!(report.text().contains("1 ok, 0 failed"), "{}", report.text());

    run(keep).await;
    stand.folder.write("posthaste.toml", format!("[store]\nengine = \"table\"\nurl = \"{url}\"\n"));
    stand.folder.ok(&["replay", "--lane", "main"]);
    let record = stand.folder.ok(&words(audit)[1..]);
    assert!(record.text().contains("replay") && record.text().contains("lane=main"), "{}", record.text());
    stand.end().await;
}

#[tokio::test]
async fn the_configuration_of_the_guide_describes_a_table() {
    let Some(stand) = Stand::empty(Base::Postgres, "the_configuration_of_the_guide_describes_a_table").await
    else {
        return;
    };
    let [config] = &blocks("toml")[..] else { panic!("the guide has one block of TOML") };
    stand.folder.write("posthaste.toml", config.replace(ADDRESS, &stand.url()));
    stand.folder.ok(&["check"]);
    let ddl = stand.folder.ok(&["migrate", "print", "--profile", "custom"]);
    stand.say(&format!("CREATE SCHEMA billing; {}", ddl.text())).await;
    let insert = "INSERT INTO billing.outbox (message_id, kind, customer, payload) VALUES (gen_random_uuid(), 'paid', 'c', '{}')";
    stand.say(insert).await;
    assert_eq!(stand.folder.ok(&["relay", "--once"]).text().matches("\"type\":\"paid\"").count(), 1);
    assert_eq!(stand.folder.ok(&["event", "list"]).text().matches("paid").count(), 1);
    stand.folder.ok(&["stats"]);
    stand.folder.ok(&["replay", "--lane", "main"]);
    assert_eq!(stand.folder.ok(&["relay", "--once"]).text().matches("\"type\":\"paid\"").count(), 1);
    stand.folder.ok(&["prune", "--older-than", "0s", "--yes"]);
    stand.end().await;
}

/// What the guide says of a database under its name: the configuration, the table, and the commands.
struct Steps {
    config: String,
    table: String,
    commands: Vec<String>,
}

fn steps(database: &str) -> Steps {
    let (part, _) = parts();
    let [config] = &blocks_of(part, "toml")[..] else { panic!("one configuration for all of them") };
    let (_, section) = part.split_once(&format!("\n### {database}\n")).unwrap();
    let section = section.split("\n### ").next().unwrap();
    let ([table], [commands]) = (&blocks_of(section, "sql")[..], &blocks_of(section, "sh")[..]) else {
        panic!("one block of SQL and one of commands for {database}")
    };
    Steps {
        config: config.clone(),
        table: table.clone(),
        commands: commands.lines().map(str::to_owned).collect(),
    }
}

/// Walks the guide: the commands as they stand there, in the place of the database's own client what says SQL
/// to it.
async fn walk(folder: &Folder, url: &str, database: &str, say: impl AsyncFn(&str)) {
    let Steps { config, table, commands } = steps(database);
    folder.write("posthaste.toml", config.replace(ADDRESS, url));
    let [check, add, check_again, relay] = &commands[..] else { panic!("other commands: {commands:?}") };
    let (made, insert) = table.split_once("INSERT INTO").unwrap();
    let insert = format!("INSERT INTO{insert}");
    say(made).await;
    say(&insert).await;

    let answer = folder.run(&words(check)[1..]);
    assert_eq!(answer.code, 3, "{database}: {}", answer.text());
    let missing = ["status", "attempts", "available_at", "locked_by", "locked_at"];
    for column in missing {
        let line = format!("           no column {column} (store.columns.{column}: ");
        assert_eq!(
            answer.text().lines().filter(|said| said.starts_with(&line)).count(),
            1,
            "{}",
            answer.text()
        );
    }
    assert_eq!(answer.text().matches("no column").count(), missing.len(), "{}", answer.text());
    assert_eq!(answer.text().matches("migrate print").count(), 1, "{}", answer.text());
    // A relay says the same, and does not begin.
    let refused = folder.run(&words(relay)[1..]);
    refused.assert_failed(3, &["no column locked_at"]);
    assert_eq!(refused.stderr.matches("migrate print").count(), 1, "{}", refused.stderr);

    let (print, _) = add.split_once(" | ").unwrap();
    let sql = folder.ok(&words(print)[1..]).text().to_owned();
    assert!(!sql.contains("CREATE TABLE") && !sql.contains("uuid") && !sql.contains("NOT SOLVED"), "{sql}");
    say(&sql).await;
    folder.ok(&words(check_again)[1..]);
    let nothing = folder.ok(&words(print)[1..]);
    assert!(nothing.text().starts_with("-- The table orders_outbox has every column"), "{}", nothing.text());

    say(&insert).await;
    let relayed = folder.ok(&words(relay)[1..]);
    assert_eq!(relayed.text().matches("\"type\":\"order.placed\"").count(), 1, "{}", relayed.text());
    let line: serde_json::Value = serde_json::from_str(relayed.text()).unwrap();
    assert_eq!(
        (&line["id"], &line["key"]),
        (&"2".into(), &"c-1".into()),
        "the row that was there before was not sent"
    );
    assert_eq!(folder.json(&["stats"])["total"]["delivered"], 2);

    // Operators have what they need, though the table has no more columns than it must.
    let relayed = || folder.ok(&words(relay)[1..]).text().lines().count();
    folder.ok(&["replay", "--lane", "main"]);
    assert_eq!(relayed(), 2);
    folder.ok(&["event", "show", "2"]);
    for other in ["", "2x", "two", "99999999999999999999", "00000000-0000-0000-0000-000000000000"] {
        assert_eq!(folder.run(&["event", "show", other]).code, 6, "{database}: {other:?}");
    }
    say(&insert).await;
    folder.ok(&["event", "bury", "--lane", "main"]);
    assert_eq!(relayed(), 0);
    folder.ok(&["dead", "redrive", "--lane", "main"]);
    assert_eq!(relayed(), 1);
}

#[tokio::test]
async fn the_guide_adopts_an_ordinary_table_on_postgres() {
    let trial = "the_guide_adopts_an_ordinary_table_on_postgres";
    let Some(stand) = Stand::empty(Base::Postgres, trial).await else { return };
    walk(&stand.folder, &stand.url(), "Postgres", async |sql| stand.say(sql).await).await;
    stand.end().await;
}

#[tokio::test]
async fn the_guide_adopts_an_ordinary_table_on_mariadb() {
    let trial = "the_guide_adopts_an_ordinary_table_on_mariadb";
    let Some(stand) = Stand::empty(Base::Mariadb, trial).await else { return };
    walk(&stand.folder, &stand.url(), "MariaDB", async |sql| stand.say(sql).await).await;
    stand.end().await;
}

#[tokio::test]
async fn the_guide_adopts_an_ordinary_table_on_sqlite() {
    let folder = Folder::new();
    let shop = folder.path("shop.db");
    let say = async |sql: &str| rusqlite::Connection::open(&shop).unwrap().execute_batch(sql).unwrap();
    walk(&folder, "sqlite://shop.db", "SQLite", say).await;
}

/// The first paragraph names what a table must have, as the relay itself says it.
#[test]
fn the_first_paragraph_names_every_column_that_a_table_needs() {
    let first = GUIDE.split("\n\n").nth(1).unwrap();
    for column in [
        "id",
        "type",
        "payload",
        "created_at",
        "status",
        "attempts",
        "available_at",
        "locked_by",
        "locked_at",
    ] {
        let named = first.contains(&format!("`{column}`"))
            || first.contains(&format!("a {column}"))
            || first.contains(&format!("an {column}"));
        assert!(named, "{column} is not in: {first}");
    }
}

/// Without a database to look at it prints a table to make, and says why.
#[test]
fn a_database_that_cannot_be_reached_is_said_beside_the_sql_for_a_new_table() {
    let folder = Folder::new();
    let print = ["migrate", "print", "--profile", "open-outbox", "--table", "billing.outbox", "--store"];
    let answer = folder.ok(&[&print[..], &["postgres://relay@127.0.0.1:1/shop"]].concat());
    assert!(answer.text().starts_with("-- cannot look at the table ("), "{}", answer.text());
    assert!(answer.text().contains("CREATE TABLE \"billing\".\"outbox\" ("), "{}", answer.text());
    assert!(answer.stderr.contains("this SQL creates a new one"), "{}", answer.stderr);
}
