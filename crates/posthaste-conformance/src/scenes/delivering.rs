//! What arrives, and what stays.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::future::LocalBoxFuture;
use posthaste::table::Column;

use crate::Stop;
use crate::moves::{Move, State};
use crate::relay::{Running, Settings};
use crate::scene::{Scene, times};
use crate::table::Row;

/// Rows with everything in them, delivered by one relay and looked at by a second one.
pub(super) fn delivering<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let mut rows = Row::many(6);
        rows[1].payload = vec![0xff, 0x00, 0x80, b'\n', 0xfe];
        rows[2].payload = "plain text, \"quoted\", ünicode ☂".into();
        rows[3].headers = "{\"trace\": \"t-4711\"}".to_owned();
        rows[4].key = Some("customer-815".to_owned());
        scene.table.insert(&rows).await?;
        let mut relays = [scene.relay(Settings::default())?];
        scene.until_delivered(&mut relays, &rows).await?;
        let moves = scene.table.moves().await?;
        let claims = moves.iter().filter(|one| one.is_claim()).count();
        scene.findings.ok("L4", format!("{claims} claims, each with its time and holder"));
        let delivered = moves.iter().filter(|one| one.is(State::Delivering, State::Delivered)).count();
        scene.findings.ok("L5", format!("{delivered} rows, each with its time and without a lease"));
        look_at_events(scene, &relays[0], &rows);
        drop(relays);
        stay(scene, &rows, &moves).await
    })
}

/// What a consumer gets.
fn look_at_events(scene: &mut Scene<'_>, relay: &Running, rows: &[Row]) {
    let (has_headers, has_key) = (scene.table.has(Column::Headers), scene.table.has(Column::Key));
    let findings = &mut scene.findings;
    if !scene.kit.sees {
        findings.all_undecided(&["U3", "U4", "D2"], "what the relay publishes is not seen");
        return;
    }
    let lines = relay.lines();
    let line_of = |row: &Row| lines.iter().find(|line| line.contains(&row.id)).map_or("", String::as_str);
    // Only the row's id tells its event from others; the payload of the first carries it too, of the second it does not.
    findings.hold(
        "D2",
        !line_of(&rows[1]).is_empty(),
        "the id was in every event",
        "an event came without its id",
    );
    for (row, what) in rows.iter().zip(["JSON", "bytes that are no text", "text that is no JSON"]) {
        findings.hold(
            "U3",
            carries(line_of(row), &row.payload),
            what,
            &format!("the payload is another one: {what}"),
        );
    }
    if has_headers {
        let came = line_of(&rows[3]).contains("t-4711");
        findings.hold("U3", came, "a header", "a header did not arrive");
    }
    if has_key {
        let came = line_of(&rows[4]).contains("customer-815");
        findings.hold(
            "U4",
            came,
            "the event carries its partition key, by which targets that partition do so",
            "the partition key did not arrive",
        );
    } else {
        findings.undecided("U4", "the table has no partition key");
    }
}

/// Whether a line has these bytes in it: as they are, as a JSON string, in base64 or in hexadecimal digits.
fn carries(line: &str, payload: &[u8]) -> bool {
    let text = std::str::from_utf8(payload).unwrap_or("\0");
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    [text, quoted.trim_matches('"'), &BASE64.encode(payload), &hex].iter().any(|form| line.contains(form))
}

/// S3: what is delivered is there to be read, and a second relay leaves it alone.
async fn stay(scene: &mut Scene<'_>, rows: &[Row], before: &[Move]) -> Result<(), Stop> {
    let mut relays = [scene.relay(Settings::default())?];
    scene.let_work(&mut relays).await?;
    let there = scene.table.count(&scene.table.among(rows)).await?;
    let again: usize = rows.iter().map(|row| times(&relays, row)).sum();
    let moved = scene
        .table
        .moves()
        .await?
        .iter()
        .skip(before.len())
        .filter(|one| rows.iter().any(|row| row.id == one.id))
        .count();
    scene.findings.hold(
        "S3",
        there == rows.len() as i64 && again == 0 && moved == 0,
        "delivered rows are there, and a second relay left them alone",
        &format!(
            "of {} delivered rows {there} are there, {again} were published again, {moved} were changed",
            rows.len()
        ),
    );
    Ok(())
}

/// L3: rows that are due now, soon and in an hour. L8, S3: rows that are delivered or dead.
pub(super) fn waiting<'a>(scene: &'a mut Scene<'_>) -> LocalBoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let now = [Row::new().due(0), Row::new().due(0)];
        let soon = [Row::new().due(1_200), Row::new().due(1_200)];
        let much_later = [Row::new().due(3_600_000), Row::new().due(3_600_000)];
        let ended = [State::Delivered, State::Dead, State::Delivered, State::Dead]
            .map(|state| Row::new().of_state(state));
        for rows in [&now[..], &soon, &much_later, &ended] {
            scene.table.insert(rows).await?;
        }
        let before = scene.table.snapshot(&ended).await?;
        let mut relays = [scene.relay(Settings::default())?];
        scene.until_delivered(&mut relays, &now).await?;
        scene.until_delivered(&mut relays, &soon).await?;
        let waited = scene
            .table
            .count(&format!("{} AND {}", scene.table.among(&much_later), scene.table.is(State::Pending)))
            .await?;
        let early: usize = much_later.iter().map(|row| times(&relays, row)).sum();
        scene.findings.hold(
            "L3",
            waited == 2 && early == 0,
            "rows that were due came, rows due in 1.2 s came then, rows due in an hour stayed",
            &format!("of 2 rows that are due in an hour {waited} wait and {early} were published"),
        );
        let untouched = scene.table.snapshot(&ended).await? == before;
        let again: usize = ended.iter().map(|row| times(&relays, row)).sum();
        scene.findings.hold(
            "L8",
            untouched,
            "delivered and dead rows stayed as they were while a relay worked",
            "a delivered or dead row was changed",
        );
        scene.findings.hold(
            "S3",
            again == 0,
            "delivered and dead rows were not published again",
            &format!("{again} of them were published again"),
        );
        Ok(())
    })
}
