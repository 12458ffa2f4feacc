//! What was found, as a table for people or one JSON document.

use posthaste::findings::{Finding, Mend, Verdict};
use serde::Serialize;

use super::super::output;
use crate::exit::Failure;

/// The longest name of a check that others are aligned with.
const NAME_WIDTH_MAX: usize = 36;
/// `failure`, and what stands right of it.
const VERDICT_WIDTH: usize = 9;

/// One finding.
#[derive(Serialize)]
struct FindingDocument<'a> {
    check: &'a str,
    verdict: &'static str,
    seen: &'a str,
    mend: Option<MendDocument<'a>>,
}

/// How to mend it: statements to run one by one, a command, or words.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum MendDocument<'a> {
    Sql(&'a [String]),
    Command(&'a str),
    Words(String),
}

/// Everything that was found.
#[derive(Serialize)]
struct ReportDocument<'a> {
    ok: bool,
    warnings: usize,
    failures: usize,
    findings: Vec<FindingDocument<'a>>,
}

/// Shows it; fails if anything failed.
pub(super) fn show(found: &[Finding], is_json: bool) -> Result<(), Failure> {
    let count = |verdict: Verdict| found.iter().filter(|finding| finding.verdict == verdict).count();
    let (warnings, failures) = (count(Verdict::Warning), count(Verdict::Failure));
    if is_json {
        let findings = found.iter().map(document).collect();
        output::json(&ReportDocument { ok: failures == 0, warnings, failures, findings })?;
    } else {
        let widest = found.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
        for finding in found {
            output::write(row(finding, widest.min(NAME_WIDTH_MAX)).as_bytes())?;
        }
        output::line(&format!("{} ok, {warnings} warnings, {failures} failures", count(Verdict::Ok)))?;
    }
    match failures {
        0 => Ok(()),
        1 => Err(Failure::other("find everything in order: 1 check failed")),
        many => Err(Failure::other(format!("find everything in order: {many} checks failed"))),
    }
}

fn document(finding: &Finding) -> FindingDocument<'_> {
    let mend = finding.mend.as_ref().map(|mend| match mend {
        Mend::Sql(statements) => MendDocument::Sql(statements),
        Mend::Command(command) => MendDocument::Command(command),
        other => MendDocument::Words(other.to_string()),
    });
    FindingDocument { check: &finding.check, verdict: finding.verdict.name(), seen: &finding.seen, mend }
}

/// A line that says what was seen, and below it one for each step that mends it, to be copied.
fn row(finding: &Finding, width: usize) -> String {
    let (verdict, check, seen) = (finding.verdict.name(), &finding.check, output::plain(&finding.seen));
    let mut text = format!("{verdict:<VERDICT_WIDTH$}{check:<width$}  {seen}\n");
    let steps = match &finding.mend {
        None => Vec::new(),
        Some(Mend::Sql(statements)) => statements.iter().map(|statement| format!("{statement};")).collect(),
        Some(Mend::Command(command)) => vec![command.clone()],
        Some(other) => vec![other.to_string()],
    };
    for step in steps {
        text.push_str(&format!("{:VERDICT_WIDTH$}mend: {}\n", "", output::plain(&step)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_what_was_seen_and_each_step_that_mends_it() {
        let mend =
            Mend::Sql(vec!["ALTER SYSTEM SET fsync = on".to_owned(), "SELECT pg_reload_conf()".to_owned()]);
        let shown = row(&Finding::failure("fsync", "off\u{1b}[2J", mend), 8);
        let expected = "failure  fsync     off\\u{1b}[2J\n         mend: ALTER SYSTEM SET fsync = on;\n         \
                        mend: SELECT pg_reload_conf();\n";
        assert_eq!(shown, expected);
        assert_eq!(row(&Finding::ok("clock", "well"), 8), "ok       clock     well\n");
    }
}
