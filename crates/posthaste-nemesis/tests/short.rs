//! A short run of the nemesis, so that every check sees one. `cargo xtask nemesis` runs longer ones.

use std::process::Command;

use xtask::servers::Kind;

const SECONDS: &str = "12";
const SEED: &str = "7";

#[test]
fn nothing_is_lost_made_up_or_out_of_order_under_a_few_faults() {
    if !Kind::Postgres.is_installed() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "Postgres is not installed");
        eprintln!(
            "skipped: nothing_is_lost_made_up_or_out_of_order_under_a_few_faults: Postgres is not installed"
        );
        return;
    }
    let mut nemesis = Command::new(env!("CARGO_BIN_EXE_posthaste-nemesis"));
    let ended = nemesis.args(["--seconds", SECONDS, "--seed", SEED]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    let (line, rest) = said.split_once('\n').unwrap();
    assert!(rest.is_empty(), "more than one line: {said}");
    assert!(
        line.contains("lost 0, phantom 0") && line.ends_with(&format!("order broken 0, seed {SEED}")),
        "{line}"
    );
}
