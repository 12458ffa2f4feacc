//! Answers: tables for people, one JSON document for programs, complaints on stderr.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;
use crate::visible;
pub use crate::visible::plain;

/// How many characters a line of a table has at most on a terminal, unless the terminal is wider.
const WIDTH: usize = 100;
/// What stands left and right of a cell.
const CELL_PADDING: usize = 2;
/// A cell is not cut below this; then the line gets longer.
const CELL_WIDTH_MIN: usize = 6;
/// How long the ids are that we make.
const ID_WIDTH: usize = 36;
/// How much of a code is shown at least: it is copied too, as a filter.
const CODE_WIDTH: usize = 16;

/// Writes these bytes to stdout.
///
/// # Errors
/// What the system says. A reader that is gone is a quiet failure ([`Failure::quiet`]); so it is for
/// everything here that writes to stdout.
pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    stream(|out| out.write_all(bytes))
}

/// Writes to stdout piece by piece, so that the whole text is never in memory.
///
/// # Errors
/// As [`write()`].
pub fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // The reader has seen enough.
        ErrorKind::BrokenPipe => Failure::quiet(),
        _ => Failure::other(format!("write to stdout: {error}")),
    })
}

/// Writes one JSON document.
///
/// # Errors
/// As [`write()`].
pub fn json(document: &impl Serialize) -> Result<(), Failure> {
    write_json(serde_json::to_string_pretty(document))
}

/// Writes one JSON document on one line.
///
/// # Errors
/// As [`write()`].
pub fn json_line(document: &impl Serialize) -> Result<(), Failure> {
    write_json(serde_json::to_string(document))
}

fn write_json(text: serde_json::Result<String>) -> Result<(), Failure> {
    let text = text.map_err(|error| Failure::other(format!("write the answer as JSON: {error}")))?;
    // Programs get every byte as it is.
    line(&if io::stdout().is_terminal() { visible::json(&text) } else { text })
}

/// Writes a line for people.
///
/// # Errors
/// As [`write()`].
pub fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}

/// Writes a table; without rows, what there is not. On a terminal long cells are cut; a program gets them
/// whole.
///
/// # Errors
/// As [`write()`].
pub fn table(head: &[&str], rows: Vec<Vec<String>>, empty: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        return line(empty);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(head);
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    if io::stdout().is_terminal() {
        fit(head, &mut rows, table.width().map_or(WIDTH, |terminal| usize::from(terminal).max(WIDTH)));
    }
    for row in rows {
        table.add_row(row);
    }
    line(&table.trim_fmt())
}

/// Cuts the longest cells until a line has at most `limit` characters. Ids and times stay whole, as they are copied, and
/// numbers, as a part of one is another one.
fn fit(head: &[&str], rows: &mut [Vec<String>], limit: usize) {
    let length = |text: &str| text.chars().count();
    let longest = |column: usize| rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
    let mut widths: Vec<usize> =
        (0..head.len()).map(|column| longest(column).max(length(head[column]))).collect();
    let is_number =
        |column: usize| rows.iter().all(|row| row[column].bytes().all(|b| b.is_ascii_digit() || b == b'~'));
    let least = |column: usize| match head[column] {
        "ID" => ID_WIDTH,
        "CODE" => CODE_WIDTH,
        name if name.contains("(UTC)") || is_number(column) => usize::MAX,
        name => length(name).max(CELL_WIDTH_MIN),
    };
    // What stands right of the last cell is trimmed.
    while widths.iter().map(|width| width + CELL_PADDING).sum::<usize>() > limit + 1 {
        let cuttable = (0..head.len()).filter(|column| widths[*column] > least(*column));
        let Some(widest) = cuttable.max_by_key(|column| widths[*column]) else { break };
        widths[widest] -= 1;
    }
    for (cell, width) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&widths)) {
        if length(cell) > *width {
            *cell = cell.chars().take(width - 1).chain(['…']).collect();
        }
    }
}

/// A time for people: `2026-11-15 21:52:03`, in UTC.
pub fn time(rfc3339: &str) -> String {
    let seconds = rfc3339.split(['.', 'Z']).next().unwrap_or(rfc3339);
    seconds.replacen('T', " ", 1)
}

