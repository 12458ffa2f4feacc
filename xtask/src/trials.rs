//! Reads what test binaries print: libtest's and libtest-mimic's lines, and the reasons for skipped trials.
//!
//! Whoever skips a trial says so in a line of its own on stderr, `skipped: <trial name>: <why>`, and reports the trial as
//! ignored if the harness has a way to. If a server is missing, the reason names the variable of its URL.

use std::collections::BTreeMap;

use crate::report::Sum;
use posthaste_testservers::Kind;

/// What became of one trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Failed,
    Skipped,
}

/// Everything that one or more test binaries said.
#[derive(Debug, Default)]
pub(crate) struct Trials {
    /// From the `test result:` lines, which also count what was printed in an unreadable way.
    pub(crate) sum: Sum,
    /// In the order of their lines.
    pub(crate) verdicts: Vec<(String, Verdict)>,
    /// Why a trial was skipped, by its name.
    pub(crate) reasons: BTreeMap<String, String>,
    /// What failing trials printed, with their names.
    pub(crate) failures: String,
}

impl Trials {
    /// Reads what any number of test binaries said, with cargo's own lines in between.
    pub(crate) fn read(stdout: &str, stderr: &str) -> Self {
        let mut trials = Self::default();
        let mut in_failures = false;
        for line in stdout.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                trials.sum.add(read_sum(result));
                in_failures = false;
            } else if line == "failures:" {
                in_failures = true;
            } else if in_failures {
                trials.failures.extend([line, "\n"]);
            } else {
                trials.read_verdict(line);
            }
        }
        let skips = stderr.lines().filter_map(|line| line.strip_prefix("skipped: ")?.split_once(": "));
        for (name, why) in skips {
            trials.read_skip(name.trim(), why.trim());
        }
        trials
    }

    /// A test of plain libtest can only pass when it finds that it must skip; it is counted as what it is.
    fn read_skip(&mut self, name: &str, why: &str) {
        self.reasons.insert(name.to_owned(), why.to_owned());
        if !self.verdicts.iter().any(|(trial, verdict)| trial == name && *verdict == Verdict::Skipped) {
            self.verdicts.push((name.to_owned(), Verdict::Skipped));
            self.sum.passed = self.sum.passed.saturating_sub(1);
            self.sum.skipped += 1;
        }
    }

    /// `test NAME ... ok`, where libtest may add a time or a reason and libtest-mimic fills the name with spaces.
    fn read_verdict(&mut self, line: &str) {
        let Some((name, verdict)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        else {
            return;
        };
        let name = name.trim().to_owned();
        let verdict = match verdict.split([',', ' ']).next() {
            Some("ok") => Verdict::Ok,
            Some("FAILED") => Verdict::Failed,
            Some("ignored") => {
                if let Some((_, why)) = verdict.split_once(", ") {
                    self.reasons.entry(name.clone()).or_insert_with(|| why.trim().to_owned());
                }
                Verdict::Skipped
            }
            _ => return,
        };
        self.verdicts.push((name, verdict));
    }

    /// Counts what was skipped for want of a server as failed, where that server is demanded.
    pub(crate) fn demand_servers(&mut self) {
        let is_demanded = |why: &str| {
            let may_lack = |kind: Kind| kind.may_lack() && why.contains(&kind.variable());
            why.contains("POSTHASTE_TEST_") && !Kind::ALL.into_iter().any(may_lack)
        };
        for (name, verdict) in &mut self.verdicts {
            let why = self.reasons.get(name).filter(|why| is_demanded(why));
            if let (Verdict::Skipped, Some(why)) = (*verdict, why) {
                *verdict = Verdict::Failed;
                self.sum.skipped = self.sum.skipped.saturating_sub(1);
                self.sum.failed += 1;
                self.failures.extend([name, " was skipped: ", why, "\n"]);
            }
        }
    }

    /// Each skipped trial, and why if that was said.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        let reason = |name: &str| self.reasons.get(name).map_or("no reason given", String::as_str);
        self.with(Verdict::Skipped).map(move |name| (name, reason(name)))
    }

    /// What one failing trial printed: from the line with its name to the line with the next one's.
    pub(crate) fn failure_of(&self, name: &str) -> String {
        let head = |line: &str| {
            let between = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
            Some(between.strip_suffix(" stdout").unwrap_or(between).to_owned())
        };
        let mut is_ours = false;
        let mut lines = Vec::new();
        for line in self.failures.lines() {
            if let Some(of) = head(line) {
                is_ours = of == name;
            } else if is_ours {
                lines.push(line);
            }
        }
        lines.join("\n")
    }

    /// The names of what failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = String> {
        self.with(Verdict::Failed).map(str::to_owned)
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &str> {
        self.verdicts.iter().filter(move |(_, of)| *of == verdict).map(|(name, _)| name.as_str())
    }
}

