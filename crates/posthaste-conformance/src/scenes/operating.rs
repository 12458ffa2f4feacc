//! What operators see and do, by the verbs of this program and by hand.

use futures_util::future::LocalBoxFuture;
use posthaste::table::Column;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::Stop;
use crate::moves::State;
use crate::relay::{Running, Settings};
use crate::scene::{Scene, times};
use crate::table::Row;

/// How many random actions the last check takes.
const ACTIONS: usize = 12;

pub(super) fn operating<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        by_hand(scene).await?;
        if !scene.kit.is_own() {
            let why = "operators' tools of another relay are not known to this kit";
            scene.findings.all_undecided(&["X1", "X2", "X4", "X6", "X7", "X8"], why);
            return Ok(());
        }
        let delivered = Row::many(4);
        scene.table.insert(&delivered).await?;
        measuring(scene, &delivered).await?;
        let mut failing = Row::new().due(3_600_000);
        failing.attempts = 2;
        let mut dead = [Row::new().of_state(State::Dead), Row::new().of_state(State::Dead)];
        dead.iter_mut().for_each(|row| row.attempts = 3);
        scene.table.insert(&dead).await?;
        scene.table.insert(std::slice::from_ref(&failing)).await?;
        looking(scene, &delivered, &dead, &failing).await?;
        replaying(scene, &delivered, &dead).await?;
        by_verb(scene).await?;
        at_random(scene).await
    })
}

/// X6: what a relay counts while it delivers.
async fn measuring(scene: &mut Scene<'_>, rows: &[Row]) -> Result<(), Stop> {
    let told = |error: std::io::Error| Stop(format!("ask for metrics: {error}"));
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(told)?.port();
    let mut relays = [scene.relay(Settings { metrics_port: Some(port), ..Settings::default() })?];
    scene.until_delivered(&mut relays, rows).await?;
    let mut metrics = String::new();
    let settled = format!("posthaste_settled_total{{lane=\"main\",outcome=\"delivered\"}} {}", rows.len());
    let is_counted = scene
        .until(&mut relays, "what was delivered is counted", async |_| {
            metrics = get(port).await.map_err(told)?;
            Ok(metrics.contains(&settled))
        })
        .await;
    let names = [
        "posthaste_deliveries_total",
        "posthaste_latency_seconds",
        "posthaste_lane_dead",
        "posthaste_lane_waiting",
    ];
    let lacking: Vec<_> = names.iter().filter(|name| !metrics.contains(**name)).collect();
    scene.findings.hold(
        "X6",
        is_counted.is_ok() && lacking.is_empty(),
        "/metrics counts outcomes and deliveries, what waits and is dead, and measures delays",
        &format!("/metrics lacks {lacking:?}, or {settled:?} is not in it"),
    );
    Ok(())
}

async fn get(port: u16) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// X3: what is changed in a row by hand.
async fn by_hand(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let put_off = [Row::new()];
    let restored = [Row::new().of_state(State::Dead)];
    scene.table.insert(&put_off).await?;
    scene.table.insert(&restored).await?;
    let (available, status) = (scene.table.name(Column::AvailableAt), scene.table.name(Column::Status));
    let moment = |ms| format!("{available} = {}", scene.table.ground.moment(ms));
    scene.table.change(&moment(3_600_000), &scene.table.among(&put_off)).await?;
    let pending = scene.table.state_name(State::Pending).literal();
    let restore = format!("{status} = {pending}, {} = 0", scene.table.name(Column::Attempts));
    scene.table.change(&restore, &scene.table.among(&restored)).await?;
    let mut relays = [scene.relay(Settings::default())?];
    scene.until_delivered(&mut relays, &restored).await?;
    scene.let_work(&mut relays).await?;
    let early = times(&relays, &put_off[0]);
    scene.table.change(&moment(0), &scene.table.among(&put_off)).await?;
    scene.until_delivered(&mut relays, &put_off).await?;
    scene.findings.hold(
        "X3",
        early == 0,
        "a row that was put off by hand waited and came when it was due; a dead one that was restored came",
        "a row that was put off by hand was published all the same",
    );
    Ok(())
}