/// The same to the minute, where it is about how long something has been so.
pub fn minute(rfc3339: &str) -> String {
    time(rfc3339).chars().take("2026-11-15 21:52".len()).collect()
}

/// Something that turns while work goes on, on a terminal.
pub fn spinner(doing: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(doing.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Shows a bar on a terminal, and nothing elsewhere.
pub fn bar(doing: &'static str, steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg:24} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.with_message(doing)
}

/// How often to say how far it is, where nobody watches a terminal.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// How far something is that is done one by one.
pub struct Progress {
    bar: ProgressBar,
    name: String,
    what: String,
    all: Option<u64>,
    told: Mutex<Instant>,
}

/// Shows how many are done, of how many if that is known: a bar on a terminal, elsewhere a line on stderr from time to time.
pub fn progress(name: &str, what: &str, all: Option<u64>) -> Progress {
    let bar = match all {
        _ if !io::stderr().is_terminal() => ProgressBar::hidden(),
        Some(all) => ProgressBar::new(all),
        None => ProgressBar::new_spinner(),
    };
    let style = ProgressStyle::with_template(match all {
        Some(_) => "{msg} {wide_bar} {pos} of {len}",
        None => "{spinner} {msg} {pos}",
    });
    let bar =
        bar.with_message(name.to_owned()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    Progress { bar, name: name.to_owned(), what: what.to_owned(), all, told: Mutex::new(Instant::now()) }
}

impl Progress {
    /// Shows that this number is done.
    pub fn at(&self, done: u64) {
        self.bar.set_position(done);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !io::stderr().is_terminal() && told.elapsed() >= TELL_EVERY {
            *told = Instant::now();
            let of_all = self.all.map(|all| format!(" of {all}")).unwrap_or_default();
            note(&format!("{}: {done}{of_all} {}", self.name, self.what));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Says on stderr how to read on, if there is more.
pub fn tell_next(next: Option<&str>) {
    if let Some(next) = next {
        note(&format!("there are more: --after {next}"));
    }
}

/// Says something beside the answer.
pub fn note(text: &str) {
    // Nobody reading stderr is no reason to fail.
    let _ = writeln!(io::stderr(), "{}", visible::lines(text));
}

/// Says why a verb failed.
pub fn complain(failure: &Failure) {
    note(&format!("error: failed to {failure}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_table_has_at_most_a_hundred_characters() {
        let head = ["TIME (UTC)", "ID", "TYPE", "TOPIC", "KEY", "LANES"];
        let id = "01a1e17f-8ed9-7753-a027-ead89b7152a5";
        let long = "ü".repeat(255);
        let whole =
            ["2026-11-15 23:16:35", id, "order.placed", "k", "k", "main delivered"].map(str::to_owned);
        let cut = [whole[0].clone(), id.to_owned(), long.clone(), long.clone(), long.clone(), long];
        let mut rows = vec![whole.to_vec()];
        fit(&head, &mut rows, WIDTH);
        assert_eq!(rows, [whole.to_vec()], "what fits is left alone");
        let mut rows = vec![whole.to_vec(), cut.to_vec()];
        fit(&head, &mut rows, WIDTH);
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count() + 2).max().unwrap();
        assert!((0..6).map(width).sum::<usize>() <= WIDTH + 1, "{rows:?}");
        assert_eq!((&rows[1][0], rows[1][1].as_str()), (&whole[0], id), "ids and times stay whole");
        assert!(rows[1][4].ends_with('…'), "{rows:?}");
        let mut numbers = vec![vec![u64::MAX.to_string(); 6]];
        fit(&["N"; 6], &mut numbers, WIDTH);
        assert_eq!(numbers, [vec![u64::MAX.to_string(); 6]], "a part of a number is another number");
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(time("2026-11-15T21:52:03.25Z"), "2026-11-15 21:52:03");
        assert_eq!(minute("2026-11-15T21:52:03.25Z"), "2026-11-15 21:52");
    }
}
