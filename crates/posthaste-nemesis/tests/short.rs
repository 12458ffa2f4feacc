//! A short run of the nemesis, so that every check sees one. `cargo xtask nemesis` runs longer ones.

use std::process::Command;

use posthaste_testservers::Kind;

const SECONDS: &str = "12";
const SEED: &str = "7";

/// A broker takes longer to come back than anything else.
const SECONDS_WITH_BROKER: &str = "15";

#[test]
fn every_event_has_its_effect_once_behind_a_broker_that_is_killed_too() {
    survive_behind("every_event_has_its_effect_once_behind_a_broker_that_is_killed_too", Kind::Rabbitmq);
}

#[test]
fn every_event_has_its_effect_once_behind_a_nats_server_that_is_killed_too() {
    survive_behind("every_event_has_its_effect_once_behind_a_nats_server_that_is_killed_too", Kind::Nats);
}

/// A short run with this broker between relays and consumers.
fn survive_behind(trial: &str, broker: Kind) {
    let lacking = [Kind::Postgres, broker].into_iter().find(|kind| !kind.is_installed());
    if let Some(kind) = lacking {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} is not installed", kind.name());
        eprintln!("skipped: {trial}: {} is not installed", kind.name());
        return;
    }
    let mut nemesis = Command::new(env!("CARGO_BIN_EXE_posthaste-nemesis"));
    nemesis.args(["--store", "postgres", "--to", broker.name()]);
    let ended = nemesis
        .args(["--seconds", SECONDS_WITH_BROKER, "--seed", SEED])
        .output()
        .expect("the nemesis is built with its tests");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(
        said.contains("lost 0, phantom 0")
            && said.contains("order broken 0")
            && said.contains("effects other than once: 0"),
        "{said}"
    );
}

#[test]
fn nothing_is_lost_made_up_or_out_of_order_under_a_few_faults() {
    let trial = "nothing_is_lost_made_up_or_out_of_order_under_a_few_faults";
    survive(trial, Kind::Postgres, &["--engine", "log"]);
}

#[test]
fn nothing_of_a_table_is_lost_made_up_or_out_of_order_under_a_few_faults() {
    let trial = "nothing_of_a_table_is_lost_made_up_or_out_of_order_under_a_few_faults";
    survive(trial, Kind::Postgres, &["--engine", "table"]);
}

#[test]
fn nothing_of_a_table_on_mariadb_is_lost_made_up_or_out_of_order_under_a_few_faults() {
    let trial = "nothing_of_a_table_on_mariadb_is_lost_made_up_or_out_of_order_under_a_few_faults";
    survive(trial, Kind::Mariadb, &["--engine", "table", "--store", "mariadb"]);
}

/// A short run on this database; one line says that nothing was wrong.
fn survive(trial: &str, database: Kind, arguments: &[&str]) {
    if !database.is_installed() {
        let name = database.name();
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{name} is not installed");
        eprintln!("skipped: {trial}: {name} is not installed");
        return;
    }
    let mut nemesis = Command::new(env!("CARGO_BIN_EXE_posthaste-nemesis"));
    let ended = nemesis.args(arguments).args(["--seconds", SECONDS, "--seed", SEED]).output();
    let ended = ended.expect("the nemesis can be started");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    let (line, rest) = said.split_once('\n').expect("a line that says how it went");
    assert!(rest.is_empty(), "more than one line: {said}");
    assert!(
        line.contains("lost 0, phantom 0") && line.ends_with(&format!("order broken 0, seed {SEED}")),
        "{line}"
    );
}