/// X3: what is put off and buried by a verb.
async fn by_verb(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let (put_off, buried) = ([Row::new()], [Row::new()]);
    scene.table.insert(&put_off).await?;
    scene.table.insert(&buried).await?;
    scene.verb(&["event", "schedule", "--lane", "main", "--id", &put_off[0].id, "--at", "1h"]).await?;
    scene.verb(&["event", "bury", "--lane", "main", "--id", &buried[0].id]).await?;
    scene.until_are(&mut [], &buried, State::Dead).await?;
    let mut relays = [scene.relay(Settings::default())?];
    scene.let_work(&mut relays).await?;
    let early = times(&relays, &put_off[0]) + times(&relays, &buried[0]);
    let available = scene.table.name(Column::AvailableAt);
    let now = format!("{available} = {}", scene.table.ground.moment(0));
    scene.table.change(&now, &scene.table.among(&put_off)).await?;
    scene.verb(&["dead", "redrive", "--lane", "main", "--id", &buried[0].id]).await?;
    scene.until_delivered(&mut relays, &put_off).await?;
    scene.until_delivered(&mut relays, &buried).await?;
    scene.findings.hold(
        "X3",
        early == 0,
        "a row that was put off or buried by a verb waited, and came when it was due or redriven",
        "a row that was put off or buried by a verb was published all the same",
    );
    Ok(())
}

/// X1, X4, X6: every look, and the table before and after.
async fn looking(scene: &mut Scene<'_>, delivered: &[Row], dead: &[Row], failing: &Row) -> Result<(), Stop> {
    let all = [delivered, dead, std::slice::from_ref(failing)].concat();
    let before = scene.table.snapshot(&all).await?;
    let events = scene.verb(&["event", "list", "--output", "json"]).await?.stdout;
    let since = scene
        .verb(&["event", "list", "--since", "1h", "--state", "delivered", "--output", "json"])
        .await?
        .stdout;
    let graves = scene.verb(&["dead", "list", "--lane", "main", "--output", "json"]).await?.stdout;
    let shown = scene.verb(&["event", "show", &delivered[0].id, "--output", "json"]).await?.stdout;
    let stats = scene.verb(&["stats", "--output", "json"]).await?.stdout;
    let retrying = scene.verb(&["event", "list", "--state", "retrying", "--output", "json"]).await?.stdout;
    let untouched = scene.table.snapshot(&all).await? == before;
    let lists = all.iter().all(|row| events.contains(&row.id))
        && delivered.iter().all(|row| since.contains(&row.id))
        && dead.iter().all(|row| graves.contains(&row.id) && !since.contains(&row.id));
    let shows = shown.contains("\"of\"") && shown.contains(&delivered[0].id);
    let findings = &mut scene.findings;
    findings.hold(
        "X1",
        untouched,
        "event list, event show, dead list and stats changed nothing",
        "a look changed a row",
    );
    findings.hold(
        "X1",
        lists && shows,
        "they show every row, by state and time, with payload and attempts",
        "a row or its payload is not shown",
    );
    findings.hold(
        "X4",
        retrying.contains(&failing.id) && retrying.contains("\"attempts\": 2"),
        "event list --state retrying shows a row that failed twice, and dead list what was given up",
        "a row that failed twice is not shown as retrying",
    );
    let count = |name: &str| {
        let total = serde_json::from_str::<Value>(&stats).ok()?["total"][name].as_u64()?;
        usize::try_from(total).ok()
    };
    // Three rows were delivered before.
    let counted = (count("delivered"), count("dead"), count("waiting"));
    let is_right = counted == (Some(delivered.len() + 3), Some(dead.len()), Some(1));
    findings.hold(
        "X6",
        is_right,
        "stats counts what is delivered, dead and waiting",
        &format!("stats counts {counted:?}"),
    );
    Ok(())
}

/// X2, X7: one, all that is dead, and a range of time.
async fn replaying(scene: &mut Scene<'_>, delivered: &[Row], dead: &[Row]) -> Result<(), Stop> {
    recording(scene, &delivered[0], &delivered[1]).await?;
    scene.verb(&["dead", "redrive", "--lane", "main"]).await?;
    scene.until_are(&mut [], dead, State::Pending).await?;
    scene.verb(&["replay", "--lane", "main", "--since", "1h"]).await?;
    scene.until_are(&mut [], delivered, State::Pending).await?;
    let mut relays = [scene.relay(Settings::default())?];
    scene.until_delivered(&mut relays, delivered).await?;
    scene.until_delivered(&mut relays, dead).await?;
    scene.findings.ok("X2", "one, all dead and a range of time were replayed: pending, then published again");
    Ok(())
}

