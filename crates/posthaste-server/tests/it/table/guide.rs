//! The guide's commands, as they stand in it: only the database's address is another one.

use crate::table::stand::{Base, Seen, Stand};

const GUIDE: &str = include_str!("../../../../../docs/adopt-a-table.md");
/// The address in the guide.
const ADDRESS: &str = "postgres://relay@db/shop";

/// The contents of the guide's code blocks in this language.
fn blocks(language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let after_begin = GUIDE.split(&begin).skip(1);
    after_begin.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
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