/// `ok. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s`
fn read_sum(result: &str) -> Sum {
    let count = |of: &str| {
        let mut words =
            result.split([' ', ';']).filter(|word| !word.is_empty()).collect::<Vec<_>>().into_iter().rev();
        words.find(|word| *word == of).and_then(|_| words.next()?.parse().ok()).unwrap_or(0)
    };
    Sum { passed: count("passed"), failed: count("failed"), skipped: count("ignored") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running tests/conformance.rs (target/debug/deps/conformance-1)

running 4 tests
test memory::a_stale_epoch_settles_nothing     ... ok
test sqlite::a_stale_epoch_settles_nothing     ... FAILED
test nats::a_round_trip_keeps_everything       ... ignored

failures:

---- sqlite::a_stale_epoch_settles_nothing ----
test output that looks like a verdict ... ok
the place moved

failures:
    sqlite::a_stale_epoch_settles_nothing

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 1 filtered out; finished in 0.14s

   Doc-tests posthaste
test crates/posthaste/src/lib.rs - Outbox (line 12) - compile ... ok
test slow ... ignored, takes an hour
test timed ... ok <0.012s>
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.00s
";
    const ERRORS: &str = "\
   Compiling posthaste v0.1.0
skipped: nats::a_round_trip_keeps_everything: POSTHASTE_TEST_NATS is not set
";

    #[test]
    fn the_sums_of_all_binaries_are_added() {
        assert_eq!(Trials::read(OUTPUT, ERRORS).sum, Sum { passed: 3, failed: 1, skipped: 2 });
    }

    #[test]
    fn every_verdict_is_read_and_none_from_a_failing_test_s_own_words() {
        let trials = Trials::read(OUTPUT, ERRORS);
        let of =
            |name: &str| trials.verdicts.iter().find(|(trial, _)| trial == name).map(|(_, verdict)| *verdict);
        assert_eq!(of("memory::a_stale_epoch_settles_nothing"), Some(Verdict::Ok));
        assert_eq!(of("sqlite::a_stale_epoch_settles_nothing"), Some(Verdict::Failed));
        assert_eq!(of("crates/posthaste/src/lib.rs - Outbox (line 12) - compile"), Some(Verdict::Ok));
        assert_eq!(of("timed"), Some(Verdict::Ok));
        assert_eq!(trials.verdicts.len(), 6);
    }

    #[test]
    fn skipped_trials_are_named_with_their_reason() {
        let trials = Trials::read(OUTPUT, ERRORS);
        let nats = ("nats::a_round_trip_keeps_everything", "POSTHASTE_TEST_NATS is not set");
        assert_eq!(trials.skipped().collect::<Vec<_>>(), [nats, ("slow", "takes an hour")]);
    }

    #[test]
    fn a_test_that_passes_because_it_skips_is_counted_as_skipped_once() {
        let errors = "skipped: timed: POSTHASTE_TEST_POSTGRES is not set\nskipped: timed: nor is the other\n";
        let trials = Trials::read(OUTPUT, errors);
        assert_eq!(trials.sum, Sum { passed: 2, failed: 1, skipped: 3 });
        assert!(trials.skipped().any(|skipped| skipped == ("timed", "nor is the other")));
    }

    #[test]
    fn a_demanded_server_makes_its_skipped_trials_failures_and_no_others() {
        let mut trials = Trials::read(OUTPUT, ERRORS);
        trials.demand_servers();
        assert_eq!(trials.sum, Sum { passed: 3, failed: 2, skipped: 1 });
        assert_eq!(trials.skipped().collect::<Vec<_>>(), [("slow", "takes an hour")]);
        assert!(
            trials.failures.contains("nats::a_round_trip_keeps_everything was skipped"),
            "{}",
            trials.failures
        );
    }

    #[test]
    fn a_server_that_nobody_must_have_makes_no_failure() {
        let errors = ERRORS.replace("POSTHASTE_TEST_NATS", "POSTHASTE_TEST_KAFKA");
        let mut trials = Trials::read(OUTPUT, &errors);
        trials.demand_servers();
        assert_eq!(trials.sum, Sum { passed: 3, failed: 1, skipped: 2 });
    }

    #[test]
    fn what_failed_is_named() {
        let trials = Trials::read(OUTPUT, ERRORS);
        assert_eq!(trials.failed().collect::<Vec<_>>(), ["sqlite::a_stale_epoch_settles_nothing"]);
    }

    #[test]
    fn the_words_of_one_failing_trial_are_found_among_others() {
        let output =
            "failures:\n\n---- a stdout ----\nfirst\n\n---- b ----\nsecond\n\nfailures:\n    a\n    b\n";
        let trials = Trials::read(output, "");
        assert_eq!(trials.failure_of("a").trim(), "first");
        assert!(trials.failure_of("b").starts_with("second"), "{}", trials.failure_of("b"));
        assert_eq!(trials.failure_of("c"), "");
    }

    #[test]
    fn what_failing_trials_said_is_kept() {
        let failures = Trials::read(OUTPUT, ERRORS).failures;
        assert!(failures.contains("the place moved") && !failures.contains("Doc-tests"), "{failures}");
    }
}
