//! `posthaste conformance`: a trial for every requirement on every store, and one for every mistake that a relay can make.
//!
//! All requirements of a store come from one run of the kit, by whichever of its trials comes first.

#![expect(clippy::unwrap_used, reason = "a test may panic where it is surprised")]

mod small;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::Value;
use tempfile::TempDir;

/// Where the servers are.
const POSTGRES: &str = "POSTHASTE_TEST_POSTGRES";
const MARIADB: &str = "POSTHASTE_TEST_MARIADB";

/// The families of requirements, and how many each has.
const FAMILIES: [(&str, usize); 8] =
    [("P", 3), ("L", 10), ("S", 6), ("U", 6), ("R", 2), ("D", 2), ("O", 2), ("X", 8)];
const TRIALS_AT_ONCE: usize = 4;
/// What no run can decide.
const BY_DOCUMENT: [&str; 4] = ["S6", "U6", "R1", "D1"];

fn main() -> ExitCode {
    if let Some(mistake) = std::env::var_os(small::VARIABLE) {
        return small::main(&mistake.to_string_lossy());
    }
    let mut trials = Vec::new();
    trials.extend(requirements("sqlite", Ok("sqlite://shop.db".to_owned())));
    for (store, variable) in [("postgres", POSTGRES), ("mariadb", MARIADB)] {
        trials.extend(requirements(store, from_env(variable).ok_or(variable)));
    }
    for profile in ["servicekit", "axcom", "debezium"] {
        trials.push(profiled(profile, from_env(POSTGRES).ok_or(POSTGRES)));
    }
    trials.push(Trial::test("a_small_relay_that_makes_no_mistake_passes", || {
        let report = run("sqlite://shop.db", &["--relay", &small_relay("none")]);
        let failed: Report = report.into_iter().filter(|(_, (result, _))| result == "failed").collect();
        judge(failed.is_empty(), &failed)
    }));
    trials.push(Trial::test("what_is_set_for_another_relay_leads_the_kit_to_no_other_table", || {
        leads_to_no_other_table();
        Ok(())
    }));
    for (mistake, broken) in small::MISTAKES {
        let name = format!("a_relay_that_{}_is_caught", mistake.replace(' ', "_"));
        trials.push(Trial::test(name, move || is_caught(mistake, broken)));
    }
    let mut arguments = Arguments::from_args();
    // They wait more than they work.
    arguments.test_threads.get_or_insert(TRIALS_AT_ONCE);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn from_env(variable: &str) -> Option<String> {
    std::env::var_os(variable)?.into_string().ok().filter(|url| !url.is_empty())
}

/// Result and evidence by requirement.
type Report = BTreeMap<String, (String, String)>;

/// A trial for each requirement on this store.
fn requirements(store: &'static str, url: Result<String, &'static str>) -> Vec<Trial> {
    let report = Arc::new(OnceLock::<Report>::new());
    let ids = FAMILIES.iter().flat_map(|(family, count)| (1..=*count).map(move |n| format!("{family}{n}")));
    let trial = |id: String| {
        let (report, url) = (Arc::clone(&report), url.clone());
        Trial::ignorable_test(format!("{store}::{id}"), move || {
            let url = match url {
                Ok(url) => url,
                Err(variable) => return Ok(skipped(&format!("{store}::{id}"), variable)),
            };
            let report = report.get_or_init(|| run(&url, &[]));
            let (result, evidence) = &report[&id];
            let expected = if BY_DOCUMENT.contains(&id.as_str()) { "by_document" } else { "ok" };
            if result == expected {
                Ok(Completion::Completed)
            } else {
                Err(Failed::from(format!("{result}: {evidence}")))
            }
        })
    };
    ids.map(trial).collect()
}

/// A trial of all requirements on the table of another profile.
fn profiled(profile: &'static str, url: Result<String, &'static str>) -> Trial {
    Trial::ignorable_test(format!("postgres_with_profile_{profile}"), move || {
        let url = match url {
            Ok(url) => url,
            Err(variable) => return Ok(skipped(profile, variable)),
        };
        let report = run(&url, &["--profile", profile]);
        let failed: Report = report.into_iter().filter(|(_, (result, _))| result == "failed").collect();
        judge(failed.is_empty(), &failed).map(|()| Completion::Completed)
    })
}

/// Says that there is no server for a trial.
fn skipped(trial: &str, variable: &str) -> Completion {
    let why = format!("{variable} is not set");
    assert!(from_env("CI").is_none_or(|ci| ci != "true"), "{why}; with CI=true that is a failure");
    eprintln!("skipped: {trial}: {why}");
    Completion::ignored_with(why)
}

fn small_relay(mistake: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{}='{mistake}' '{}' {{store}} {{table}} {{lease}} {{poll}} {{batch}} {{attempts}} {{backoff}} {{order}}",
        small::VARIABLE,
        program.display()
    )
}

/// Runs the kit in a folder of its own.
fn run(url: &str, more: &[&str]) -> Report {
    let folder = TempDir::new().unwrap();
    run_in(&folder, url, more, &[])
}

/// Runs the kit in this folder with these variables.
fn run_in(folder: &TempDir, url: &str, more: &[&str], variables: &[(&str, &str)]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command
        .current_dir(folder.path())
        .args(["conformance", "--yes", "--output", "json", "--store", url])
        .args(more)
        .envs(variables.iter().copied());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(i32::from(report["ok"] != true)), "the exit code says how it went");
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(check, "id"), (text(check, "result"), text(check, "evidence")))).collect()
}

/// The kit runs where the variables of a reference relay are set, with a table that people use.
fn leads_to_no_other_table() {
    let folder = TempDir::new().unwrap();
    let used = rusqlite::Connection::open(folder.path().join("used.db")).unwrap();
    let mut print = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    print.current_dir(folder.path());
    print.args(["migrate", "print", "--profile", "open-outbox", "--store", "sqlite://used.db"]);
    used.execute_batch(&String::from_utf8(print.output().unwrap().stdout).unwrap()).unwrap();
    let insert =
        "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES ('1', 'order.placed', '{}')";
    used.execute(insert, []).unwrap();
    let variables = [
        ("STORAGE_URL", "sqlite://used.db"),
        ("STORAGE_TABLE_NAME", "openoutbox_events"),
        ("PUBLISHER_TYPE", "null"),
        ("BATCH_SIZE", "7"),
    ];
    let report = run_in(&folder, "sqlite://shop.db", &["--only", "L3", "--only", "L4"], &variables);
    assert!(report.len() == 2 && report.values().all(|(result, _)| result == "ok"), "{report:#?}");
    let state = "SELECT status || attempts || coalesce(locked_by, '') FROM openoutbox_events";
    let state: String = used.query_row(state, [], |row| row.get(0)).unwrap();
    assert_eq!(state, "PENDING0", "a table that people use was touched");
}

fn is_caught(mistake: &str, broken: &[&str]) -> Result<(), Failed> {
    let relay = small_relay(mistake);
    let mut more = vec!["--relay", &relay];
    // A relay may take a while to start, and what it does too early must be too early still.
    more.extend(["--lease", "8"]);
    more.extend(broken.iter().flat_map(|id| ["--only", *id]));
    let report = run("sqlite://shop.db", &more);
    judge(report.len() == broken.len() && report.values().all(|(result, _)| result == "failed"), &report)
}

fn judge(is_right: bool, report: &Report) -> Result<(), Failed> {
    if is_right { Ok(()) } else { Err(Failed::from(format!("{report:#?}"))) }
}
