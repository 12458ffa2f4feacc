//! A transaction that stays open holds up nobody, and its events come when it commits.

use crate::cli::folder::Running;
use crate::postgres::stand::{Lines, Stand, insert};

#[tokio::test(flavor = "multi_thread")]
async fn what_commits_late_comes_late_and_everything_else_goes_on() {
    let trial = "late::what_commits_late_comes_late_and_everything_else_goes_on";
    let Some(stand) = Stand::new(trial).await else { return };
    let (held, other) = (stand.session("program_shop").await, stand.session("program_shop").await);
    held.batch_execute(&format!("BEGIN; {}", insert("held"))).await.unwrap();
    let carrier = stand.url("program_carrier");
    let start = |arguments: &[&str]| {
        let arguments = [arguments, &["--store", &carrier]].concat();
        let mut running = Running(stand.folder.command(&arguments).spawn().unwrap());
        let lines = Lines::of(&mut running.0);
        (running, lines)
    };
    let (mut tail, tailed) = start(&["event", "tail", "--output", "json"]);
    let (mut relay, relayed) = start(&["relay", "--to", "stdout:"]);
    for id in ["first", "second"] {
        other.batch_execute(&insert(id)).await.unwrap();
        tailed.expect(&format!("{id:?}"));
        relayed.expect(&format!("{id:?}"));
    }
    held.batch_execute("COMMIT").await.unwrap();
    tailed.expect("\"held\"");
    relayed.expect("\"held\"");
    for id in ["third"] {
        other.batch_execute(&insert(id)).await.unwrap();
        tailed.expect(&format!("{id:?}"));
        relayed.expect(&format!("{id:?}"));
    }
    for running in [&mut tail, &mut relay] {
        running.signal("TERM");
        assert_eq!(running.code(), 0);
    }
    stand.end().await;
}
