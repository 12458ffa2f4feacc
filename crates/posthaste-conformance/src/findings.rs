//! What was found out about each requirement, and the verdicts that follow from it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::requirement::{ALL, Requirement};

/// So many pieces of evidence are told for a requirement; more of the same says nothing new.
const TOLD_MAX: usize = 4;

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Findings {
    found: BTreeMap<&'static str, Found>,
}

#[derive(Debug, Default)]
struct Found {
    ok: Vec<String>,
    broken: Vec<String>,
    undecided: Vec<String>,
}

impl Findings {
    /// It held, and by this it was seen.
    pub(super) fn ok(&mut self, requirement: &'static str, evidence: impl Into<String>) {
        self.found.entry(requirement).or_default().ok.push(evidence.into());
    }

    /// It did not hold, and by this it was seen.
    pub(super) fn broken(&mut self, requirement: &'static str, evidence: impl Into<String>) {
        self.found.entry(requirement).or_default().broken.push(evidence.into());
    }

    /// It could not be seen here, for this reason.
    pub(super) fn undecided(&mut self, requirement: &'static str, why: impl Into<String>) {
        self.found.entry(requirement).or_default().undecided.push(why.into());
    }

    /// None of these could be seen here, for this reason.
    pub(super) fn all_undecided(&mut self, requirements: &[&'static str], why: &str) {
        for requirement in requirements {
            self.undecided(requirement, why);
        }
    }

    /// It held or not; the evidence says what was looked at, and what is seen otherwise.
    pub(super) fn hold(&mut self, requirement: &'static str, holds: bool, evidence: &str, otherwise: &str) {
        if holds { self.ok(requirement, evidence) } else { self.broken(requirement, otherwise) }
    }

    /// Whether nothing is known about it yet.
    pub(super) fn lacks(&self, requirement: &str) -> bool {
        !self.found.contains_key(requirement)
    }

    pub(super) fn take_in(&mut self, other: Self) {
        for (requirement, found) in other.found {
            let mine = self.found.entry(requirement).or_default();
            mine.ok.extend(found.ok);
            mine.broken.extend(found.broken);
            mine.undecided.extend(found.undecided);
        }
    }

    /// The verdict about every one of these requirements; `own`: the relay is Posthaste's own.
    pub(super) fn verdicts(&self, of: &[&str], own: bool) -> Vec<Verdict> {
        let wanted = ALL.iter().filter(|one| of.is_empty() || of.contains(&one.id));
        wanted.map(|one| self.verdict(one, own)).collect()
    }

    fn verdict(&self, requirement: &Requirement, own: bool) -> Verdict {
        let Requirement { id, words, document } = *requirement;
        let verdict = |result, evidence| Verdict { id, requirement: words, result, evidence };
        if let Some(document) = document {
            let theirs = "the relay's own documents must say it";
            return verdict(Outcome::ByDocument, if own { document } else { theirs }.to_owned());
        }
        match self.found.get(id) {
            Some(found) if !found.broken.is_empty() => verdict(Outcome::Failed, told(&found.broken)),
            Some(found) if !found.ok.is_empty() => verdict(Outcome::Ok, told(&found.ok)),
            Some(found) => verdict(Outcome::NotDecided, told(&found.undecided)),
            None => verdict(Outcome::NotDecided, "nothing was seen of it".to_owned()),
        }
    }
}

fn told(evidence: &[String]) -> String {
    let mut told: Vec<&str> = Vec::new();
    for one in evidence {
        if !told.contains(&one.as_str()) {
            told.push(one);
        }
    }
    let more = told.len().saturating_sub(TOLD_MAX);
    told.truncate(TOLD_MAX);
    let text = told.join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}

/// How it stands with a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ok,
    Failed,
    ByDocument,
    NotDecided,
}

impl Outcome {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::ByDocument => "by document",
            Self::NotDecided => "not decided",
        }
    }
}

/// A line of the report.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) id: &'static str,
    pub(super) requirement: &'static str,
    pub(super) result: Outcome,
    pub(super) evidence: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_outweighs_everything_and_nothing_seen_is_not_ok() {
        let mut findings = Findings::default();
        findings.ok("L1", "a");
        findings.broken("L1", "b");
        findings.undecided("L3", "no");
        let verdicts = findings.verdicts(&["L1", "L2", "L3", "S6"], true);
        let results: Vec<_> = verdicts.iter().map(|verdict| verdict.result).collect();
        assert_eq!(results, [Outcome::Failed, Outcome::NotDecided, Outcome::NotDecided, Outcome::ByDocument]);
        assert_eq!(verdicts[0].evidence, "b");
    }

    #[test]
    fn the_same_evidence_is_told_once_and_not_all_of_it() {
        let many: Vec<_> = ["a", "a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(told(&many), "a; b; c; d; and 1 more");
    }
}
