//! Answers: tables for people, one JSON document for programs, complaints on stderr.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::config::Problem;
use crate::exit::{Code, Failure};

/// Writes these bytes to stdout.
pub(super) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        // Whoever read us has seen enough.
        ErrorKind::BrokenPipe => Failure::quiet(),
        _ => Failure::other(format!("write to stdout: {error}")),
    })
}

/// Writes one JSON document.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(document)
        .map_err(|error| Failure::other(format!("write the answer as JSON: {error}")))?;
    text.push(b'\n');
    write(&text)
}

/// Writes one JSON document on one line.
pub(super) fn json_line(document: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec(document)
        .map_err(|error| Failure::other(format!("write the answer as JSON: {error}")))?;
    text.push(b'\n');
    write(&text)
}

/// Writes a line for people.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}

/// Writes a table; without rows, what there is not.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, empty: &str) -> Result<(), Failure> {
    if rows.is_empty() {
        return line(empty);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(head);
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    line(&table.trim_fmt())
}

/// Text without anything that steers a terminal; producers may have put it there.
pub(super) fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// A time for people: `2026-11-15 21:52:03`, in UTC.
pub(super) fn time(rfc3339: &str) -> String {
    let seconds = rfc3339.split(['.', 'Z']).next().unwrap_or(rfc3339);
    seconds.replacen('T', " ", 1)
}

/// Something that turns while work goes on, on a terminal.
pub(super) fn spinner(doing: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(doing.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Says something beside the answer.
pub(super) fn note(text: &str) {
    // Nobody reading stderr is no reason to fail.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Says why a verb failed.
pub(super) fn complain(failure: &Failure) {
    note(&format!("error: failed to {failure}"));
}

/// All mistakes of a configuration in one failure.
pub(super) fn config_failure(problems: Vec<Problem>) -> Failure {
    let lines: String = problems.iter().map(|problem| format!("\n  {problem}")).collect();
    let count = match problems.len() {
        1 => "1 mistake".to_owned(),
        many => format!("{many} mistakes"),
    };
    Failure::new(Code::Config, format!("read the configuration, which has {count}:{lines}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_cell_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\nü"), "a\\u{1b}[2Jb\\nü");
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(time("2026-11-15T21:52:03.25Z"), "2026-11-15 21:52:03");
    }
}
