//! A scratch patch shows where a new command and a new filter field go.
//!
//! `xtask/fixtures/new-command-and-filter.patch` adds one of each. It may touch only the files that
//! `CONTRIBUTING.md` names for that, and the workspace compiles with it. So the list stays true, and a second
//! place for the same fact is noticed when it appears.

use std::fs;
use std::path::Path;
use std::process::Command;

use posthaste_testservers::{Doing as _, Error, Result};

const PATCH: &str = "xtask/fixtures/new-command-and-filter.patch";
const GUIDE: &str = "CONTRIBUTING.md";
/// The section of the guide that names the files.
const SECTION: &str = "## Add a command or a filter field";

/// Copies the workspace into a folder and applies the patch there.
///
/// # Errors
/// The patch touches a file that the guide does not name, or it does not apply.
pub(crate) fn apply(root: &Path, copy: &Path) -> Result<()> {
    let patch = fs::read_to_string(root.join(PATCH)).doing(format!("read {PATCH}"))?;
    let guide = fs::read_to_string(root.join(GUIDE)).doing(format!("read {GUIDE}"))?;
    let unnamed = unnamed(&patch, &guide);
    if !unnamed.is_empty() {
        return Err(Error::failed(format!(
            "{PATCH} touches {}, which {GUIDE} does not name under {SECTION:?}",
            unnamed.join(", ")
        )));
    }
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output().doing("run git")?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), copy.join(name));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).doing(format!("create {}", folder.display()))?;
        }
        // A file that was removed and not committed yet is not copied.
        if from.exists() {
            fs::copy(&from, &to).doing(format!("copy {name}"))?;
        }
    }
    let applied = Command::new("git").args(["apply", PATCH]).current_dir(copy).output().doing("run git")?;
    if applied.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&applied.stderr).trim().to_owned();
    Err(Error::failed(format!(
        "{PATCH} does not apply; change the code as it does, and write it again: {why}"
    )))
}

/// The files of a patch that the guide does not name in its section.
fn unnamed<'a>(patch: &'a str, guide: &str) -> Vec<&'a str> {
    let section = guide.split_once(SECTION).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let files = patch.lines().filter_map(|line| line.strip_prefix("+++ b/"));
    files.filter(|file| !section.split('`').skip(1).step_by(2).any(|named| is_named(named, file))).collect()
}

/// Whether a path of the guide names this file: by itself, or by a folder's name with one place holder.
fn is_named(named: &str, file: &str) -> bool {
    match named.split_once("<name>") {
        Some((begin, end)) => file.starts_with(begin) && file.ends_with(end),
        None => named == file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_guide_does_not_name_is_found() {
        let guide = format!("`e.rs`\n{SECTION}\n`a.rs`, then `b/<name>.rs`\n## More\n`c.rs`\n");
        let patch = |file: &str| format!("--- /dev/null\n+++ b/{file}\n@@ -0,0 +1 @@\n+x\n");
        for named in ["a.rs", "b/new.rs"] {
            assert!(unnamed(&patch(named), &guide).is_empty(), "{named}");
        }
        for file in ["c.rs", "e.rs", "b/new.sql"] {
            assert_eq!(unnamed(&patch(file), &guide), [file]);
        }
    }
}