/// X7: who gave which command about what, and what it changed: on stderr where the database has no table for it, then in that.
async fn recording(scene: &mut Scene<'_>, one: &Row, two: &Row) -> Result<(), Stop> {
    let replay = |id| ["replay", "--lane", "main", "--id", id];
    let said = scene.verb(&replay(&one.id)).await?;
    let is_said =
        ["actor", "via", "replay", "changed=1", &one.id].iter().all(|word| said.stderr.contains(word));
    scene.table.keep_record().await?;
    scene.verb(&replay(&two.id)).await?;
    let record = scene.verb(&["audit", "--output", "json"]).await?.stdout;
    let entry = serde_json::from_str::<Value>(&record).unwrap_or_default()["entries"][0].clone();
    let is_kept = entry["verb"] == "replay" && entry["changed"] == 1 && entry["filter"]["ids"][0] == two.id;
    let names_who = ["actor", "via", "at"].iter().all(|field| entry[field].is_string());
    scene.until_are(&mut [], &[one.clone(), two.clone()], State::Pending).await?;
    scene.findings.hold(
        "X7",
        is_said && is_kept && names_who,
        "every command is recorded with who gave it, from where, and what it changed: in a table, else on stderr",
        &format!("a replay is not recorded: {} {record}", said.stderr),
    );
    Ok(())
}

/// What operators do at random; `ID` stands for any row.
const COMMANDS: [&str; 9] = [
    "replay --lane main --id ID",
    "replay --lane main --since 1h",
    "event bury --lane main",
    "dead redrive --lane main",
    "event schedule --lane main --at 1s",
    "prune --older-than 0s --yes",
    "dead discard --lane main --id ID --yes",
    "event bury --lane main --id ID",
    "prune --older-than 1h --dead-older-than 1h --yes",
];

/// X8: random commands while a relay works, each of them at least once; every row is published in the end or was given up by an
/// operator, none is removed before, and the counts are those of the table.
async fn at_random(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let mut relays = [scene.relay(Settings::default())?];
    let (mut rows, mut commands) = (Vec::new(), COMMANDS.to_vec());
    if !scene.table.has(Column::LastError) {
        // There is no place for why it was given up.
        commands.retain(|command| !command.contains("discard"));
    }
    fastrand::shuffle(&mut commands);
    for number in 0..ACTIONS.max(commands.len()) {
        let some = Row::many(20);
        scene.table.insert(&some).await?;
        rows.extend(some);
        let any = &rows[fastrand::usize(..rows.len())].id;
        let command =
            commands.get(number).copied().unwrap_or_else(|| commands[fastrand::usize(..commands.len())]);
        let words: Vec<_> = command.split(' ').map(|word| if word == "ID" { any } else { word }).collect();
        scene.verb_or_nothing(&words).await?;
    }
    // What was buried and not given up comes back.
    scene.verb_or_nothing(&["dead", "redrive", "--lane", "main"]).await?;
    // Of all rows: those of other checks are replayed, put off and buried too.
    let open = format!("({} OR {})", scene.table.is(State::Pending), scene.table.is(State::Delivering));
    let unseen = |relays: &[Running]| {
        let unseen = rows.iter().filter(|row| times(relays, row) == 0).cloned();
        unseen.collect::<Vec<_>>()
    };
    scene
        .until(&mut relays, "everything is published or given up", async |relays| {
            let (unseen, table) = (unseen(relays), &scene.table);
            let given_up = if unseen.is_empty() {
                0
            } else {
                // The last redrive brings back whatever else is dead.
                let discarded = match table.has(Column::LastError) {
                    true => format!("{} LIKE 'discarded: %'", table.name(Column::LastError)),
                    false => "1 = 0".to_owned(),
                };
                let is_dead = table.is(State::Dead);
                table.count(&format!("{} AND {is_dead} AND {discarded}", table.among(&unseen))).await?
            };
            Ok(table.count(&open).await? == 0 && given_up == unseen.len() as i64)
        })
        .await?;
    adds_up(scene).await?;
    let done = ACTIONS.max(commands.len());
    scene.findings.ok("X8", format!("{done} random commands under load: each of {} rows was published or given up by an operator, and none was removed before", rows.len()));
    Ok(())
}

/// X8: what `stats` counts is what is there.
async fn adds_up(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let stats = scene.verb(&["stats", "--output", "json"]).await?.stdout;
    let total = serde_json::from_str::<Value>(&stats).unwrap_or_default()["total"].clone();
    let count = |name: &str| total[name].as_i64().unwrap_or_default();
    let delivered = scene.table.count(&scene.table.is(State::Delivered)).await?;
    let dead = scene.table.count(&scene.table.is(State::Dead)).await?;
    let counted = (count("delivered"), count("dead") + count("discarded"));
    scene.findings.hold(
        "X8",
        counted == (delivered, dead),
        "stats counts what is delivered and dead after all that",
        &format!("stats counts {counted:?} delivered and dead, and the table has {delivered} and {dead}"),
    );
    Ok(())
}
