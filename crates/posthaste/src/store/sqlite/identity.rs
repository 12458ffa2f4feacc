//! The identity of a database file, by whatever path it is opened.

use std::path::Path;

use posthaste_core::prefix::TablePrefix;

use super::files::FileId;

/// The identity of the tables with this prefix in this file: device and inode of the file, and the prefix.
///
/// All paths to one file give the same identity. A copy has another one, and so has a file that replaces one
/// that is still open. `None` when the file does not exist, or where the system has no such numbers.
pub fn identity(file: &Path, prefix: &TablePrefix) -> Option<String> {
    let FileId { device, inode } = FileId::of(file).ok()??;
    Some(format!("sqlite:{device}:{inode}:{prefix}"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_identity_by_all_its_names_and_a_copy_or_another_prefix_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let prefix = TablePrefix::default();
        std::fs::write(at("a"), "x").unwrap();
        std::fs::copy(at("a"), at("copy")).unwrap();
        std::os::unix::fs::symlink(at("a"), at("link")).unwrap();
        let first = identity(&at("a"), &prefix);
        assert!(first.is_some());
        assert_eq!(identity(&at("link"), &prefix), first);
        assert_ne!(identity(&at("copy"), &prefix), first);
        assert_ne!(identity(&at("a"), &"shop_".parse().unwrap()), first);
        assert_eq!(identity(&at("missing"), &prefix), None);
    }
}
