//! Every example runs and prints what stands beside it in its `.out` file.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo puts examples: beside the folder that this test runs in.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let profile =
        test.parent().and_then(Path::parent).expect("cargo runs tests two folders below the profile's");
    profile.join("examples").join(name)
}

#[test]
fn every_example_prints_what_it_promises() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    for source in names {
        let name = source.file_stem().unwrap().to_str().unwrap();
        let expected = std::fs::read_to_string(source.with_extension("out")).unwrap();
        let binary = built(name);
        assert!(binary.exists(), "{name} is not built: run `cargo build -p posthaste --examples`");
        let run = Command::new(binary).output().unwrap();
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(String::from_utf8(run.stdout).unwrap(), expected, "{name}");
    }
}
