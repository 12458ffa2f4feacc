//! What was found, as rows for people or one JSON document.

use posthaste::findings::{Finding, Mend};
use serde::Serialize;

use super::super::output;
use super::super::report::{self, Counts, ShowArgs};
use super::super::words::counted;
use crate::exit::Failure;

/// One finding.
#[derive(Serialize)]
struct FindingDocument<'a> {
    check: &'a str,
    verdict: &'static str,
    seen: &'a str,
    mend: Option<MendDocument<'a>>,
}

/// How to fix it: statements to run one by one, a command, or words.
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

/// How findings are shown.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Style {
    pub(in crate::cli) is_json: bool,
    pub(in crate::cli) is_coloured: bool,
}

/// Shows it; fails if anything failed.
pub(super) fn show(found: &[Finding], which: ShowArgs, style: Style) -> Result<(), Failure> {
    let Counts { warnings, failures, .. } = Counts::of(found);
    if style.is_json {
        let findings = which.chosen(found).into_iter().map(document).collect();
        output::json(&ReportDocument { ok: failures == 0, warnings, failures, findings })?;
    } else {
        report::show(found, which, style.is_coloured)?;
    }
    match failures {
        0 => Ok(()),
        many => Err(Failure::other(format!("find everything in order: {} failed", counted(many, "checks")))),
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
