//! `ARCHITECTURE.md` stays a map: it is short, its paths exist, and it names every crate.
//!
//! A page that also explains grows, and what it explains drifts away from the code. Reasons therefore stand
//! in the docs of modules.

use std::fs;
use std::path::Path;

use posthaste_testservers::{Doing as _, Result};

const MAP: &str = "ARCHITECTURE.md";
const BYTES_MAX: usize = 12 * 1024;
/// A code span that ends with one of these is a path even without a folder.
const FILE_ENDS: [&str; 4] = [".md", ".rs", ".sql", ".toml"];

/// What is wrong with the map of this workspace.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(MAP)).doing(format!("read {MAP}"))?;
    let folder = root.join("crates");
    let mut crates = Vec::new();
    for entry in fs::read_dir(&folder).doing("list the crates")? {
        crates.push(entry.doing("list the crates")?.file_name().to_string_lossy().into_owned());
    }
    Ok(of_text(&text, &crates, |path| root.join(path).exists() || folder.join(path).exists()))
}

fn of_text(text: &str, crates: &[String], exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > BYTES_MAX {
        let bytes = text.len();
        wrong.push(format!("{MAP}: {bytes} bytes; at most {BYTES_MAX}, move reasons to the docs of modules"));
    }
    for (line, number) in text.lines().zip(1..) {
        let spans = line.split('`').skip(1).step_by(2);
        let missing = spans.filter(|span| is_path(span) && !exists(span));
        wrong.extend(missing.map(|path| format!("{MAP}:{number}: there is no {path}")));
    }
    let unnamed = crates.iter().filter(|name| !text.contains(&format!("`{name}`")));
    wrong.extend(unnamed.map(|name| format!("{MAP}: the crate {name} is not named")));
    wrong
}

/// Whether a code span looks like a path of the repository. Patterns such as `a/{b,c}` do too, so that they
/// are written out.
fn is_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/*{},".contains(c);
    let has_folder = span.contains('/') && !span.starts_with('/');
    let is_file = FILE_ENDS.iter().any(|end| span.ends_with(end));
    span.chars().all(is_plain) && (has_folder || is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found_with_its_line() {
        let text = "`a/b.rs` and `a/gone.rs`\n`gone.md`, `a/{b,c}/`\n";
        let found = of_text(text, &[], |path| path == "a/b.rs");
        let expected = [(1, "a/gone.rs"), (2, "gone.md"), (2, "a/{b,c}/")]
            .map(|(number, path)| format!("{MAP}:{number}: there is no {path}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn code_that_is_not_a_path_is_left_alone() {
        let text =
            "`//!` `/healthz` `publish(&tx)` `crates` `posthaste bench` `https://x/y`\n```\na/b.rs\n```\n";
        assert_eq!(of_text(text, &[], |_| false), Vec::<String>::new());
    }

    #[test]
    fn a_map_that_is_too_long_or_lacks_a_crate_is_found() {
        let crates = ["posthaste".to_owned(), "posthaste-new".to_owned()];
        let found = of_text(&format!("`posthaste`{}", "x".repeat(BYTES_MAX)), &crates, |_| true);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("bytes") && found[1].contains("posthaste-new"), "{found:?}");
    }
}
