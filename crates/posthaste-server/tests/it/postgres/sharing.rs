//! Several relays on one database.

use std::time::{Duration, Instant};

use crate::cli::folder::Running;
use crate::postgres::stand::{DEADLINE, Stand, insert};

const LANES: [&str; 4] = ["a", "b", "c", "d"];

impl Stand {
    fn relay(&self, name: &str) -> Running {
        let mut command = self.folder.command(&["relay", "--store", &self.url("program_carrier")]);
        let quiet = || std::process::Stdio::null();
        Running(command.env("POSTHASTE__RELAY__ID", name).stdout(quiet()).stderr(quiet()).spawn().unwrap())
    }

    /// Who owns each lane, as `lane list` shows it.
    fn owners(&self) -> Vec<String> {
        let page = self.folder.json(&["lane", "list", "--store", &self.url("program_carrier")]);
        let lanes = page["lanes"].as_array().unwrap();
        lanes.iter().map(|lane| lane["owner"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Asks until it holds; answers how long that took.
    #[track_caller]
    fn until(&self, within: Duration, what: &str, holds: impl Fn(&[String]) -> bool) -> Duration {
        let begun = Instant::now();
        loop {
            let owners = self.owners();
            if holds(&owners) {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < within, "not within {within:?}: {what}: {owners:?}");
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_show_who_owns_what_and_the_one_that_is_left_owns_everything() {
    let trial = "sharing::two_relays_show_who_owns_what_and_the_one_that_is_left_owns_everything";
    let Some(stand) = Stand::new(trial).await else { return };
    let lanes: String = LANES.iter().map(|lane| format!("[lanes.{lane}]\nto = \"null:\"\n")).collect();
    stand.folder.write("posthaste.toml", lanes);
    let (left, mut right) = (stand.relay("left"), stand.relay("right"));
    stand.until(DEADLINE, "every lane has an owner, and both own some", |owners| {
        let of = |name: &str| owners.iter().filter(|owner| owner.starts_with(name)).count();
        owners.len() == LANES.len()
            && of("left") + of("right") == LANES.len()
            && of("left") > 0
            && of("right") > 0
    });
    left.signal("KILL");
    let taken = stand.until(Duration::from_secs(25), "the other one owns everything", |owners| {
        owners.len() == LANES.len() && owners.iter().all(|owner| owner.starts_with("right"))
    });
    println!("took over within {taken:?}");
    stand.session("program_shop").await.batch_execute(&insert("after")).await.unwrap();
    let begun = Instant::now();
    loop {
        let page = stand.folder.json(&["lane", "list", "--store", &stand.url("program_carrier")]);
        if page["lanes"].as_array().unwrap().iter().all(|lane| lane["delivered"] == 1) {
            break;
        }
        assert!(begun.elapsed() < DEADLINE, "{page}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    right.signal("TERM");
    assert_eq!(right.code(), 0);
    assert!(stand.owners().iter().all(String::is_empty), "a clean stop hands everything back");
    stand.end().await;
}
