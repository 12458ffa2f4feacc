//! `cargo xtask words`: the words of changed lines, and whether the [map](crate::map) is still one.
//!
//! Old lines stay as they are until somebody changes them. So only lines that were added since a commit are
//! checked: comments at most 110 columns wide, no phrase that has a plainer form, commit subjects of at most
//! 72 characters. `plain-english: REASON` in a comment on the line or on the line above excuses a line.
//!
//! The commit is in `xtask/fixtures/words-since`.

use std::fs;
use std::path::Path;
use std::process::Command;

use posthaste_testservers::{Doing as _, Error, Result, workspace};

use crate::map;
use crate::report::say;

/// How wide a comment is at most.
const COLUMNS_MAX: usize = 110;
/// How many characters a commit subject has at most.
const SUBJECT_MAX: usize = 72;
/// Where the commit is named from which on lines are checked.
const SINCE: &str = "xtask/fixtures/words-since";
/// This file quotes the phrases, so only the width of its comments is checked.
const OWN: &str = "xtask/src/words.rs";
/// What excuses a line.
const EXCUSE: &str = "plain-english:";

/// Phrases that a reader has to translate, and what to write instead.
const PHRASES: [(&str, &str); 12] = [
    ("whoever", "name who acts"),
    ("anew", "again"),
    ("for ever", "forever"),
    ("to be had", "available"),
    ("how-manieth", "the index"),
    ("so many", "at most N, or the number of"),
    ("so long", "at most that time, or the duration"),
    ("is no", "is not"),
    ("are no", "are not"),
    ("set aside", "park, or skip"),
    ("mend", "fix"),
    ("come to", "reach, or become"),
];

/// Prints what is wrong with the lines that were added since a commit; answers whether nothing is.
pub(crate) fn words(since: Option<&str>) -> Result<bool> {
    let (ok, findings) = findings(since)?;
    findings.iter().for_each(|line| say(line));
    Ok(ok)
}

/// Whether the map, the lines that were added since a commit, and the subjects of the commits since then are
/// well; and what to say of them.
pub(crate) fn findings(since: Option<&str>) -> Result<(bool, Vec<String>)> {
    let root = workspace()?;
    let since = match since {
        Some(since) => since.to_owned(),
        None => fs::read_to_string(root.join(SINCE)).doing(format!("read {SINCE}"))?.trim().to_owned(),
    };
    let mut wrong = map::findings(&root)?;
    if !has_commit(&root, &since) {
        let ok = wrong.is_empty();
        wrong.push(format!("lines not checked: this clone does not have the commit {since}"));
        return Ok((ok, wrong));
    }
    wrong.extend(subjects(&root, &since)?);
    let mut diff = vec!["diff", "--unified=1", "--no-color", "--no-ext-diff", &since, "--"];
    diff.extend(["*.rs", "*.sql", "*.toml", "*.sh", "*.py", "*.md"]);
    wrong.extend(of_diff(&git(&root, &diff)?));
    let ok = wrong.is_empty();
    if !ok {
        wrong.push(format!("{} findings; fix them, or say why not with `{EXCUSE} REASON`", wrong.len()));
    }
    Ok((ok, wrong))
}

fn has_commit(root: &Path, commit: &str) -> bool {
    let object = format!("{commit}^{{commit}}");
    git(root, &["cat-file", "-e", &object]).is_ok()
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let asked = Command::new("git").args(arguments).current_dir(root).output().doing("run git")?;
    if asked.status.success() {
        return Ok(String::from_utf8_lossy(&asked.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&asked.stderr);
    Err(Error::Failed(format!("git {} failed: {}", arguments.join(" "), said.trim())))
}

fn subjects(root: &Path, since: &str) -> Result<Vec<String>> {
    let subjects = git(root, &["log", "--format=%h %s", &format!("{since}..HEAD")])?;
    let too_long =
        |line: &&str| line.split_once(' ').is_some_and(|(_, subject)| subject.chars().count() > SUBJECT_MAX);
    let told = |line: &str| format!("commit {line}: a subject has at most {SUBJECT_MAX} characters");
    Ok(subjects.lines().filter(too_long).map(told).collect())
}

/// What is wrong with the added lines of a unified diff.
fn of_diff(diff: &str) -> Vec<String> {
    let (mut wrong, mut file, mut number, mut above) = (Vec::new(), String::new(), 0_usize, "");
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            file = name.strip_prefix("b/").unwrap_or(name).to_owned();
        } else if let Some(hunk) = line.strip_prefix("@@ ") {
            (number, above) = (first_number(hunk), "");
        } else if let Some(added) = line.strip_prefix('+') {
            let excused = added.contains(EXCUSE) || above.contains(EXCUSE);
            if !excused {
                wrong.extend(of_line(&file, added).map(|what| format!("{file}:{number}: {what}")));
            }
            (number, above) = (number + 1, added);
        } else if let Some(same) = line.strip_prefix(' ') {
            (number, above) = (number + 1, same);
        }
    }
    wrong
}

