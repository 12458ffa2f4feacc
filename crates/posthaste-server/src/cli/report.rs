//! What was looked at, for people: what failed first, then warnings, then what is fine, and a line that sums
//! it up. On a terminal the verdicts are in colour.

use posthaste::findings::{Finding, Mend, Verdict};

use super::context::Context;
use super::words::counted;
use super::{output, visible};
use crate::exit::Failure;

/// The longest name of a check that others are aligned with.
const NAME_WIDTH_MAX: usize = 36;
/// `failure`, and what stands right of it.
const VERDICT_WIDTH: usize = 9;

/// Which findings are shown.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Show only what failed and what is doubtful
    #[arg(long)]
    pub(super) problems: bool,
}

impl ShowArgs {
    /// The findings that are asked for, the worst first; otherwise in their order.
    pub(super) fn chosen(self, found: &[Finding]) -> Vec<&Finding> {
        let mut chosen: Vec<&Finding> =
            found.iter().filter(|finding| !self.problems || finding.verdict != Verdict::Ok).collect();
        chosen.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
        chosen
    }
}

/// How many findings have which verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ok: usize,
    pub(super) warnings: usize,
    pub(super) failures: usize,
}

impl Counts {
    pub(super) fn of(found: &[Finding]) -> Self {
        let count = |verdict: Verdict| found.iter().filter(|finding| finding.verdict == verdict).count();
        Self { ok: count(Verdict::Ok), warnings: count(Verdict::Warning), failures: count(Verdict::Failure) }
    }
}

/// Shows the findings that are asked for, and how many there are of each kind.
pub(super) fn show(found: &[Finding], show: ShowArgs, is_coloured: bool) -> Result<(), Failure> {
    let chosen = show.chosen(found);
    let widest = chosen.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    let rows: String =
        chosen.iter().map(|finding| row(finding, widest.min(NAME_WIDTH_MAX), is_coloured)).collect();
    output::write(format!("{rows}{}\n", summary(Counts::of(found))).as_bytes())
}

/// `1 failure, 2 warnings, 7 ok`.
fn summary(Counts { ok, warnings, failures }: Counts) -> String {
    format!("{}, {}, {ok} ok", counted(failures, "failures"), counted(warnings, "warnings"))
}

/// A line that says what was seen, and below it the rest of a longer text and one line for each step that
/// fixes it, to be copied.
fn row(finding: &Finding, width: usize, is_coloured: bool) -> String {
    let (verdict, check) = (finding.verdict, visible::plain(&finding.check));
    let mut seen = finding.seen.lines();
    let first = visible::plain(seen.next().unwrap_or_default());
    let mut text = format!("{}{check:<width$}  {first}\n", word(verdict, is_coloured));
    let steps = match &finding.mend {
        None => Vec::new(),
        Some(Mend::Sql(statements)) => statements.iter().map(|statement| format!("{statement};")).collect(),
        Some(Mend::Command(command)) => vec![command.clone()],
        Some(other) => vec![other.to_string()],
    };
    let below = seen.map(str::to_owned).chain(steps.into_iter().map(|step| format!("fix: {step}")));
    for line in below {
        text.push_str(&format!("{:VERDICT_WIDTH$}{}\n", "", visible::plain(&line)));
    }
    text
}

/// The word for it, as wide as any of them.
fn word(verdict: Verdict, is_coloured: bool) -> String {
    let word = format!("{:<VERDICT_WIDTH$}", verdict.name());
    let colour = match verdict {
        Verdict::Failure => 31,
        Verdict::Warning => 33,
        _ => 32,
    };
    if is_coloured { format!("\u{1b}[{colour}m{word}\u{1b}[0m") } else { word }
}

/// What a configuration has: `valid, 1 lane, 2 targets`.
pub(super) fn of_configuration(context: &Context) -> Finding {
    let (lanes, targets) = (context.config.lanes.len(), context.config.targets.len());
    let seen = format!("valid, {}, {}", counted(lanes, "lanes"), counted(targets, "targets"));
    Finding::ok("configuration", seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_what_was_seen_and_each_step_that_fixes_it() {
        let mend =
            Mend::Sql(vec!["ALTER SYSTEM SET fsync = on".to_owned(), "SELECT pg_reload_conf()".to_owned()]);
        let shown = row(&Finding::failure("fsync", "off\u{1b}[2J", mend), 8, false);
        let expected = "failure  fsync     off\\u{1b}[2J\n         fix: ALTER SYSTEM SET fsync = on;\n         \
                        fix: SELECT pg_reload_conf();\n";
        assert_eq!(shown, expected);
        assert_eq!(row(&Finding::ok("clock", "well"), 8, false), "ok       clock     well\n");
        let listed = row(&Finding::ok("table", "lacks:\n  a\n  b\u{202e}"), 5, false);
        assert_eq!(listed, "ok       table  lacks:\n           a\n           b\\u{202e}\n");
    }

    #[test]
    fn the_worst_is_first_and_what_is_fine_can_be_left_out() {
        let mend = || Mend::words("do something");
        let found = [
            Finding::ok("a", "fine"),
            Finding::warning("b", "odd", mend()),
            Finding::failure("c", "broken", mend()),
            Finding::failure("d", "broken", mend()),
        ];
        let names = |problems: bool| {
            ShowArgs { problems }
                .chosen(&found)
                .iter()
                .map(|finding| finding.check.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["c", "d", "b", "a"]);
        assert_eq!(names(true), ["c", "d", "b"]);
        assert_eq!(summary(Counts::of(&found)), "2 failures, 1 warning, 1 ok");
    }

    #[test]
    fn only_the_verdict_is_in_colour() {
        let shown = row(&Finding::failure("c", "broken", Mend::words("x")), 1, true);
        assert_eq!(shown, "\u{1b}[31mfailure  \u{1b}[0mc  broken\n         fix: x\n");
    }
}
