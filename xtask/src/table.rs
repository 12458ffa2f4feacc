//! Trials named `<backend>::<law>` as a table: a row for each law, a column for each backend.

use std::iter;

use crate::trials::{Trials, Verdict};

/// Lays the trials out, laws and backends in the order in which they first appear.
pub(crate) fn table(trials: &Trials) -> String {
    let split: Vec<(&str, &str, String)> = trials
        .verdicts
        .iter()
        .filter_map(|(name, verdict)| {
            let (backend, law) = name.split_once("::")?;
            Some((backend, law, cell(*verdict, trials.reasons.get(name))))
        })
        .collect();
    let backends = distinct(split.iter().map(|(backend, ..)| *backend));
    let laws = distinct(split.iter().map(|(_, law, _)| *law));

    let head = iter::once("law").chain(backends.iter().copied()).map(str::to_owned).collect();
    let rows = laws.iter().map(|law| {
        let cells = backends.iter().map(|backend| {
            let found = split.iter().find(|(of, on, _)| of == backend && on == law);
            // Not every law is for every kind of backend.
            found.map_or_else(|| "-".to_owned(), |(.., cell)| cell.clone())
        });
        iter::once((*law).to_owned()).chain(cells).collect()
    });
    aligned(&iter::once(head).chain(rows).collect::<Vec<_>>())
}

fn cell(verdict: Verdict, why: Option<&String>) -> String {
    match (verdict, why) {
        (Verdict::Ok, _) => "ok".to_owned(),
        (Verdict::Failed, _) => "FAILED".to_owned(),
        (Verdict::Skipped, Some(why)) => format!("skipped: {why}"),
        (Verdict::Skipped, None) => "skipped".to_owned(),
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_rows_and_backends_are_columns() {
        let trials = Trials::read(
            "test memory::atomic ... ok\n\
             test memory::order  ... ok\n\
             test sqlite::atomic ... FAILED\n\
             test nats::order    ... ignored\n",
            "skipped: nats::order: no server\n",
        );
        assert_eq!(
            table(&trials),
            "law     memory  sqlite  nats\n\
             atomic  ok      FAILED  -\n\
             order   ok      -       skipped: no server"
        );
    }
}