/// The number of the first line of a hunk in the new file: `-1,2 +3,4 @@`.
fn first_number(hunk: &str) -> usize {
    let new = hunk.split('+').nth(1).unwrap_or_default();
    let digits = new.find(|c: char| !c.is_ascii_digit()).unwrap_or(new.len());
    new[..digits].parse().unwrap_or(1)
}

/// What is wrong with one line.
fn of_line(file: &str, line: &str) -> Option<String> {
    let prose = prose(file, line)?;
    let columns = line.chars().count();
    if columns > COLUMNS_MAX && !file.ends_with(".md") && is_whole_comment(file, line) {
        return Some(format!("a comment of {columns} columns; at most {COLUMNS_MAX}"));
    }
    if file == OWN {
        return None;
    }
    let prose = without_code(prose).to_lowercase();
    let (phrase, instead) = PHRASES.iter().find(|(phrase, _)| has_phrase(&prose, phrase))?;
    Some(format!("{phrase:?}: {instead}"))
}

/// What of a line people read as sentences.
fn prose<'l>(file: &str, line: &'l str) -> Option<&'l str> {
    let mark = match file.rsplit_once('.')?.1 {
        "rs" => "//",
        "sql" => "--",
        "toml" | "sh" | "py" => "#",
        "md" => return Some(line),
        _ => return None,
    };
    let begin = line.find(mark)?;
    // A mark inside of a string is no comment: `"https://…"`.
    let is_in_text = line[..begin].matches('"').count() % 2 == 1;
    (!is_in_text).then(|| &line[begin..])
}

fn is_whole_comment(file: &str, line: &str) -> bool {
    prose(file, line).is_some_and(|prose| line.trim_start() == prose)
}

/// The text without what stands between backticks, which is quoted.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Whether a phrase stands there as whole words. "There is no lane" is plain English, "a lane is no reader"
/// is not.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        let stands_alone =
            !before.chars().next_back().is_some_and(is_word) && !after.chars().next().is_some_and(is_word);
        let negates = phrase.ends_with(" no");
        let is_plain = ["there", "where", "which"].iter().any(|word| before.trim_end().ends_with(word));
        stands_alone && !(negates && (is_plain || after.starts_with(" longer")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_read_and_code_is_not() {
        let wrong = |file: &str, line: &str| of_line(file, line).is_some();
        assert!(wrong("a.rs", "    /// Whoever asks makes it."));
        assert!(wrong("a.rs", "let x = 1; // anew"));
        assert!(wrong("a.sql", "-- It goes on for ever."));
        assert!(wrong("a.md", "It is not to be had."));
        assert!(!wrong("a.rs", "fn anew() {}"), "a name");
        assert!(!wrong("a.rs", "/// Calls `anew`."), "quoted");
        assert!(!wrong("a.rs", "let url = \"https://anew\";"), "a string");
        assert!(!wrong("a.rs", "/// Renews it."), "a part of a word");
        assert!(!wrong("a.json", "anew"), "no prose");
    }

    #[test]
    fn a_negated_noun_is_found_and_an_absent_one_is_not() {
        assert!(of_line("a.rs", "/// The queue is no target.").is_some());
        assert!(
            of_line("a.rs", "/// There is no queue, where there are no events, and it is no longer there.")
                .is_none()
        );
    }

    #[test]
    fn a_comment_may_be_110_columns_wide_and_code_is_the_formatters_business() {
        let comment = |columns: usize| format!("// {}", "a".repeat(columns - 3));
        assert!(of_line("a.rs", &comment(110)).is_none());
        assert!(of_line("a.rs", &comment(111)).is_some());
        assert!(of_line("a.rs", &format!("let x = {}; // a", "1".repeat(120))).is_none());
        assert!(of_line("a.md", &"a".repeat(200)).is_none(), "a paragraph");
    }

    #[test]
    fn only_added_lines_count_and_a_reason_excuses_one() {
        let diff = "\
--- a/x.rs
+++ b/x.rs
@@ -10,2 +10,5 @@ fn x()
 // whoever, as it was
-// anew
+// Again.
+// anew
+// plain-english: quotes the field's name
+// for ever
 // whoever
@@ -40,0 +44 @@
+// so many
";
        let found = of_diff(diff);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("x.rs:12: \"anew\""), "{found:?}");
        assert!(found[1].starts_with("x.rs:44: \"so many\""), "{found:?}");
    }
}
